"""Find the candidates of a search: by words, by vector, or by both in one statement.

Vectors that a former model made are compared by that model. Its cosines become those that are as good a sign by the
curve of the model that runs, so that one ranking holds for all candidates.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec
import numpy as np

from engramq.schemas.vocabulary import EVERY_PROJECT, Partition, Sector
from engramq.workers.db.lookups import Ask, array
from engramq.workers.db.memory_rows import KnownMemories
from engramq.workers.db.queries import sized_sql, sql
from engramq.workers.db.transaction import LOOK_UP, Lookup, LookupResult, Transaction
from engramq.workers.db.vectors import COUNTED_ROWS, EXACT_ROWS, NOTHING_COMPARED, SET_EF_SEARCH, Embedding, Sizes
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.embedders.other_models import FormerQuestions
from engramq.workers.search.question import HALF_LENGTH, MOST_WORDS, Question
from engramq.workers.search.ranking import Candidates, as_array

Measurer = Callable[[Embedding | None], Awaitable[Candidates]]


@dataclass(frozen=True, slots=True)
class QuestionVectors:
    """The embedding by the model that runs, None while it is away; then former ones are left out too.

    `curve`: of the model that runs; None: not known yet, and cosines stay as they are.
    """

    embedding: Embedding | None
    former: Sequence[FormerQuestions] = field(default=())
    curve: Calibration | None = None

    async def measure_by_all(self, measure: Measurer) -> Candidates:
        """Return what is measured by each embedding as one; those of former models come later."""
        candidates = await measure(self.embedding)
        for former in self.former:
            candidates = candidates.completed(self._convert(await measure(former.embeddings[0]), former.curve))
        return candidates

    def _convert(self, candidates: Candidates, curve: Calibration) -> Candidates:
        own = self.curve
        if own is None:
            return candidates
        similarity, meaning = (
            [cosine if math.isnan(cosine) else own.cosine_of(cosine, curve) for cosine in cosines.tolist()]
            for cosines in (candidates.similarity, candidates.meaning)
        )
        return msgspec.structs.replace(candidates, similarity=similarity, meaning=meaning)


SEARCH_TEXT: Final = sql("search_text")
CHOSEN_SIZE: Final = sql("chosen_size")
# Everybody's memories up to which all are compared where the index gave too few: a second or two. With more, what the
# index gave is the answer.
COMPLETED_ROWS: Final = 1_000_000
# The queries for a namespace without vectors that are repeated often, and with some.
EXACT: Final = ("search_exact", "search_exact_repeated")
BY_INDEX: Final = ("search_by_index", "search_by_index_repeated")

CANDIDATES: Final = 200  # of each arm; with 100 the tenth place loses a point of recall
EF_SEARCH: Final = 200  # hnsw.ef_search: as many as are wanted
# Memories that full text looks up, 2 to 4 microseconds each. On LoCoMo a tenth of a namespace costs no recall, since
# common words still count for what rarer ones or the vectors found.
POSTINGS: Final = 1_000
WORDS: Final = 64  # of the question, the rarest

LINKED: Final = "search_linked"
NO_VECTOR: Final = 1  # dimensions that the query is made for when there is no vector to compare

_candidates: Final = msgspec.json.Decoder(Candidates, dec_hook=as_array)


def single_partitions(partitions: Sequence[Partition]) -> dict[str, Partition]:
    """Return at most two partitions as single values: by these a plan that is kept leaves the other one out."""
    return {"first": partitions[0], "last": partitions[-1]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The conditions that a memory must meet to be found.

    `sectors` None: all; `min_sector_confidence` leaves out what has no sector; `tags`: all of them; `project`: of this
    one and, unless `project_only`, of none (None: of none alone, EVERY_PROJECT: of all). `since` and `until` are on
    occurred_at, else created_at, the others on created_at, all ends included. `as_of`: what held then; None: what
    holds.
    """

    partitions: Sequence[Partition]
    sectors: Sequence[Sector] | None = None
    min_sector_confidence: float | None = None
    tags: Sequence[str] | None = None
    project: str | None = None
    project_only: bool = False
    thread: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    stored_since: datetime | None = None
    stored_until: datetime | None = None
    include_superseded: bool = False
    as_of: datetime | None = None

    @property
    def are_selective(self) -> bool:
        """Whether an index other than that of the vectors may find what they leave."""
        several = (self.thread, *self.times, self.tags, self.as_of)
        return any(value is not None for value in several) or self.project not in {None, EVERY_PROJECT}

    @property
    def times(self) -> tuple[datetime | None, ...]:
        """The bounds of when it happened, and of when it was stored."""
        return self.since, self.until, self.stored_since, self.stored_until

    @property
    def are_narrow(self) -> bool:
        """Whether the caller says where the answer lies, beyond the project that it works in."""
        return any(value is not None for value in (self.sectors, self.tags, self.thread, *self.times))

    @property
    def visible(self) -> dict[str, Any]:
        """The parameters of lookups that read which memories are still to be shown."""
        return {
            "partitions": array(self.partitions),
            **single_partitions(self.partitions),
            "include_superseded": self.include_superseded,
            "as_of": self.as_of,
        }

    @property
    def values(self) -> dict[str, Any]:
        """The parameters of the fragment `chosen`."""
        values = {name: getattr(self, name) for name in FILTERS}
        values["min_sector_confidence"] = _single(self.min_sector_confidence)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


FILTERS: Final = tuple(each.name for each in fields(Filters))


async def find_candidates(
    tx: Transaction,
    sizes: Sizes,
    question: Question,
    embedding: Embedding | None,
    filters: Filters,
    *,
    scan: bool = False,
) -> Candidates:
    """Return at most CANDIDATES of each arm, in no order; by words alone when there is no embedding.

    `scan`: compare every vector, whatever it costs.
    """
    query, values = await choose_query(tx, sizes, question, embedding, filters, scan=scan)
    row = await tx.only_row(query, **values)
    if embedding is not None and not row["is_whole"]:
        # What the index gave is of others, hidden, or many times the same: nothing else is to be missed for it.
        size = await sizes.of(tx, filters.partitions)
        if size.everybodys <= COMPLETED_ROWS:
            row = await tx.only_row(sized_sql(EXACT[True], embedding.dimensions), **values)
    return _candidates.decode(row["candidates"])


async def choose_query(
    tx: Transaction,
    sizes: Sizes,
    question: Question,
    embedding: Embedding | None,
    filters: Filters,
    *,
    scan: bool = False,
) -> tuple[bytes, dict[str, Any]]:
    """Return the query that finds the candidates best, and its parameters; prepare the transaction for it."""
    size = await sizes.of(tx, filters.partitions)
    values = filters.values | {
        "question": question.words,
        "spellings": question.spellings,
        "written": [writing.own for writing in question.writings],
        "ways": ["\n".join(writing.others) for writing in question.writings],
        "zone": question.zone,
        "asked_days": days_as_text(question),
        "size": max(size.own if size.own <= COUNTED_ROWS else size.everybodys, 1),
        "postings": POSTINGS,
        "words": WORDS,
        "half_length": HALF_LENGTH,
        "most_words": MOST_WORDS,
        "candidates": CANDIDATES,
        "knows_repeated": size.has_repeated,
    }
    if embedding is None:
        return SEARCH_TEXT, values
    exact = scan or size.exact or (filters.are_selective and await _are_few(tx, filters))
    if not exact:
        await tx.send(SET_EF_SEARCH, ef_search=str(EF_SEARCH))
    values |= embedding.compared
    return sized_sql((EXACT if exact else BY_INDEX)[size.has_repeated], embedding.dimensions), values


async def _are_few(tx: Transaction, filters: Filters) -> bool:
    row = await tx.row(CHOSEN_SIZE, **filters.values, limit=EXACT_ROWS + 1)
    return row is not None and row["memories"] <= EXACT_ROWS


class Source(Protocol):
    """Where a search finds memories: the tables, or a copy of them that is current."""

    @property
    def ask(self) -> Ask:
        """Answer lookups from the tables; they come after the candidates."""

    @property
    def known(self) -> KnownMemories:
        """Memories that need not be read again."""

    async def candidates(self, question: Question, embedding: Embedding | None, filters: Filters) -> Candidates:
        """Return the candidates of a search, by words alone when there is no embedding."""

    async def measure(
        self, ids: Sequence[str], question: Question, embedding: Embedding | None, filters: Filters
    ) -> Candidates:
        """Measure memories that were no candidates: those of these ids that the search may find."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Where a search finds memories that no copy has: the tables, in a transaction that is open."""

    tx: Transaction
    sizes: Sizes
    known: KnownMemories = field(default_factory=KnownMemories)

    async def candidates(self, question: Question, embedding: Embedding | None, filters: Filters) -> Candidates:
        """Return the candidates of a search; see `find_candidates`."""
        return await find_candidates(self.tx, self.sizes, question, embedding, filters)

    async def ask(self, lookups: Sequence[Lookup]) -> list[LookupResult]:
        """Answer lookups, which come after the candidates."""
        await self.tx.send(LOOK_UP)
        return await self.tx.look_up(lookups)

    async def measure(
        self, ids: Sequence[str], question: Question, embedding: Embedding | None, filters: Filters
    ) -> Candidates:
        """Measure memories that were no candidates: those of these ids that the search may find."""
        row = await self.tx.row(
            sized_sql(LINKED, NO_VECTOR if embedding is None else embedding.dimensions),
            **filters.values,
            **single_partitions(filters.partitions),
            zone=question.zone,
            most_words=MOST_WORDS,
            **(NOTHING_COMPARED if embedding is None else embedding.compared),
            ids=array(ids),
        )
        assert row is not None
        return _candidates.decode(row["candidates"])


def days_as_text(question: Question) -> str | None:
    """Return the days that decide as PostgreSQL writes a datemultirange; None where none do."""
    spans = ",".join(f"[{span.first.isoformat()},{span.last.isoformat()}]" for span in question.days)
    return f"{{{spans}}}" if spans else None


def _single(value: float | None) -> float | None:
    """Return a number as PostgreSQL's `real` has it, which refuses what is too small for it in place of making it 0."""
    return None if value is None else float(np.float32(value))
