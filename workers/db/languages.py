"""The language of a namespace, by which full text knows words, and how far its words are made anew after a change."""

from dataclasses import dataclass
from typing import Any, Final

from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction

KNOWN: Final = sql("language_known")
LANGUAGE: Final = sql("full_text_language")
CHANGE: Final = sql("change_language")


@dataclass(frozen=True, slots=True, kw_only=True)
class FullText:
    """How full text of a namespace is made. `done` of `total` memories were looked at since a change; None: all have
    the words of the language."""

    language: str
    done: int | None = None
    total: int | None = None

    @property
    def told(self) -> dict[str, Any]:
        """The same as replies have it."""
        if self.done is None or self.total is None:
            return {"language": self.language}
        far = {"done": min(self.done, self.total), "total": self.total}  # a second pass counts on
        return {"language": self.language, "rebuilding": far}


async def full_text(tx: Transaction) -> FullText | None:
    """Return the language of the namespace; None for one that nobody has ever written to."""
    row = await tx.row(LANGUAGE)
    return None if row is None else FullText(**row)


async def known_languages(tx: Transaction) -> list[str]:
    """Return the languages that a namespace may have in this database."""
    row = await tx.row(KNOWN, language="")
    assert row is not None
    return [str(one) for one in row["known"]]


async def change_language(tx: Transaction, language: str) -> str | None:
    """Give the namespace a known language; return the one before, None when it is the same.

    Upkeep makes the words of its memories anew; until that is over searches look for those of both languages.
    """
    row = await tx.row(CHANGE, language=language)
    return None if row is None else str(row["language"])
