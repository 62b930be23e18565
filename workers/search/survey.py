"""Survey a topic: what a search finds, but deep, as short extracts. Near-duplicates are shown once.

The order is that of a search but for two kinds of topics. What somebody asks to have said themselves was said by the
user; a summary is of long memories too, whose words count whole there. See docs/decisions/search.md.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.commands import SearchMemories, Surveyed, SurveyMemories
from engramq.schemas.contents import CUT, preview_of
from engramq.schemas.ids import mark_of
from engramq.schemas.records import Extract, Memory
from engramq.schemas.vocabulary import SurveyOrder
from engramq.workers.queue.contract import SessionUse
from engramq.workers.runner import Context, handles_without_transaction
from engramq.workers.search.counts import Named, count_named
from engramq.workers.search.handlers import Searched, hint_elsewhere, searched
from engramq.workers.search.ranking import Candidates, Column, or_nothing
from engramq.workers.search.relevance import Floor
from engramq.workers.search.search import filters_of

# How many of the first ten have to be expected to be about a topic: fewer than for a question, which the judge learned.
LEAST_EXPECTED: Final = 0.03
DEPTH: Final = 200  # memories that are looked at, the nearest
BEYOND: Final = "{} more name it than all pages show: narrow it by since and until, thread, tags or more words."
PAGE_CHARS: Final = 2_700  # of the texts of a page: 40 extracts take some 2,500 tokens with all that is around them
NAMED_CHARS: Final = 24  # fewer for each thread and speaker that is named
LEAST_CHARS: Final = 40  # of a text, on average, on longer pages
STARTS: Final = 50  # words of the topic in a sentence, around which it may be cut
SAID_BY_USER: Final = 1.0  # deviations of the score; on BEAM orders of events .54 to .65 among 40
WHOLE_WORDS: Final = 1.0  # the same of what a memory has of the words, whatever its length; summaries .31 to .41
COMPARED_CHARS: Final = 2_000  # of a memory: near-duplicates differ nowhere, long ones hardly behind that
ALIKE: Final = 0.9  # of the words of two memories together, that both have
_DAY: Final = 10  # characters of a time
_USER: Final = "user"  # as chats call who speaks with the assistant
_SAID: Final = re.compile(
    r"\bI (?:(?:have|first|also|ever|just) )*(?:brought up|bring up|mention(?:ed)?|sa(?:y|id)|ask(?:ed)?|tell|told|"
    r"talk(?:ed)?|discuss(?:ed)?)\b|\bmy (?:questions|requests|messages)\b",
    re.IGNORECASE,
)
_SUMMARY: Final = re.compile(r"\bsummar(?:y|i[sz]e)|\boverview\b|\brecap\b", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")


@handles_without_transaction(SurveyMemories)
async def survey_memories(command: SurveyMemories, context: Context) -> Surveyed:
    """Show what is kept about a topic; a cursor is the marks of what was shown before."""
    asked, envelope = _search(command), context.envelope
    search = await searched(asked, context, lift=lambda candidates: lifted(command.topic, candidates))
    filters = filters_of(asked, envelope.project_named(command.project))
    named = await context.store.read(
        envelope.namespace, partial(count_named, topic=command.topic, filters=filters, found=search.result.memories)
    )

    async def follow(_use: SessionUse | None) -> None:
        if search.refresh is not None:
            await search.refresh()

    context.after_reply = None if search.refresh is None else follow
    is_silent = context.services[Floor].least is None
    # 200 long memories take a second
    reply = await asyncio.to_thread(_surveyed, command, search, named, is_silent=is_silent)
    if not reply.extracts and not command.cursor:
        reply.hint = await hint_elsewhere(asked, context)
    return reply


def _surveyed(command: SurveyMemories, search: Searched, named: Named, *, is_silent: bool) -> Surveyed:
    """Fold what was found; `is_silent`: nothing is shown where nothing is about the topic."""
    shown = command.cursor or ""
    result = search.result
    is_about = result.named or named.found or result.expected >= LEAST_EXPECTED or not is_silent
    memories = result.memories if is_about else []
    groups = [group for group in folded(memories) if not _was_shown(group, shown)]
    page = groups[: command.limit]
    if command.order is SurveyOrder.TIME:
        page.sort(key=lambda group: (_moment(group[0]), group[0].thread or "", group[0].position or 0, group[0].id))
    extracts = extracts_of(command.topic, page)
    notices = [search.notice, BEYOND.format(beyond) if (beyond := named.memories - named.found) > 0 else UNSET]
    goes_on = bool(page) and len(groups) > len(page)
    return Surveyed(
        topic=preview_of(command.topic, limits.PREVIEW_CHARS),
        answered=result.answered if memories else "no",
        extracts=extracts,
        totals=named.totals(len(memories)),
        next_cursor=shown + "".join(mark_of(extract.id) for extract in extracts) if goes_on else None,
        shown=shown,
        degraded=search.degraded,
        notice=" ".join(text for text in notices if text is not UNSET) or UNSET,
    )


def _search(command: SurveyMemories) -> SearchMemories:
    filters = {name: getattr(command, name) for name in ("since", "until", "thread", "project", "tags")}
    return SearchMemories(query=command.topic, limit=DEPTH, **filters)


def lifted(topic: str, candidates: Candidates) -> Column:
    """Return what a topic of one of two kinds adds to the scores of candidates, see the head of this module."""
    if _SAID.search(topic):
        return SAID_BY_USER * np.array([speaker == _USER for speaker in candidates.speaker], dtype=np.float64)
    if not _SUMMARY.search(topic):
        return np.zeros(len(candidates))
    covered = or_nothing(candidates.covered)
    lift: Column = WHOLE_WORDS * (covered - covered.mean()) / (float(covered.std()) or 1.0)
    return lift


def folded(memories: Iterable[Memory]) -> list[list[Memory]]:
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


def extracts_of(topic: str, page: Sequence[Sequence[Memory]]) -> list[Extract]:
    """Return an extract of each group, thread and speaker only where they are not those of the extract before."""
    first = [group[0] for group in page]
    threads = _changes([memory.thread for memory in first])
    speakers = _changes([memory.speaker for memory in first])
    named = sum(name is not UNSET for name in (*threads, *speakers))
    lengths = _shares([len(memory.content) for memory in first], PAGE_CHARS - NAMED_CHARS * named)
    weights = _weights(topic, [memory.content for memory in first])
    return [
        Extract(
            id=memory.id,
            at=_moment(memory)[:_DAY],
            thread=thread,
            speaker=speaker,
            text=best_piece(memory.content, weights, length),
            same=len(group) - 1,
        )
        for memory, thread, speaker, length, group in zip(first, threads, speakers, lengths, page, strict=True)
    ]


def _changes(names: Sequence[str | None]) -> list[str | UnsetType | None]:
    """Return the names that differ from the one before."""
    return [UNSET if name == before else name for name, before in zip(names, [None, *names], strict=False)]


def _shares(lengths: Sequence[int], chars: int) -> list[int]:
    """Return how many of the characters each text gets: what short ones leave is for the long ones."""
    left, shares = max(chars, LEAST_CHARS * len(lengths)), [0] * len(lengths)
    for place, number in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[number] = min(lengths[number], limits.EXTRACT_CHARS, left // (len(lengths) - place))
        left -= shares[number]
    return shares


def _weights(topic: str, contents: Sequence[str]) -> dict[str, float]:
    """Return what each word of a topic weighs: the more, the fewer of the contents have it."""
    words = [set(_WORD.findall(content.casefold())) for content in contents]
    asked = set(_WORD.findall(topic.casefold()))
    return {word: float(np.log((1 + len(words)) / (0.5 + sum(word in each for each in words)))) for word in asked}


def best_piece(content: str, weights: Mapping[str, float], length: int) -> str:
    """Return the first sentence that says most, of a long one `length` characters around its words of the topic."""
    sentences = [" ".join(sentence.split()) for sentence in _SENTENCE.split(content) if sentence.strip()]
    sentence = max(sentences, key=lambda each: _weight(each, weights), default="")
    if len(sentence) <= length:
        return sentence
    words = (match.start() for match in _WORD.finditer(sentence) if match[0].casefold() in weights)
    starts = [0, *islice(words, STARTS)]
    start = max(starts, key=lambda start: (_weight(sentence[start : start + length], weights), -start))
    start = min(start, max(0, len(sentence) - length))
    if start and sentence[start - 1] != " ":
        start = sentence.find(" ", start) + 1
    return preview_of(sentence[start:], length) if not start else preview_of(CUT + sentence[start:], length)


def _weight(text: str, weights: Mapping[str, float]) -> float:
    return sum(weights.get(word, 0.0) for word in set(_WORD.findall(text.casefold())))


def _moment(memory: Memory) -> str:
    return memory.occurred_at or memory.created_at
