"""Carry out searches, and count after the reply which memories were found."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import MemoryList, SearchMemories, SurveyMemories
from engramq.schemas.commands.memories import MoreNamed
from engramq.schemas.pastes import read_prompt
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import EVERY_PROJECT, LIKELY, Partition, Ranking
from engramq.workers.db.database import Store
from engramq.workers.db.lookups import array
from engramq.workers.db.memory_rows import mark_visibility, visible_now
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.confidence import ConfidenceCurve
from engramq.workers.embedders.other_models import ForeignVectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.memories.grounds import mark_grounds
from engramq.workers.memories.other_projects import beside, describe_unknown_project, places
from engramq.workers.queue.background import Activity, Debounce
from engramq.workers.queue.contract import SessionState, SessionUse
from engramq.workers.runner import Context, Services, handles_without_transaction
from engramq.workers.search.candidates import CANDIDATES, QuestionVectors, Tables
from engramq.workers.search.copies import Copies
from engramq.workers.search.counts import asks_for_all, count_named
from engramq.workers.search.relevance import MinRelevance
from engramq.workers.search.search import Lift, Search, SearchResult, filters_of, question_of
from engramq.workers.search.wishes import Wishes

NOTE_ACCESS: Final = sql("note_access")

# How long each statement of a search may take, and none after its caller has stopped waiting.
SEARCH_S: Final = 4.0
NOTES_MAX: Final = 20_000  # beyond, notes are dropped: they are best effort


class UsageCounts:
    """Counts which memories were found; one per process."""

    def __init__(self, store: Store, activity: Activity, *, stopping: asyncio.Event | None = None) -> None:
        self._store = store
        self._notes: dict[str, Counter[str]] = {}
        self._noted = 0
        self._debounce = Debounce.of_notes(self._write_all, activity, stopping)

    async def note(self, namespace: str, ids: Sequence[str]) -> None:
        """Count that these memories were found. Raises EngramqError or ResultUnknown when they cannot be counted."""
        if self._noted + len(ids) > NOTES_MAX:
            return
        self._noted += len(ids)
        self._notes.setdefault(namespace, Counter()).update(ids)
        await self._debounce.soon()

    async def _write_all(self) -> None:
        notes, self._notes, self._noted = self._notes, {}, 0
        for namespace, times in notes.items():
            await self._store.write(namespace, partial(note_access, times=times))


async def note_access(tx: Transaction, times: Mapping[str, int]) -> None:
    """Count that memories were found so many times."""
    await tx.send(NOTE_ACCESS, ids=array(list(times)), times=array(list(map(str, times.values()))))


MORE_QUERY_CHARS: Final = 120  # of a query that a call repeats
_REPEATED: Final = frozenset({"query", "limit", "explain"})
_OF_SURVEYS: Final = frozenset(SurveyMemories.__struct_fields__) - _REPEATED
_OF_RANKING: Final = frozenset({"ranking", "min_similarity", "min_relevance", "collapse_duplicates"})
HITS: Final = ("hit", "hits")
LEAST_OF_MANY: Final = 0.0005  # relevance in a survey, whose memories may each be unlikely beside the best
LEFT_OUT: Final = "Less likely hits are left out: {}; min_relevance 0 shows them too."
EARLIER_IN: Final = 3  # of the first hits one may have replaced what is asked for
# "What must I do before the rebuild?", "What is the key used to sign?" and "früher aufstehen" ask of nothing earlier.
_EARLIER: Final = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|originally|(?:had|was|were)\s+before)\b"
    r"|\A(?:(?!\b(?:is|are|was|were|be|been|being)\b).)*\bused\s+to\b"
    r"|\b(?:before|earlier)(?:\s+(?:that|then|this))?(?:\s*,|\W*\Z)"
    r"|\b(?:damals|ehemals|ursprünglich|(?:ehemalige|bisherige)[nrsm]?)\b"
    r"|\A(?=.*\b(?:waren|war|wurden?|hatten?|gab|hieß|hießen|(?:wohn|leb|arbeit|kost)e?ten?|standen|stand|lag|galt)\b)"
    r".*\b(?:früher|vorher|zuvor|(?:frühere|vorherige)[nrsm]?)\b"
    r"|\b(?:auparavant|autrefois|précédente?s?|ancien(?:ne)?s?|anteriormente|anterior(?:es)?)\b|\b(?:avant|antes)\W*\Z"
    r"|以前|之前|かつて|前は",
    re.IGNORECASE | re.DOTALL,
)
REPLACED: Final = "{id} replaced an earlier memory: include_superseded=true shows it too{then}."
HELD_THEN: Final = ', as_of="{day}" what held then'
NO_SURE_ANSWER: Final = "No sure answer here. {} hidden, best {:.2f}; min_relevance 0 shows them."


class SearchFindings(NamedTuple):
    """The result of a search. `refresh` is to be awaited after the reply, None when nothing is due."""

    result: SearchResult
    notice: str | UnsetType
    degraded: bool | UnsetType
    refresh: Callable[[], Awaitable[None]] | None


async def search(
    command: SearchMemories, context: Context, wishes: Wishes | None = None, lift: Lift | None = None
) -> SearchFindings:
    """Run a search; while the model runs, the copy of a small namespace is proven current."""
    namespace, viewer, copies = context.envelope.namespace, context.store.viewer, context.services[Copies]
    filters = filters_of(command, context.envelope.project_named(command.project))
    question = question_of(command, filters, context.settings.timezone)
    # Relevance tells names from what is asked; plain similarity takes the question as it is.
    names = () if command.ranking is Ranking.SIMILARITY else question.names
    copy, embedding = await asyncio.gather(  # what asks the server first, since the model may keep the loop
        copies.find_current(namespace, command.partitions, question, viewer),
        context.services[Vectorizer].try_read(question.text, names),
    )
    foreign, confidence = context.services[ForeignVectors], context.services[ConfidenceCurve]
    vectors = QuestionVectors(None)
    notice: str | UnsetType = UNSET
    if embedding is not None and not embedding.is_blank:
        read = await foreign.read((namespace, viewer), command.partitions, embedding.model_id, [question.text])
        vectors, notice = QuestionVectors(embedding, read.readings, confidence.known), read.notice
    asked: dict[str, Any] = {"command": command, "question": question, "filters": filters, "vectors": vectors}
    least = _least_relevance(command, lift, context.services)
    search_in = partial(Search, **asked, min_relevance=least, wishes=wishes, lift=lift)
    if copy is None:
        sizes = context.services[Sizes]

        async def search_tables(tx: Transaction) -> SearchResult:
            # From now on: the model may have taken its seconds, and words alone still answer.
            await tx.limit_statements(min(SEARCH_S, context.patience_s - (time.monotonic() - context.since)))
            return await search_in(source=Tables(tx, sizes)).run()

        result = await context.store.read(namespace, search_tables)
    else:
        result = await search_in(source=copy).run()
    uncalibrated = vectors.embedding is not None and vectors.curve is None

    async def refresh() -> None:
        await foreign.refresh((namespace, viewer))
        if copy is None:
            await copies.prepare(namespace, command.partitions, viewer)
        if uncalibrated:
            await confidence.calibration()

    due = copy is None or foreign.is_due((namespace, viewer)) or uncalibrated
    degraded = True if embedding is None else UNSET
    return SearchFindings(result, notice, degraded, refresh if due else None)


def _least_relevance(command: SearchMemories, lift: Lift | None, services: Services) -> float | None:
    """Return the least relevance of a hit that is shown, None: as learned."""
    if command.min_relevance is not UNSET:
        return command.min_relevance
    if command.ranking is Ranking.SIMILARITY:
        return 0.0  # cosines alone were asked for: no judge of relevance takes any of them away
    least = services[MinRelevance].least
    return LEAST_OF_MANY if least is None and lift is not None else least


async def hint_elsewhere(command: SearchMemories, context: Context) -> str | UnsetType:
    """Say where else there are hits for a search that shows nothing likely, and whether its project is there at all.

    All projects are searched once, and only where there are others: trusted hits that the caller may see.
    """
    project, namespace = context.envelope.project_named(command.project), context.envelope.namespace
    if project == EVERY_PROJECT or Partition.TRUSTED not in command.partitions:
        return UNSET
    there = await beside(partial(context.store.look_up, namespace), project)
    said = []
    if project is not None and not there.is_known:
        is_named = command.project is not UNSET
        unknown = partial(describe_unknown_project, project=project, is_named=is_named)
        said.append(await context.store.read(namespace, unknown))
    if there.has_others or command.project_only:
        wide = msgspec.structs.replace(
            command, project=EVERY_PROJECT, project_only=False, partitions=(Partition.TRUSTED,), explain=False,
            limit=limits.SEARCH_LIMIT, ranking=Ranking.RELEVANCE, min_relevance=command.min_relevance or UNSET,
        )  # fmt: skip
        hits = sorted((await search(wide, context)).result.memories, key=lambda hit: -(hit.relevance or 0.0))
        # Memories of no project were searched already, unless one project alone was.
        beside_it = (hit.project for hit in hits if hit.project != project and (hit.project or command.project_only))
        said.append(places(Counter(beside_it), HITS))
    return " ".join(filter(None, said)) or UNSET


@handles_without_transaction(SearchMemories)
async def search_memories(command: SearchMemories, context: Context) -> MemoryList:
    """Find memories. While the model is away words alone decide, whatever ranking was asked for."""
    if command.sectors == ():
        context.session_state = SessionState(recalled=())
        return MemoryList(memories=[], count=0, answered="no")
    wishes = None
    if Partition.TRUSTED in command.partitions and command.as_of is UNSET:
        wishes = Wishes(context.envelope.principal.writers)
    result, notice, degraded, refresh = await search(command, context, wishes)
    memories, left_out = result.memories, result.left_out
    hints = [UNSET if memories else _hint(result)]
    # People are shown unlikely hits as well, and see by nothing else that the answer is in another project.
    if not memories or (command.min_relevance == 0 and result.answered != "yes"):
        hints.append(await hint_elsewhere(command, context))
    if any(memory.evidence for memory in memories):
        await context.store.read(context.envelope.namespace, partial(mark_grounds, memories=memories))
    notices = [notice, LEFT_OUT.format(left_out) if left_out and memories else UNSET]
    if command.as_of is UNSET and not command.include_superseded:
        notices.append(await point_to_earlier(memories, command, context))
    context.session_state = SessionState(recalled=tuple(memory.id for memory in memories))
    # An untrusted principal keeps no trusted memory from fading. Unlikely hits, which people see, do not count.
    untrusted, unlikely = context.envelope.principal.untrusted, command.min_relevance == 0
    counting = [
        memory
        for memory in memories
        if not (untrusted and memory.partition is Partition.TRUSTED)
        and not (unlikely and (memory.relevance or 0.0) < LIKELY)
    ]

    async def follow(use: SessionUse | None) -> None:
        if refresh is not None:
            await refresh()
        if counting:
            await asyncio.gather(
                context.services[UsageCounts].note(context.envelope.namespace, [memory.id for memory in counting]),
                # Memories that held at another time make no pair of use now.
                *([context.services[CoRetrievals].note(counting, use)] if command.as_of is UNSET else ()),
            )

    context.after_reply = follow if counting or refresh else None
    standing = UNSET if wishes is None else wishes.besides(memories) or UNSET
    return MemoryList(
        memories=mark_visibility(memories),
        count=len(memories),
        answered=result.answered,
        left_out=left_out or UNSET,
        hint=" ".join(text for text in hints if text is not UNSET) or UNSET,
        more=await _more(command, context, result),
        standing=standing,
        degraded=degraded,
        notice=" ".join(text for text in notices if text is not UNSET) or UNSET,
    )


def _hint(result: SearchResult) -> str | UnsetType:
    """Say what was found and is not shown where nothing is, and say no more than that."""
    if not result.left_out:
        return UNSET
    hits = "1 weaker hit" if result.left_out == 1 else f"{result.left_out} weaker hits"
    return NO_SURE_ANSWER.format(hits, result.best_left_out)


async def point_to_earlier(memories: Sequence[Memory], command: SearchMemories, context: Context) -> str | UnsetType:
    """Return how to see what a hit has replaced, where the question is of a time before it, or of what was before.

    Nothing is said where nothing replaced can be shown, nor `as_of` where none of it held then.
    """
    replacing = next((memory for memory in memories[:EARLIER_IN] if memory.supersedes is not None), None)
    if replacing is None:
        return UNSET
    filters, zone = filters_of(command, None), context.settings.timezone
    question = question_of(command, filters, zone)
    day = question.last_day
    if day is not None and day.isoformat() >= (replacing.valid_from or replacing.created_at)[:10]:
        return UNSET
    if day is None and not _EARLIER.search(question.text):
        return UNSET
    moment = None if day is None else datetime.combine(day, datetime.min.time(), zone)  # as `as_of` takes a day
    asked = visible_now(filters.partitions) | {"as_of": moment, "id": UUID(replacing.id)}

    async def read_replaced(tx: Transaction) -> Sequence[bool]:
        return [row["held"] for row in await tx.rows("replaced_by_hit", **asked)]

    held = await context.store.read(context.envelope.namespace, read_replaced)
    then = HELD_THEN.format(day=day) if any(held) else ""
    return REPLACED.format(id=replacing.id, then=then) if held else UNSET


async def _more(command: SearchMemories, context: Context, result: SearchResult) -> MoreNamed | UnsetType:
    """Say how many memories that name what was asked for are not shown, and the call that lists them.

    Full text counts them where all about something is asked for, which words besides its name hide from the search, and
    where all candidates name it: there are probably more. Nothing is said where counting takes too long.
    """
    beyond, shown = result.unshown, len(result.memories)
    asked = read_prompt(command.query).asked
    asks_all = shown and (shown == command.limit or result.left_out) and asks_for_all(asked)
    if asks_all or result.named >= CANDIDATES:
        filters = filters_of(command, context.envelope.project_named(command.project))
        named = await count_named(context, asked, filters, result.memories)
        beyond = 0 if named is None else max(named.memories - named.found, result.unshown)
    if beyond < 1:
        return UNSET
    return MoreNamed(n=beyond, call=call_for_more(command, asked, beyond, is_listed=beyond == result.unshown))


def call_for_more(command: SearchMemories, asked: str, beyond: int, *, is_listed: bool) -> str:
    """Return the call that shows more, with the filters of the command; `is_listed`: a longer list has them all.

    It is a survey where the longest list has no room, unless that has not all of the filters.
    """
    given: dict[str, Any] = msgspec.to_builtins(command)
    filters = {name: given[name] for name in command.__struct_fields__ if name in given and name not in _REPEATED}
    limit = min(limits.SEARCH_LIMIT, command.limit + beyond)
    if (is_listed and limit == command.limit + beyond) or filters.keys() - _OF_SURVEYS - _OF_RANKING:
        tool, values = "search_memories", {"query": asked[:MORE_QUERY_CHARS], "limit": limit, **filters}
    else:
        of_surveys = {name: value for name, value in filters.items() if name in _OF_SURVEYS}
        tool, values = "survey_memories", {"topic": asked[:MORE_QUERY_CHARS], **of_surveys}
    said = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
    return f"{tool}({said})"
