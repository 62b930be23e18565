"""What tests of links work with: an agent, the rows behind it, and links that automatic writers would have made."""

import asyncio
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import UUID

from engramq.schemas.ids import pair_of, uuid7
from tests.conftest import Database
from tests.scenarios.stage import Agent

_numbers = count()
# What a refusal must not change.
_WRITTEN = ("edges", "audit_log", "link_tombstones", "deferred_links")


@dataclass
class Harness:
    """An agent and the database that its words end up in."""

    agent: Agent
    database: Database

    async def memories(self, number: int, **fields: Any) -> list[str]:
        """Store so many memories that have nothing in common; return their ids in the order of their making."""
        return [(await self.agent.store(f"word{next(_numbers)}", **fields))["id"] for _ in range(number)]

    async def connect(self, source: str, target: str, **fields: Any) -> dict[str, Any]:
        """Connect two memories; return the reply, which must be a success."""
        body = await self.agent.call("connect", source=source, target=target, **fields)
        assert body["status"] == "success", body
        return body

    async def refused(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the refusal of a call, having seen that it has a recovery and wrote nothing."""
        before = await self.written()
        body = await self.agent.call(tool, **arguments)
        assert body["status"] == "error", body
        assert body["recovery"]
        assert await self.written() == before
        return body

    async def seed(self, one: str, other: str, relation: str = "similar", weight: float = 0.5, **columns: Any) -> UUID:
        """Write a link past everybody, of an automatic writer unless `origin` says otherwise; return its id."""
        low, high = pair_of(UUID(one), UUID(other))
        link_id = UUID(uuid7())
        values = {"id": link_id, "layer": "association", "source_id": low,
                  "target_id": high, "relation": relation, "weight": weight, "origin": "similarity",
                  "declared_from": UUID(one), **columns}  # fmt: skip
        names, places = ", ".join(values), ", ".join(["%s"] * len(values))
        await self.rows(
            f"insert into edges (tenant, {names}) values (make_tenant('default_user'), {places})", *values.values()
        )
        return link_id

    async def fill(self, memory_id: str, others: list[str], relation: str = "supports") -> None:
        """Link a memory with others as an agent would."""
        for other in others:
            await self.seed(memory_id, other, relation, origin="agent")

    async def links(self, memory_id: str | None = None) -> list[dict[str, Any]]:
        """Return all links, or those of a memory, oldest first."""
        return await self.rows(
            "select * from edges where layer = 'association' and (%s::uuid is null or %s in (source_id, target_id)) "
            "order by created_at, id",
            memory_id,
            memory_id and UUID(memory_id),
        )

    async def link(self, one: str, other: str) -> dict[str, Any] | None:
        """Return the row of the link between two memories."""
        pair = pair_of(UUID(one), UUID(other))
        found = [row for row in await self.links() if (row["source_id"], row["target_id"]) == pair]
        assert len(found) < 2
        return found[0] if found else None

    async def pairs(self, memory_id: str | None = None) -> set[tuple[str, str]]:
        """Return the ends of all links, or of those of a memory, the older one of each first."""
        return {(str(row["source_id"]), str(row["target_id"])) for row in await self.links(memory_id)}

    async def degrees(self) -> dict[str, int]:
        """Return how many links count at each active memory."""
        rows = await self.rows("""
            with active as (
                select node_id as id from memories
                where state = 'active' and superseded_by is null and verification <> 'rejected'
            ), ends as (
                select source_id as id, target_id as other from edges
                where layer = 'association' and relation <> 'supersedes'
                union all
                select target_id, source_id from edges where layer = 'association' and relation <> 'supersedes'
            )
            select id, count(*) as links from ends join active using (id)
            where other in (select id from active)
            group by id
        """)
        return {str(row["id"]): row["links"] for row in rows}

    async def audited(self, action: str) -> list[dict[str, Any]]:
        """Return what the audit log holds of an action, oldest first."""
        return await self.rows("select * from audit_log where action = %s order by id", action)

    async def written(self) -> list[list[dict[str, Any]]]:
        """Return everything that a refusal must leave as it is."""
        return [await self.rows(f"select * from {table} order by 1, 2, 3") for table in _WRITTEN]

    async def unembed(self, *ids: str) -> None:
        """Let memories be as they are when the model was away at their store."""
        await self.rows(
            "update memories set state = 'pending', embedding = null, model_id = null where node_id = any(%s)",
            [UUID(item) for item in ids],
        )

    async def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner."""
        # In a thread: workers in this loop may hold the locks that the query waits for.
        return await asyncio.to_thread(self.database.rows, query, *values)
