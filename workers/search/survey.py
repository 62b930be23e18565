"""Survey a topic: what a search finds, but deep, as short extracts. Near-duplicates are shown once.

The order is that of a search, except for two kinds of topics. A topic that the caller has spoken of ("I said") prefers
memories of the speaker `user`; a summary counts the words of long memories in full. See docs/decisions/search.md.
"""

import asyncio
import math
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import SearchMemories, Surveyed, SurveyMemories
from engramq.schemas.contents import preview_of
from engramq.schemas.ids import mark_of
from engramq.schemas.passages import Passages, words_of
from engramq.schemas.pastes import read_prompt
from engramq.schemas.records import Extract, Memory, SurveyTotals
from engramq.schemas.vocabulary import SurveyOrder
from engramq.workers.queue.contract import SessionUse
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.search.counts import TopicCounts, count_named
from engramq.workers.search.handlers import SearchFindings, hint_elsewhere, search
from engramq.workers.search.ranking import Candidates, Column, or_nothing
from engramq.workers.search.relevance import MinRelevance
from engramq.workers.search.search import filters_of

# How many of the first ten have to be expected to be about a topic: fewer than for a question, which the judge learned.
LEAST_EXPECTED: Final = 0.03
DEPTH: Final = 200  # memories that are looked at, the nearest
BEYOND: Final = "{} more name it than all pages show: narrow it by since and until, thread, tags or more words."
UNCOUNTED: Final = "Counting all took too long: the totals are of what was found, the nearest 200 at the most."
PAGE_CHARS: Final = 5_000  # of the texts of a page: with all that is around them they take 3,000 tokens at the most
NAMED_CHARS: Final = 24  # fewer for each thread and speaker that is named
SAID_BY_USER: Final = 1.0  # deviations of the score; on BEAM orders of events .54 to .65 among 40
WHOLE_WORDS: Final = 1.0  # the same of what a memory has of the words, whatever its length; summaries .31 to .41
COMPARED_CHARS: Final = 2_000  # of a memory: near-duplicates differ nowhere, long ones hardly behind that
ALIKE: Final = 0.9  # of the words of two memories together, that both have
_FILTERS: Final = ("since", "until", "stored_since", "stored_until", "thread", "project", "tags")
_DAY: Final = 10  # characters of a time
_USER: Final = "user"  # as chats call who speaks with the assistant
_SAID: Final = re.compile(
    r"\bI (?:(?:have|first|also|ever|just) )*(?:brought up|bring up|mention(?:ed)?|sa(?:y|id)|ask(?:ed)?|tell|told|"
    r"talk(?:ed)?|discuss(?:ed)?)\b|\bmy (?:questions|requests|messages)\b",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(r"\bsummar(?:y|i[sz]e)|\boverview\b|\brecap\b", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")


@handles_without_transaction(SurveyMemories)
async def survey_memories(command: SurveyMemories, context: Context) -> Surveyed:
    """Show what is kept about a topic; a cursor is the marks of what was shown before."""
    asked, envelope = _search(command), context.envelope
    found = await search(asked, context, lift=lambda candidates: lift_topic(command.topic, candidates))
    filters = filters_of(asked, envelope.project_named(command.project))
    named = await count_named(context, command.topic, filters, found.result.memories)

    async def follow(_use: SessionUse | None) -> None:
        if found.refresh is not None:
            await found.refresh()

    context.after_reply = None if found.refresh is None else follow
    is_silent = context.services[MinRelevance].least is None
    # 200 long memories take a second
    reply = await asyncio.to_thread(_survey, command, found, named, context.settings.timezone, is_silent=is_silent)
    if not reply.extracts and not command.cursor:
        reply.hint = await hint_elsewhere(asked, context)
    return reply


def _survey(
    command: SurveyMemories, found: SearchFindings, named: TopicCounts | None, zone: tzinfo, *, is_silent: bool
) -> Surveyed:
    """Fold what was found; `is_silent`: nothing is shown where nothing is about the topic."""
    shown = command.cursor or ""
    result = found.result
    is_about = result.named or (named and named.found) or result.expected >= LEAST_EXPECTED or not is_silent
    memories = result.memories if is_about else []
    groups = [group for group in fold(memories) if not _was_shown(group, shown)]
    page = page_of(command.topic, groups[: command.limit], command.order)
    extracts = extracts_of(page, zone)
    if named is None:
        those = min(result.named, len(memories))
        totals = SurveyTotals(named=those, near=len(memories) - those, by_month={}, by_thread={})
        counted: str | UnsetType = UNCOUNTED
    else:
        totals, beyond = named.totals(len(memories)), named.memories - named.found
        counted = BEYOND.format(beyond) if beyond > 0 else UNSET
    goes_on = bool(page) and len(groups) > len(page)
    return Surveyed(
        topic=preview_of(command.topic, limits.PREVIEW_CHARS),
        answered=result.answered if memories else "no",
        extracts=extracts,
        totals=totals,
        next_cursor=shown + "".join(mark_of(extract.id) for extract in extracts) if goes_on else None,
        shown=shown,
        degraded=found.degraded,
        notice=" ".join(text for text in (found.notice, counted) if text is not UNSET) or UNSET,
    )


def _search(command: SurveyMemories) -> SearchMemories:
    filters = {name: getattr(command, name) for name in _FILTERS}
    return SearchMemories(query=command.topic, limit=DEPTH, **filters)


def lift_topic(topic: str, candidates: Candidates) -> Column:
    """Return what a topic of one of two kinds adds to the scores of candidates, see the head of this module."""
    if _SAID.search(topic):
        return SAID_BY_USER * np.array([speaker == _USER for speaker in candidates.speaker], dtype=np.float64)
    if not _SUMMARY.search(topic):
        return np.zeros(len(candidates))
    covered = or_nothing(candidates.covered)
    lift: Column = WHOLE_WORDS * (covered - covered.mean()) / (float(covered.std()) or 1.0)
    return lift


def fold(memories: Iterable[Memory]) -> list[list[Memory]]:
    """Return near-duplicates together, in the order of the first of each group, which stands for the others."""
    groups: list[tuple[frozenset[str], list[Memory]]] = []
    for memory in memories:
        words = frozenset(_WORD.findall(memory.content[:COMPARED_CHARS].casefold()))
        alike = next((group for others, group in groups if _are_alike(words, others)), None)
        if alike is None:
            groups.append((words, [memory]))
        else:
            alike.append(memory)
    return [group for _, group in groups]


def _are_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    """Say whether two memories have nearly the same words; a number or negation of one alone tells them apart."""
    fewer, more = sorted((len(words), len(others)))
    if not fewer or fewer < ALIKE * more:
        return False
    both = len(words & others)
    if both < ALIKE * more:
        return False
    differing = words ^ others
    return both >= ALIKE * (both + len(differing)) and not any(
        word in _NEGATIONS or any(character.isdigit() for character in word) for word in differing
    )


_NEGATIONS: Final = frozenset({"no", "not", "never", "none", "without", "t"})  # t: of don't


def _was_shown(group: Sequence[Memory], shown: str) -> bool:
    marks = {shown[start : start + 4] for start in range(0, len(shown), 4)}
    return any(mark_of(memory.id) in marks for memory in group)


def page_of(topic: str, groups: Sequence[Sequence[Memory]], order: SurveyOrder) -> list[tuple[Sequence[Memory], str]]:
    """Return as many of the first groups as a page has room for, each with what it says of the topic."""
    by_time = sorted(groups, key=lambda group: _place(group[0])) if order is SurveyOrder.TIME else groups
    first = [group[0] for group in by_time]
    names = (*_changes([memory.thread for memory in first]), *_changes([memory.speaker for memory in first]))
    room = PAGE_CHARS - NAMED_CHARS * sum(name is not UNSET for name in names)
    page = list(zip(groups, texts_of(topic, [group[0].content for group in groups], room), strict=False))
    return sorted(page, key=lambda told: _place(told[0][0])) if order is SurveyOrder.TIME else page


def texts_of(topic: str, contents: Sequence[str], chars: int = PAGE_CHARS) -> list[str]:
    """Return what contents say of a topic, in whole sentences: of the first ones, as far as there is room."""
    words = words_of(read_prompt(topic).asked)
    weights, texts, left = _weights(words, contents), list[str](), chars
    for place, content in enumerate(contents):
        share = left // (len(contents) - place)
        most = limits.EXTRACT_CHARS
        is_short = len(content) <= min(share, most)
        text = " ".join(content.split()) if is_short else Passages(content, words, weights).sentence(share, most)
        left -= len(text)
        if left < 0 and texts:
            break
        texts.append(text)
    return texts


def extracts_of(page: Sequence[tuple[Sequence[Memory], str]], zone: tzinfo = UTC) -> list[Extract]:
    """Return the extract of each group, thread and speaker only where they are not those of the extract before."""
    first = [group[0] for group, _ in page]
    threads = _changes([memory.thread for memory in first])
    speakers = _changes([memory.speaker for memory in first])
    return [
        Extract(
            id=memory.id,
            at=_day_of(memory, zone),
            thread=thread,
            speaker=speaker,
            text=text,
            same=len(group) - 1,
        )
        for memory, thread, speaker, (group, text) in zip(first, threads, speakers, page, strict=True)
    ]


def _changes(names: Sequence[str | None]) -> list[str | UnsetType | None]:
    """Return the names that differ from the one before."""
    return [UNSET if name == before else name for name, before in zip(names, [None, *names], strict=False)]


def _weights(words: Sequence[str], contents: Sequence[str]) -> dict[str, float]:
    """Return what each word of a topic weighs: the more, the fewer of the contents have it."""
    lower = [content.lower() for content in contents]
    return {word: math.log((1 + len(lower)) / (0.5 + sum(word in each for each in lower))) for word in words}


def _place(memory: Memory) -> tuple[datetime, str, int, str]:
    return memory.moment, memory.thread or "", memory.position or 0, memory.id


def _day_of(memory: Memory, zone: tzinfo) -> str:
    """Return the day that a memory tells of, else the one on which it was stored, in a zone."""
    return (memory.occurred_at or memory.moment.astimezone(zone).isoformat())[:_DAY]
