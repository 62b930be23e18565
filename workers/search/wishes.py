"""Choose the standing wishes that bear on a question: by cosine, by shared words, or because they are general.

They are few, so a search reads them in the round trip of its rows, and compares them here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.common_words import GRAMMAR
from engramq.schemas.contents import preview_of
from engramq.schemas.records import Memory, MemoryPreview
from engramq.workers.db.memory_rows import BEGINNING_CHARS
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup, LookupResult
from engramq.workers.db.vectors import Embedding, unit, unpack
from engramq.workers.sectors.forms import only_asks
from engramq.workers.sectors.wishes import is_general

STANDING: Final = sql("standing_to_compare")
NO_MODEL: Final = 0

BEARS_FROM: Final = 0.23  # cosine to the question; see docs/decisions/search.md
A_WORD: Final = 0.1  # of a cosine, that a shared word is worth
WORDS_COUNTED: Final = 2
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_ALSO: Final = (
    "after again also always answer asked asking before being doing every help here into just know make more most need "
    "never only other over prefer prefers really show such suggest than then these used using want wants whenever "
    "while without"
)
_EVERYWHERE: Final = GRAMMAR.union(_ALSO.split())


class _Wish(NamedTuple):
    id: str
    beginning: str
    vector: bytes | None
    writer: str | None


_wishes: Final = msgspec.json.Decoder(list[_Wish])


@dataclass(slots=True)
class Wishes:
    """The wishes of one search; `bearing` are those that bear on its question, best first.

    `callers`: the names under which the caller stores. Wishes of other writers say whose they are.
    """

    callers: frozenset[str] = frozenset()
    bearing: list[MemoryPreview] = field(default_factory=list)

    def asked(self, embedding: Embedding | None, project: str | None) -> Lookup:
        """Return the lookup whose answer `read` takes."""
        return Lookup(
            STANDING,
            {
                "project": project,
                "model_id": NO_MODEL if embedding is None else embedding.model_id,
                "beginning_chars": BEGINNING_CHARS,
                "limit": limits.STANDING_LISTED,
            },
        )

    def read(self, answer: LookupResult, question: str, embedding: Embedding | None) -> None:
        """Take those that bear on the question from the answer."""
        if answer is None:
            return
        asked = None if embedding is None else unit(unpack(embedding.half))
        words = _words(question)
        found = []
        for wish in _wishes.decode(answer):
            if only_asks(wish.beginning):
                continue
            shared = len(words & _words(wish.beginning))
            score = A_WORD * min(shared, WORDS_COUNTED)
            if asked is not None and wish.vector is not None:
                score += float(asked @ unpack(wish.vector))
            if score >= BEARS_FROM or is_general(wish.beginning):
                preview = preview_of(wish.beginning, limits.PREVIEW_CHARS)
                by = UNSET if wish.writer is None or wish.writer in self.callers else wish.writer
                found.append((score, MemoryPreview(id=wish.id, preview=preview, by=by)))
        found.sort(key=lambda pair: -pair[0])
        self.bearing = [preview for _, preview in found]

    def besides(self, memories: Iterable[Memory]) -> list[MemoryPreview]:
        """Return the first few of those that are none of these memories."""
        shown = {memory.id for memory in memories}
        return [wish for wish in self.bearing if wish.id not in shown][: limits.STANDING_SHOWN]


def _words(text: str) -> set[str]:
    """Return the telling words of a text, by their first letters, as endings differ."""
    return {word[:6] for word in _WORD.findall(text.casefold()) if word not in _EVERYWHERE}
