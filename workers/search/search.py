"""Find candidates, rank them, boost them by what lies around the best, judge the hits, and show the best memories.

`Search.run` does so from the tables or from a current copy of them, which makes no difference to what it finds.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from functools import partial
from itertools import compress, islice
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.commands import SearchMemories
from engramq.schemas.faults import EngramqError
from engramq.schemas.fields import or_none
from engramq.schemas.passages import Passages, words_of
from engramq.schemas.pastes import asks, read_prompt
from engramq.schemas.records import Answered, FollowedBy, Memory, Via
from engramq.schemas.vocabulary import Partition, Ranking, Relation
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.lookups import Ask, array
from engramq.workers.db.memory_rows import Known, usefulness
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup
from engramq.workers.memories.contradictions import mark_contradictions
from engramq.workers.search.boosts import Boosted, Reached, Surroundings, Use, boost_best
from engramq.workers.search.candidates import FILTERS, Filters, QuestionVectors, Source
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import (
    Candidates,
    Column,
    Measure,
    order_candidates,
    rank_by_score,
    rank_by_similarity,
)
from engramq.workers.search.relevance import DIGITS as RELEVANCE_DIGITS
from engramq.workers.search.relevance import Judge, answered_by
from engramq.workers.search.spellings import have_misspelt
from engramq.workers.search.wishes import Wishes

log = logging.getLogger(__name__)

Lift = Callable[[Candidates], Column]
Hit = tuple[int, Memory]  # with its row among the candidates

DIGITS: Final = 6  # of scores in replies
BEST: Final = 64  # candidates of each partition that can be boosted; twice as many as are shown if that is more
SEEDS: Final = 10  # the first of BEST of each partition: their links are followed
SPARE: Final = 6  # memories that are read beyond those to be shown, since boosts change the order a little
BESIDE: Final = 3  # of them, the first that what is shown is compared with: reading a text takes .1 to .4 ms

AROUND: Final = sql("search_around")
VISIBLE_BY_ID: Final = sql("visible_by_id")
CONTRADICTS: Final = Relation.CONTRADICTS
FOLLOWED_BY: Final = sql("followed_by")
ASKING: Final = 5  # hits that get what followed them: the first that ask


class SearchResult(NamedTuple):
    """The hits that a search shows, and whether they answer it.

    `left_out`: how many hits fell below the floor, and `best_left_out` the relevance of the best of these. `expected`:
    how many of the first ten are expected to help. `named`: how many memories that were found hold every word of the
    question, and `unshown` how many of these are not shown.
    """

    memories: list[Memory]
    answered: Answered
    left_out: int = 0
    best_left_out: float = 0.0
    expected: float = 0.0
    named: int = 0
    unshown: int = 0


NOTHING: Final = SearchResult([], "no")


class _Usage(NamedTuple):
    id: str
    helped: float
    hindered: float
    last_active_hours: float


class _Around(msgspec.Struct):
    hours: float
    links: list[Reached] | None
    usage: list[_Usage] | None


_NEVER_USED: Final = _Usage("", 0.0, 0.0, 0.0)
_around: Final = msgspec.json.Decoder(_Around)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A search: what it asks for, where it looks, and what it reads or adds in passing.

    Without an embedding words alone decide, whatever ranking is wanted. `min_relevance`: the least relevance of a hit
    that is shown; None: as learned. `wishes` are read beside the hits, `lift` adds to the scores.
    """

    command: SearchMemories
    question: Question
    filters: Filters
    source: Source
    vectors: QuestionVectors
    min_relevance: float | None
    wishes: Wishes | None = None
    lift: Lift | None = None

    async def run(self) -> SearchResult:
        """Return what is found, best first."""
        command, question, filters = self.command, self.question, self.filters
        candidates = await self.vectors.measure_by_all(partial(self.source.candidates, question, filters=filters))
        if not len(candidates):
            return NOTHING
        measure = Measure.of(question, candidates)
        first = rank_by_score(measure, candidates)
        judge = Judge.of(
            measure, first, self.vectors.curve, narrowed=filters.are_narrow, history=command.include_superseded
        )
        if command.ranking is Ranking.SIMILARITY and self.vectors.embedding is not None:
            ranking = Boosted(ranked=rank_by_similarity(candidates), via={})
            hits = await self._load_hits(ranking, {})
            return apply_relevance(hits, ranking, judge, self.min_relevance, explain=command.explain)
        best, seeds = first.foremost(max(BEST, 2 * command.limit)), first.foremost(SEEDS)
        probable = best[: command.limit + SPARE]
        nearby, read = await self._look_around(best, seeds, probable)
        linked = await self._load_linked(nearby, candidates)
        ranking = boost_best(measure, first, _surroundings(nearby, candidates, best, linked))
        if self.lift is not None:
            ranked = ranking.ranked
            ranked = order_candidates(ranked.candidates, ranked.scores + self.lift(ranked.candidates), ranked.parts)
            ranking = replace(ranking, ranked=ranked)
        hits = await self._load_hits(ranking, read)
        result = apply_relevance(hits, ranking, judge, self.min_relevance, explain=command.explain)
        if self.lift is None:  # extracts show nothing of what differs
            await add_replies(self.source.ask, result.memories, question.text, filters)
            shown = {memory.id for memory in result.memories}
            beside = [read[each] for each in probable if each in read and each not in shown][:BESIDE]
            against = {
                frozenset((link.seed, link.other)) for link in nearby.links or () if link.relation == CONTRADICTS
            }
            mark_contradictions(result.memories, beside, against)
        return result

    async def _look_around(
        self, best: Sequence[str], seeds: Sequence[str], probable: Sequence[str]
    ) -> tuple[_Around, dict[str, Memory]]:
        """Return what lies around the best, and from the same exchange the memories that will probably be shown."""
        wishes, embedding = self.wishes, self.vectors.embedding
        known = self.source.known.of(probable)
        around, rows, *besides = await self.source.ask(
            [
                Lookup(AROUND, {"best": array(best), "seeds": array(seeds)}),
                self._visible(probable, known),
                *([] if wishes is None else [wishes.asked(embedding, self.filters.project)]),
            ]
        )
        if wishes is not None:
            wishes.read(besides[0], self.question.text, embedding)
        assert around is not None
        return _around.decode(around), self.source.known.read(rows, known)

    async def _load_linked(self, nearby: _Around, candidates: Candidates) -> Candidates:
        """Return the memories at the other ends of links, as candidates are; those that are none are measured."""
        rows = candidates.row_of
        others = list(dict.fromkeys(link.other for link in nearby.links or ()))
        linked = candidates.chosen([rows[other] for other in others if other in rows])
        if missing := [other for other in others if other not in rows]:
            measure_missing = partial(self.source.measure, missing, self.question, filters=self.filters)
            linked = linked.joined(await self.vectors.measure_by_all(measure_missing))
        return linked

    async def _load_hits(self, ranking: Boosted, read: dict[str, Memory]) -> list[Hit]:
        """Take as many of the best as are wanted, with their rows; more when some are twins, or have gone."""
        command = self.command
        candidates, order = ranking.ranked.candidates, ranking.ranked.order
        if (least := command.min_similarity) is not UNSET:
            cosines = candidates.similarity
            order = [row for row in order if cosines[row] >= least]
        hits, said = list[Hit](), dict[str, set[Partition]]()
        for start in range(0, len(order), command.limit):
            chunk = order[start : start + command.limit]
            if missing := [candidates.ids[row] for row in chunk if candidates.ids[row] not in read]:
                known = self.source.known.of(missing)
                (answer,) = await self.source.ask([self._visible(missing, known)])
                read |= self.source.known.read(answer, known)
            for row in chunk:
                if (memory := read.get(candidates.ids[row])) is None:
                    continue
                if not (command.collapse_duplicates and is_repeated(memory, said)):
                    hits.append((row, _score(memory, ranking, row, explain=command.explain)))
            if len(hits) >= command.limit:
                break
        return hits[: command.limit]

    def _visible(self, ids: Sequence[str], known: Mapping[str, Known]) -> Lookup:
        """Ask for those memories that are still to be shown; `KnownMemories` reads the answer."""
        versions = array([memory.version for memory in known.values()])
        return Lookup(VISIBLE_BY_ID, {"ids": array(ids), "known": versions, **self.filters.visible})


def _surroundings(nearby: _Around, candidates: Candidates, best: Sequence[str], linked: Candidates) -> Surroundings:
    """Return what counts for the best candidates and those linked to them besides their match."""
    by_id, uses = {usage.id: usage for usage in nearby.usage or ()}, dict[str, Use]()
    for known, ids in ((linked, linked.ids), (candidates, best)):
        confidences, stored = known.confidence.tolist(), known.active_hours.tolist()
        for memory_id in ids:
            row, usage = known.row_of[memory_id], by_id.get(memory_id, _NEVER_USED)
            idle_hours = nearby.hours - max(stored[row], usage.last_active_hours)
            uses[memory_id] = Use(usefulness(confidences[row], usage.helped, usage.hindered), idle_hours)
    links = [link for link in nearby.links or () if link.other in linked.row_of]
    return Surroundings(hours=nearby.hours, uses=uses, links=links, linked=linked)


class _FollowingReply(NamedTuple):
    hit: str
    id: str
    speaker: str | None
    content: str


_replies: Final = msgspec.json.Decoder(list[_FollowingReply])


async def add_replies(ask: Ask, memories: Sequence[Memory], question: str, filters: Filters) -> None:
    """Give the first hits that ask what followed them, unless the database fails at that.

    Nothing is looked up where none asks in a thread.
    """
    in_threads = (memory for memory in memories if memory.thread is not None and asks(memory.content))
    asking = {memory.id: memory for memory in islice(in_threads, ASKING)}
    if not asking:
        return
    try:
        (answer,) = await ask([Lookup(FOLLOWED_BY, {"ids": array(list(asking)), **filters.visible})])
    except (EngramqError, StatementTimeout) as problem:  # the hits are known, and are the answer
        log.warning("Replies that followed were not looked up: %s", problem)
        return
    words = words_of(question)
    for reply in _replies.decode(answer) if answer is not None else ():
        asking[reply.hit].followed_by = FollowedBy(
            id=reply.id,
            speaker=UNSET if reply.speaker is None else reply.speaker,
            passage=Passages(reply.content, words).within(limits.FOLLOWED_CHARS),
        )


def apply_relevance(
    hits: Sequence[Hit], ranking: Boosted, judge: Judge, least: float | None, *, explain: bool
) -> SearchResult:
    """Give hits their relevance, and leave out those below the least that is shown; None: as learned.

    It reads the hits that fit into the reply; likelier ones further down do not move up. One that came over a link is
    as relevant as the hit that it is linked to, or as itself if it was found by itself too.
    """
    row_of, found = ranking.ranked.candidates.row_of, len(judge.everything.ranked.candidates)
    rows = [row if (link := ranking.via.get(row)) is None else row_of[link.seed] for row, _ in hits]
    by_itself = {place: row for place, (row, _) in enumerate(hits) if row != rows[place] and row < found}
    chances = judge.chances([*rows, *by_itself.values()])
    for place, chance in zip(by_itself, chances[len(rows) :], strict=True):
        chances[place] = max(chance, chances[place])
    del chances[len(rows) :]
    are_shown = judge.shown(rows, chances, least)
    if least is None:  # a word that is misspelt is in no index
        misspelt = _are_misspelt(judge.everything.measure.question, [memory for _, memory in hits])
        are_shown = [any(either) for either in zip(are_shown, misspelt, strict=True)]
    for row, (_, memory), chance in zip(rows, hits, chances, strict=True):
        memory.relevance = round(chance, RELEVANCE_DIGITS)
        if explain:
            memory.relevance_of = {name: round(lift, DIGITS) for name, lift in judge.made_of(row).items()}
    memories = [memory for (_, memory), is_shown in zip(hits, are_shown, strict=True) if is_shown]
    left_out = [chance for chance, is_shown in zip(chances, are_shown, strict=True) if not is_shown]
    named = judge.named_among(judge.everything.ranked.order)
    return SearchResult(
        memories,
        answered_by(memories),
        len(left_out),
        round(max(left_out, default=0.0), RELEVANCE_DIGITS),
        judge.trusted.expected,
        named,
        named - judge.named_among(row for row, is_shown in zip(rows, are_shown, strict=True) if is_shown),
    )


def _are_misspelt(question: Question, memories: Sequence[Memory]) -> list[bool]:
    """Say which memories have a question's words with one letter wrong; untrusted ones decide no spelling."""
    among_all = have_misspelt(question.telling, [memory.content for memory in memories])
    trusted = [memory.partition is Partition.TRUSTED for memory in memories]
    if all(trusted):
        return among_all
    among_trusted = have_misspelt(question.telling, [memory.content for memory in compress(memories, trusted)])
    own = iter(among_trusted)
    return [next(own) if side else of_all for side, of_all in zip(trusted, among_all, strict=True)]


def _score(memory: Memory, ranking: Boosted, row: int, *, explain: bool) -> Memory:
    ranked = ranking.ranked
    similarity = float(ranked.candidates.similarity[row])
    memory.score = round(float(ranked.scores[row]), DIGITS)
    memory.similarity = None if math.isnan(similarity) else round(similarity, DIGITS)
    if (link := ranking.via.get(row)) is not None:
        memory.via = Via(memory_id=link.seed, relation=link.relation, weight=link.weight)
    if explain:
        parts = ranked.explained(row)
        memory.explain = {name: None if part is None else round(part, DIGITS) for name, part in parts.items()}
    return memory


def is_repeated(memory: Memory, before: dict[str, set[Partition]]) -> bool:
    """Say whether a memory repeats one before it, apart from white space and case, and note it there.

    An untrusted memory never hides a trusted one, whichever comes first.
    """
    seen = before.setdefault(" ".join(memory.content.casefold().split()), set())
    repeated = Partition.TRUSTED in seen or memory.partition in seen
    seen.add(memory.partition)
    return repeated


def question_of(command: SearchMemories, filters: Filters, zone: tzinfo) -> Question:
    """Return what a search asks now, in a zone."""
    prompt = read_prompt(command.query)
    return Question(prompt.asked, datetime.now(zone), prompt.names, is_bounded=any(filters.times))


def filters_of(command: SearchMemories, project: str | None) -> Filters:
    """Return what a search in a project may find."""
    same: dict[str, Any] = {name: or_none(getattr(command, name)) for name in FILTERS}
    same |= {"partitions": tuple(dict.fromkeys(command.partitions)), "tags": same["tags"] or None, "project": project}
    return Filters(**same)
