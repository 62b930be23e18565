"""Count the memories that name a topic: a count is what full text finds by the words that name it, however many it is.

"The films that I watched with Ada" are named by what holds Ada and one of film and watch: every name and identifier,
and one of the other words; a topic without names by all of its words. Words of asking ("what do you know about") name
nothing, nor does what I did without any other word. See docs/decisions/search.md.
"""

import re
import time
from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import Final, NamedTuple
from uuid import UUID

from engramq.schemas.common_words import ASKING, GRAMMAR
from engramq.schemas.records import Memory, SurveyTotals
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.transaction import Row, Transaction
from engramq.workers.runner import Context
from engramq.workers.search.candidates import Filters

MONTHS_SHOWN: Final = 12
THREADS_SHOWN: Final = 8
WORDS: Final = 32  # of a topic; more are a document
READ_WORDS: Final = 4 * WORDS  # of a topic, those of asking among them
READ_CHARS: Final = 2_000  # of a topic or question
# Words of who asks for a survey. Full text leaves out the stop words of its language.
_FRAMING: Final = (
    "again also asked asking change changed count ever find gave he her his history i'd i'm i've known let listed many "
    "mention mentioned mentioning mentions need number or order overview related relating saying says she stored such "
    "summaries survey times timeline topic want whatever whose"
)
_FRAME: Final = GRAMMAR | ASKING | set(_FRAMING.split())
_SUBJECTS: Final = frozenset(["i", "i've", "we", "we've", "you", "he", "she", "they"])
_BETWEEN: Final = frozenset(["have", "had", "ever", "already", "just", "also", "always", "never", "did", "do"])
_WORD: Final = re.compile(r"\w(?:[^\s,;!?()\"\u201c\u201d\u201e]*\w)?")
_ENDS: Final = re.compile(r"['\u2019]s$")
_SENTENCE_END: Final = re.compile(r"[.!?:]\s")  # between two words
_IDENTIFIER: Final = re.compile(r".*[\d_]|.*\w[A-Z]|.*\w[./@#+]\w")


# "What do you know about Ingrid?", "all that names FastAPI": such a question wants more than the best few.
_ALL: Final = re.compile(
    r"\b(?:about|all|anything|everything|know of|mention(?:ed|ing|s)?|who is|who was)\b", re.IGNORECASE
)
COUNT_S: Final = 1.0  # of a reply, which is of use without its count: 100,000 memories take up to 0.8
FEW: Final = 3  # words that name something


class _CountTimeout(Exception):
    """Raised by a count: the time for it is over."""


class Naming(NamedTuple):
    """The words of a topic that a memory has all of, and those of which it has one."""

    all: list[str]
    one: list[str]


def naming_of(topic: str) -> Naming:
    """Return the words by which a memory names a topic; those of asking alone where it has no other.

    Only the beginning of a long topic is read: a word costs what stands between it and the one before.
    """
    names, others, verbs, before, end = list[str](), list[str](), list[str](), "", 0
    topic = topic[:READ_CHARS]
    words = [(match, _ENDS.sub("", match.group())) for match in islice(_WORD.finditer(topic), READ_WORDS)]
    for match, word in words:
        plain = word.casefold()
        is_first = not end or _SENTENCE_END.search(topic, end, match.start()) is not None
        end = match.end()
        if plain not in _FRAME:
            is_name = _IDENTIFIER.match(word) or (word[0].isupper() and not is_first)
            (names if is_name else verbs if before in _SUBJECTS else others).append(word)
        if plain not in _BETWEEN:
            before = plain
    if not names:
        return Naming((others or verbs or [word for _, word in words])[:WORDS], [])
    return Naming(names[:WORDS], [*others, *verbs][:WORDS] if others else [])


def asks_for_all(question: str) -> bool:
    """Say whether a question asks for all about something that a few words name."""
    if not _ALL.search(question, 0, READ_CHARS):
        return False
    naming = naming_of(question)
    return not naming.one and len(naming.all) <= FEW


class TopicCounts(NamedTuple):
    """How many memories name a topic, and which of those that a search found are among them."""

    by_month: Counter[str]
    by_thread: Counter[str]
    found: int

    @property
    def memories(self) -> int:
        """How many name it."""
        return self.by_month.total()

    def totals(self, found: int) -> SurveyTotals:
        """Return the totals of a survey that found so many memories."""
        months, threads = self.by_month, self.by_thread
        return SurveyTotals(
            named=self.memories,
            near=max(0, found - self.found),
            by_month=dict(sorted(months.most_common(MONTHS_SHOWN))),
            by_thread=dict(threads.most_common(THREADS_SHOWN)),
            months_omitted=max(0, len(months) - MONTHS_SHOWN),
            threads_omitted=max(0, len(threads) - THREADS_SHOWN),
        )


async def count_named(context: Context, topic: str, filters: Filters, found: Collection[Memory]) -> TopicCounts | None:
    """Count the memories that name a topic among all that a search may find; None where that takes too long."""
    naming = naming_of(topic)

    async def count(tx: Transaction) -> list[Row]:
        await tx.limit_statements(min(COUNT_S, context.patience_s - (time.monotonic() - context.since)))
        try:
            return await tx.rows(
                "topic_named",
                **filters.values,
                all=naming.all,
                one=naming.one,
                found=[UUID(memory.id) for memory in found],
                zone=str(context.settings.timezone),
            )
        except StatementTimeout:
            raise _CountTimeout from None

    try:
        rows = await context.store.read(context.envelope.namespace, count)
    except _CountTimeout:
        return None
    by_month, by_thread = Counter[str](), Counter[str]()
    for row in rows:
        by_month[row["month"]] += row["memories"]
        if row["thread"] is not None:
            by_thread[row["thread"]] += row["memories"]
    return TopicCounts(by_month, by_thread, sum(row["found"] for row in rows))
