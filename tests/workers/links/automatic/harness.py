"""An agent, and what a test wants to see of the database behind it."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tests.conftest import Database
from tests.scenarios.stage import Agent, until


@dataclass
class Harness:
    """Rows are read as the owner, past what the workers' role may not see."""

    agent: Agent
    database: Database

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        return self.database.rows(query, *values)

    def links(self) -> dict[frozenset[str], dict[str, Any]]:
        """Return the links by their two ends."""
        rows = self.rows("select * from edges where layer = 'association'")
        return {frozenset((str(row["source_id"]), str(row["target_id"]))): row for row in rows}

    def degrees(self) -> Counter[str]:
        """Return how many links each memory has."""
        return Counter(end for pair in self.links() for end in pair)

    def age(self) -> None:
        """Let all memories be so old that the sweep takes them up."""
        self.rows("update memories set created_at = created_at - interval '1 minute'")

    async def sees(self, query: str, *values: Any) -> bool:
        """Say whether a query finds anything."""
        return bool(self.rows(query, *values))

    async def linked(self, count: int | None = None) -> None:
        """Wait until the links of all memories (of so many) that may have them are made."""

        async def made() -> bool:
            (row,) = self.rows(
                "select count(*) filter (where links_made_at is null and state = 'active') as left, "
                "count(*) filter (where links_made_at is not null) as made from memories"
            )
            return row["left"] == 0 and (count is None or row["made"] >= count)

        await until(made)
