"""What a search finds: candidates, their order with all that boosts them, and the memories that are shown of them."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, UnsetType

from engramq.schemas.commands import SearchMemories
from engramq.schemas.fields import or_none
from engramq.schemas.records import Memory, Via
from engramq.schemas.vocabulary import Partition, Ranking
from engramq.workers.db.memory_rows import memory_record
from engramq.workers.db.pool import Row
from engramq.workers.db.transaction import LOOK_UP, Sent, Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.search.boosts import Boosted, Reached, boosted
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.copies import Proven
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates, Measure, by_relevance, by_similarity
from engramq.workers.search.selection import Twins, within_budget
from engramq.workers.search.surroundings import (
    Measuring,
    measuring_by_key,
    send_around,
    send_visible,
    surroundings,
)

DIGITS: Final = 6  # of scores in replies
BEST: Final = 64  # candidates of each partition that can be boosted; twice as many as are shown if that is more
SEEDS: Final = 10  # the first of BEST of each partition: their links are followed
SPARE: Final = 4  # memories that are read beyond those to be shown, since boosts change the order a little


async def find_memories(
    tx: Transaction, sizes: Sizes, command: SearchMemories, embedding: Embedding | None, proven: Proven | None = None
) -> list[Memory]:
    """Return what a search finds, best first. Without an embedding words alone decide, whatever ranking is wanted.

    With a proven copy of the namespace the transaction serves to read what is shown and what lies around it.
    """
    question, filters = Question(command.query), _filters(command)
    if proven is None:
        candidates = await find_candidates(tx, sizes, question, embedding, filters)
        await tx.send(LOOK_UP)
        measuring = measuring_by_key(tx, question, embedding, filters)
    else:
        candidates = proven.candidates(question, embedding, filters)
        measuring = proven.measuring(question, embedding, filters)
    if not len(candidates):
        return []
    read: dict[str, Row] = {}
    if command.ranking is Ranking.SIMILARITY and embedding is not None:
        found = Boosted(ranked=by_similarity(candidates), via={})
    else:
        found, read = await _by_relevance(tx, command, question, filters, candidates, measuring)
    memories = await _shown(tx, found, command, filters, read)
    return memories if command.max_chars is UNSET else within_budget(memories, command.max_chars)


async def _by_relevance(
    tx: Transaction,
    command: SearchMemories,
    question: Question,
    filters: Filters,
    candidates: Candidates,
    measuring: Measuring,
) -> tuple[Boosted, dict[str, Row]]:
    """Return the order with all its boosts, and the rows of those that will probably be shown."""
    measure = Measure.of(question, candidates)
    first = by_relevance(measure, candidates)
    best, seeds = first.foremost(max(BEST, 2 * command.limit)), first.foremost(SEEDS)
    around = await send_around(tx, best, seeds)
    reading = await send_visible(tx, best[: command.limit + SPARE], filters)
    found = boosted(measure, first, await surroundings(around, candidates, best, measuring))
    return found, await _rows(reading)


async def _shown(
    tx: Transaction, found: Boosted, command: SearchMemories, filters: Filters, read: dict[str, Row]
) -> list[Memory]:
    """Take as many of the best as are wanted; more when some turn out to be twins, or to have gone."""
    memories: list[Memory] = []
    twins = Twins()
    order = _near_enough(found, command.min_similarity)
    ids = found.ranked.candidates.ids
    for start in range(0, len(order), command.limit):
        chunk = order[start : start + command.limit]
        missing = [ids[row] for row in chunk if ids[row] not in read]
        rows = {**read, **await _rows(await send_visible(tx, missing, filters))} if missing else read
        for row in chunk:
            if ids[row] not in rows:
                continue
            memory = memory_record(rows[ids[row]])
            if not (command.collapse_duplicates and twins.is_repeated(memory)):
                memories.append(_scored(memory, found, row, explain=command.explain))
        if len(memories) >= command.limit:
            break
    return memories[: command.limit]


async def _rows(sent: Sent) -> dict[str, Row]:
    return {str(row["id"]): row for row in await sent.fetchall()}


def _near_enough(found: Boosted, least: float | UnsetType) -> Sequence[int]:
    ranked = found.ranked
    if least is UNSET:
        return ranked.order
    similarity = ranked.candidates.similarity
    return [row for row in ranked.order if (known := similarity[row]) is not None and known >= least]


def _scored(memory: Memory, found: Boosted, row: int, *, explain: bool) -> Memory:
    ranked = found.ranked
    similarity = ranked.candidates.similarity[row]
    memory.score = round(float(ranked.scores[row]), DIGITS)
    memory.similarity = None if similarity is None else round(similarity, DIGITS)
    if (link := found.via.get(row)) is not None:
        memory.via = _via(link)
    if explain:
        parts = ranked.explained(row)
        memory.explain = {name: None if part is None else round(part, DIGITS) for name, part in parts.items()}
    return memory


def _via(link: Reached) -> Via:
    return Via(memory_id=link.seed, relation=link.relation, weight=link.weight)


def _filters(command: SearchMemories) -> Filters:
    return Filters(
        partitions=_each_once(command.partitions),
        sectors=or_none(command.sectors),
        thread=or_none(command.thread),
        since=or_none(command.since),
        until=or_none(command.until),
        include_superseded=command.include_superseded,
    )


def _each_once(partitions: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return the partitions without repetitions."""
    return tuple(dict.fromkeys(partitions))
