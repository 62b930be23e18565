"""What a search finds: candidates, their order with all that boosts them, and the memories that are shown of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET, UnsetType

from engramq.schemas.commands import SearchMemories
from engramq.schemas.fields import or_none
from engramq.schemas.records import Memory, Via
from engramq.schemas.vocabulary import Partition, Ranking
from engramq.workers.db.lookups import Ask
from engramq.workers.db.memory_rows import JsonRow, memory_from_json, rows_from_json
from engramq.workers.db.transaction import LOOK_UP, Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.calibration import Calibration
from engramq.workers.search.boosts import Boosted, Reached, boosted
from engramq.workers.search.candidates import Filters, QuestionVectors, find_candidates
from engramq.workers.search.copies import Proven
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, Measure, by_relevance, by_similarity
from engramq.workers.search.selection import Twins, is_weak
from engramq.workers.search.surroundings import (
    Measuring,
    around_lookup,
    measured_by_key,
    surroundings,
    visible_lookup,
)

DIGITS: Final = 6  # of scores in replies
BEST: Final = 64  # candidates of each partition that can be boosted; twice as many as are shown if that is more
SEEDS: Final = 10  # the first of BEST of each partition: their links are followed
SPARE: Final = 4  # memories that are read beyond those to be shown, since boosts change the order a little


@dataclass(frozen=True, slots=True)
class _Search:
    """A search that has its candidates, and the ways to what it still needs to know."""

    command: SearchMemories
    filters: Filters
    question: Question
    candidates: Candidates
    measuring: Measuring
    ask: Ask
    vectors: QuestionVectors


async def find_memories(
    tx: Transaction,
    sizes: Sizes,
    command: SearchMemories,
    vectors: QuestionVectors,
    project: str | None = None,
) -> list[Memory]:
    """Return what a search in a project finds in the tables, best first.

    Without an embedding words alone decide, whatever ranking is wanted.
    """
    question, filters = Question(command.query, datetime.now(UTC)), _filters(command, project)
    candidates = await vectors.by_all(lambda one: find_candidates(tx, sizes, question, one, filters))
    await tx.send(LOOK_UP)

    async def measuring(ids: Sequence[str]) -> Candidates:
        return await vectors.by_all(lambda one: measured_by_key(tx, question, one, filters, ids))

    return await _found(_Search(command, filters, question, candidates, measuring, tx.look_up, vectors))


async def find_in_copy(
    ask: Ask, command: SearchMemories, vectors: QuestionVectors, proven: Proven, project: str | None = None
) -> list[Memory]:
    """Return the same from a proven copy; what is shown of it, and what lies around it, is asked for."""
    question, filters = Question(command.query, datetime.now(UTC)), _filters(command, project)
    candidates = await vectors.by_all(lambda one: proven.candidates(question, one, filters))

    async def measuring(ids: Sequence[str]) -> Candidates:
        return await vectors.by_all(lambda one: proven.measured(ids, question, one, filters))

    return await _found(_Search(command, filters, question, candidates, measuring, ask, vectors))


async def _found(search: _Search) -> list[Memory]:
    command = search.command
    if not len(search.candidates):
        return []
    read: dict[str, JsonRow] = {}
    if command.ranking is Ranking.SIMILARITY and search.vectors.embedding is not None:
        found = Boosted(ranked=by_similarity(search.candidates), via={})
    else:
        found, read = await _by_relevance(search)
    return await _shown(search, found, read)


async def _by_relevance(search: _Search) -> tuple[Boosted, dict[str, JsonRow]]:
    """Return the order with all its boosts, and the rows of those memories that will probably be shown."""
    limit = search.command.limit
    measure = Measure.of(search.question, search.candidates)
    first = by_relevance(measure, search.candidates)
    best, seeds = first.foremost(max(BEST, 2 * limit)), first.foremost(SEEDS)
    shown = visible_lookup(best[: limit + SPARE], search.filters)
    around, read = await search.ask([around_lookup(best, seeds), shown])
    found = boosted(measure, first, await surroundings(around, search.candidates, best, search.measuring))
    return found, rows_from_json(read)


async def _shown(search: _Search, found: Boosted, read: dict[str, JsonRow]) -> list[Memory]:
    """Take as many of the best as are wanted; more when some turn out to be twins, or to have gone."""
    command = search.command
    memories: list[Memory] = []
    twins = Twins()
    order = _near_enough(found, command.min_similarity)
    ids = found.ranked.candidates.ids
    for start in range(0, len(order), command.limit):
        chunk = order[start : start + command.limit]
        if missing := [ids[row] for row in chunk if ids[row] not in read]:
            (more,) = await search.ask([visible_lookup(missing, search.filters)])
            read = {**read, **rows_from_json(more)}
        for row in chunk:
            if (known := read.get(ids[row])) is None:
                continue
            memory = memory_from_json(known)
            if not (command.collapse_duplicates and twins.is_repeated(memory)):
                memories.append(_scored(memory, found, row, search))
        if len(memories) >= command.limit:
            break
    return memories[: command.limit]


def _near_enough(found: Boosted, least: float | UnsetType) -> Sequence[int]:
    ranked = found.ranked
    if least is UNSET:
        return ranked.order
    similarity = ranked.candidates.similarity
    return [row for row in ranked.order if (known := similarity[row]) is not None and known >= least]


def _scored(memory: Memory, found: Boosted, row: int, search: _Search) -> Memory:
    ranked = found.ranked
    similarity = ranked.candidates.similarity[row]
    memory.score = round(float(ranked.scores[row]), DIGITS)
    memory.similarity = None if similarity is None else round(similarity, DIGITS)
    if (link := found.via.get(row)) is not None:
        memory.via = _via(link)
    curve = search.vectors.curve
    if curve is not None and is_weak_hit(found, row, curve):  # without a curve nobody knows what a cosine means
        memory.weak = True
    if search.command.explain:
        parts = ranked.explained(row)
        memory.explain = {name: None if part is None else round(part, DIGITS) for name, part in parts.items()}
    return memory


def is_weak_hit(found: Boosted, row: int, curve: Calibration) -> bool:
    """Say whether a hit is weak; one that came over a link is as weak as the hit that it is linked to."""
    candidates = found.ranked.candidates
    link = found.via.get(row)
    judged = row if link is None else candidates.ids.index(link.seed)
    return is_weak(candidates.similarity[judged], candidates.covered[judged], curve)


def _via(link: Reached) -> Via:
    return Via(memory_id=link.seed, relation=link.relation, weight=link.weight)


def _filters(command: SearchMemories, project: str | None) -> Filters:
    return Filters(
        partitions=_each_once(command.partitions),
        sectors=or_none(command.sectors),
        min_sector_confidence=or_none(command.min_sector_confidence),
        tags=command.tags or None,
        project=project,
        thread=or_none(command.thread),
        since=or_none(command.since),
        until=or_none(command.until),
        include_superseded=command.include_superseded,
        as_of=or_none(command.as_of),
    )


def _each_once(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return the partitions without repetitions."""
    return tuple(dict.fromkeys(partitions))
