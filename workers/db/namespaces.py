"""Remember in which namespaces something changed, for upkeep to look there alone, and the language of each.

Every command that writes notes its change in its own transaction (see ledger.sql), so that whatever that leaves to be
done is found. The end of such work notes nothing: the change stands until a look finds nothing left.

By its language full text of a namespace knows words; after a change of it upkeep makes the words anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction


class Looks(StrEnum):
    """The readers of noted changes."""

    SWEEP = "sweep"  # for unfinished work
    COUNTS = "counts"  # for words to count
    ANY = "any"  # at all that are remembered: those of the last three minutes, and some older ones


async def note(tx: Transaction) -> None:
    """Note a change in a transaction without a ledger row of its own."""
    await tx.send("note_change")


async def find_changed(store: Store, looks: Looks) -> dict[str, datetime]:
    """Return the namespaces to look at, with the moment at which this look began."""
    return {row["namespace"]: row["seen_at"] for row in await store.ask("changed_namespaces", kind=looks.value)}


async def settle(store: Store, looks: Looks, seen: Mapping[str, datetime]) -> None:
    """Settle the changes that looks which began at these moments found nothing left of, by namespace."""
    if seen:
        await store.ask("settle_changes", kind=looks.value, names=list(seen), looked_at=list(seen.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FullText:
    """How full text of a namespace is made. `done` of `total` memories were looked at since a change; None: all have
    the words of the language."""

    language: str
    done: int | None = None
    total: int | None = None

    @property
    def as_reply(self) -> dict[str, Any]:
        """The same as replies have it."""
        if self.done is None or self.total is None:
            return {"language": self.language}
        far = {"done": min(self.done, self.total), "total": self.total}  # a second pass counts on
        return {"language": self.language, "rebuilding": far}


async def full_text(tx: Transaction) -> FullText | None:
    """Return the language of the namespace; None for one that nobody has ever written to."""
    row = await tx.row("full_text_language")
    return None if row is None else FullText(**row)


async def known_languages(tx: Transaction) -> list[str]:
    """Return the languages that a namespace may have in this database."""
    row = await tx.only_row("language_known", language="")
    return [str(language) for language in row["known"]]


async def change_language(tx: Transaction, language: str) -> str | None:
    """Give the namespace a known language; return the one before, None when it is the same.

    Upkeep makes the words of its memories anew; until that is over searches look for those of both languages.
    """
    row = await tx.row("change_language", language=language)
    return None if row is None else str(row["language"])
