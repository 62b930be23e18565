"""Keep copies of small namespaces in the process that searches them, and prove them current for each search.

A search asks PostgreSQL, in a transaction of its own that began after the search came, which memories have changed
since the copy was made (see `copy_state`), and takes them over. While the model runs that costs no time. A copy that
cannot be proven is dropped, and the search goes to the tables. Searches of one namespace that come at the same time ask
together.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.database import Store
from engramq.workers.db.lookups import Ask
from engramq.workers.db.memory_rows import KnownMemories
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup, Transaction
from engramq.workers.db.vectors import COUNTED_ROWS, Embedding, Sizes
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.search.candidates import Filters, single_partitions
from engramq.workers.search.namespace_copy import NamespaceCopy, QuestionLexemes
from engramq.workers.search.question import Question
from engramq.workers.search.ranking import Candidates

log = logging.getLogger(__name__)

# A namespace, the partitions of it that a search asks for, and whose private memories are in the copy.
CopyKey = tuple[str, tuple[Partition, ...], Viewer]

QUESTION_LEXEMES: Final = sql("question_lexemes")
WRITES_SEEN: Final = sql("writes_seen")
COPY_STATE: Final = sql("copy_state")
COPY_IDS: Final = sql("copy_ids")
COPY_ROWS: Final = sql("copy_rows")

ROWS_MAX: Final = COUNTED_ROWS  # of a namespace that is copied
CHANGED_MAX: Final = 300  # rows that a search waits for, or a share of the copy: with more the tables are as fast
CHANGED_SHARE: Final = 0.1  # to make a copy of 10,000 rows anew takes half a second of CPU
BYTES_MAX: Final = 96 * 1024 * 1024  # of all copies of a process
COPY_BYTES_MAX: Final = BYTES_MAX * 3 // 4  # of one: nobody drives all others out
SEARCHES_FIRST: Final = 2  # of a namespace before it is copied: some are searched once
SEARCHES_LATER: Final = 500  # of one that was too large before it is looked at again
VIEWERS_MAX: Final = 1_000  # of a copy, whose last look at its rows is remembered
COUNTED_MAX: Final = 10_000  # namespaces whose searches are counted
LOADED_AT_A_TIME: Final = 250  # rows; they keep the event loop for some milliseconds
PROVEN_WITHIN_S: Final = 4.0  # all copies after an erasure, before the process has to say again that it lives
NOTHING_ASKED: Final = Question("")


@dataclass(frozen=True, slots=True)
class CurrentCopy:
    """A copy that lacked nothing when it was asked for, and the words of the question as the copy has them.

    `known`: its memories that were read before. `ask`: answers from the tables what the copy does not hold, in a
    transaction of its own.
    """

    copy: NamespaceCopy
    words: QuestionLexemes
    known: KnownMemories
    ask: Ask

    async def candidates(self, question: Question, embedding: Embedding | None, filters: Filters) -> Candidates:
        """Return the candidates of a search; waits for nothing."""
        return self.copy.candidates(question, self.words, embedding, filters)

    async def measure(
        self, ids: Sequence[str], question: Question, embedding: Embedding | None, filters: Filters
    ) -> Candidates:
        """Measure memories that were no candidates, those that the search may find. Waits for nothing."""
        return self.copy.measure(ids, question, embedding, filters)


@dataclass(slots=True)
class _Round:
    """Questions that are asked together. `answers` is None when the copy could not be proven."""

    questions: list[Question] = field(default_factory=list)
    answers: list[CurrentCopy] | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class _Kept:
    """A copy, and who asks whether it is current: one round at a time, while the next gathers, one for each viewer."""

    copy: NamespaceCopy
    proving: asyncio.Lock = field(default_factory=asyncio.Lock)
    gathering: dict[Viewer, _Round] = field(default_factory=dict)


class _State(msgspec.Struct):
    """The answer to the query `copy_state`; where it `is_same` as the copy has seen it, no row was looked at."""

    is_same: bool
    written: str
    shared: int
    own: int
    changed: list[str]
    since: str
    server: str
    now: float


_state: Final = msgspec.json.Decoder(_State)
_lexemes: Final = msgspec.json.Decoder(list[list[str]])


def _texts(questions: Sequence[Question]) -> list[str]:
    """Return the texts whose words are looked up: each question, its other spellings, its values and their writings."""
    return [
        text
        for question in questions
        for text in (
            question.words,
            question.spellings,
            *(each for writing in question.writings for each in (writing.own, *writing.others)),
        )
    ]


def _pair_words(question: Question, lexemes: Iterator[list[str]]) -> QuestionLexemes:
    """Return the words of a question from those of all texts, in their order."""
    own, spellings = next(lexemes), next(lexemes)
    ways = [(next(lexemes), [next(lexemes) for _ in writing.others]) for writing in question.writings]
    return QuestionLexemes(own, spellings, ways)


class Copies:
    """One per process.

    Principals without private memories share one copy; every other principal has its own.
    """

    def __init__(self, store: Store, sizes: Sizes) -> None:
        self._store, self._sizes = store, sizes
        self._copies: OrderedDict[CopyKey, _Kept] = OrderedDict()  # the least recently used first
        self._searches: dict[CopyKey, int] = {}
        self._owning: set[tuple[str, Viewer]] = set()  # who has private memories, in which namespace
        self._loading = asyncio.Lock()

    async def find_current(
        self, namespace: str, partitions: Sequence[Partition], question: Question, viewer: Viewer = PUBLIC
    ) -> CurrentCopy | None:
        """Return the copy of what somebody sees of these partitions, proven current after this call began.

        None where there is none. Raises EngramqError (`unavailable`).
        """
        key = self._key(namespace, viewer, partitions)
        kept = self._copies.get(key)
        if kept is None:
            return None
        if (joined := kept.gathering.get(viewer)) is not None:
            joined.questions.append(question)
            number = len(joined.questions) - 1
            await joined.ended.wait()
            return None if joined.answers is None else joined.answers[number]
        own = kept.gathering[viewer] = _Round([question])
        try:
            async with kept.proving:
                del kept.gathering[viewer]
                own.answers = await self._ask(key, kept, viewer, own.questions)
        finally:
            if kept.gathering.get(viewer) is own:
                del kept.gathering[viewer]
            own.ended.set()
        return None if own.answers is None else own.answers[0]

    async def prepare(self, namespace: str, partitions: Sequence[Partition], viewer: Viewer = PUBLIC) -> None:
        """Note that partitions were searched in the tables; copy them from the second time on, if they are small."""
        key = self._key(namespace, viewer, partitions)
        if len(self._searches) >= COUNTED_MAX:
            self._searches.clear()
        self._searches[key] = times = self._searches.get(key, 0) + 1
        if times < SEARCHES_FIRST or self._loading.locked():
            return
        async with self._loading:
            if key not in self._copies:
                await self._load(key)

    async def drop_erased(self) -> None:
        """Drop each copy that holds a memory which is gone, though nobody may ever search there again.

        Each copy is proven, as a search would; all of them go where that cannot be done in time, or fails.
        """
        are_proven = False
        try:
            async with asyncio.timeout(PROVEN_WITHIN_S):
                for key in list(self._copies):
                    namespace, partitions, whose = key
                    if self._key(namespace, whose, partitions) == key:
                        await self.find_current(namespace, partitions, NOTHING_ASKED, whose)
                    else:  # who owns private memories is not remembered for good: no search comes to this copy
                        self._copies.pop(key, None)
            are_proven = True
        except (EngramqError, TimeoutError) as problem:
            log.warning("Copies were dropped: none could be proven after an erasure (%s)", type(problem).__name__)
        finally:
            if not are_proven:
                self._copies.clear()

    def _key(self, namespace: str, viewer: Viewer, partitions: Sequence[Partition]) -> CopyKey:
        own = viewer if (namespace, viewer) in self._owning else PUBLIC
        return namespace, tuple(sorted(set(partitions))), own

    async def _ask(
        self, key: CopyKey, kept: _Kept, viewer: Viewer, questions: list[Question]
    ) -> list[CurrentCopy] | None:
        answers, gone = None, False
        try:
            answers = await self._prove(key, kept.copy, viewer, questions)
        except asyncio.CancelledError:
            gone = True  # a caller hung up: a copy is brought up to date without an await, so it is whole
            raise
        finally:
            # Whatever went wrong, the next search goes to the tables, and after it the namespace is copied again.
            if not gone and self._copies.get(key) is kept and key == self._key(key[0], viewer, key[1]):
                if answers is None or kept.copy.is_worn:
                    self._forget(key, SEARCHES_FIRST)
                else:
                    self._copies.move_to_end(key)
                    self._hold_bounds(key, kept.copy)
        return answers

    def _forget(self, key: CopyKey, searches: int) -> None:
        del self._copies[key]
        self._searches[key] = searches

    def _hold_bounds(self, key: CopyKey, copy: NamespaceCopy) -> None:
        """Hold the bounds after a copy has grown: one that is too large goes, then those unused for longest."""
        if copy.size_bytes > COPY_BYTES_MAX:
            self._forget(key, -SEARCHES_LATER)
        total = sum(kept.copy.size_bytes for kept in self._copies.values())
        while total > BYTES_MAX:
            _, oldest = self._copies.popitem(last=False)
            total -= oldest.copy.size_bytes

    async def _prove(
        self, key: CopyKey, copy: NamespaceCopy, viewer: Viewer, questions: list[Question]
    ) -> list[CurrentCopy] | None:
        """Bring the copy up to date; None when that cannot be done, or not at once."""
        namespace, partitions, _ = key
        singles, store = single_partitions(partitions), self._store.seen_by(viewer)
        written = {"written": copy.written.get(viewer, "")}
        # On a cluster no write is counted.
        counting = [] if store.sharded else [Lookup(WRITES_SEEN, written)]
        *_, lexemes, answer = await store.look_up(
            namespace,
            [
                *counting,
                Lookup(QUESTION_LEXEMES, {"questions": msgspec.json.encode(_texts(questions)).decode()}),
                Lookup(COPY_STATE, {**singles, **written, "since": copy.since}),
            ],
        )
        assert lexemes is not None
        assert answer is not None
        state = _state.decode(answer)
        if state.server != copy.server:
            return None
        if not state.is_same and not await self._take_over(key, copy, viewer, state):
            return None
        copy.now = state.now
        ask = partial(store.look_up, namespace)
        words = iter(_lexemes.decode(lexemes))
        return [CurrentCopy(copy, _pair_words(question, words), copy.known, ask) for question in questions]

    async def _take_over(self, key: CopyKey, copy: NamespaceCopy, viewer: Viewer, state: _State) -> bool:
        """Take over what a copy lacks; False where that is not all, or too much."""
        namespace, partitions, whose = key
        if state.own and whose != viewer:  # the copy, which is everybody's, has not what is this one's alone
            self._note_owner(namespace, viewer)
            return False
        memories = state.shared + state.own
        whole = len(copy) + sum(memory not in copy.row_of for memory in state.changed) == memories
        too_much = memories > ROWS_MAX or len(state.changed) > max(CHANGED_MAX, CHANGED_SHARE * memories)
        if not whole or too_much:
            return False
        if state.changed:
            values = {**single_partitions(partitions), "ids": state.changed}
            rows = await self._store.seen_by(viewer).read(namespace, lambda tx: tx.rows(COPY_ROWS, **values))
            if len(rows) < len(state.changed):
                return False
            copy.put(rows)
        copy.since = state.since  # only by a look at rows: writes between the two statements are no older than it
        if len(copy.written) >= VIEWERS_MAX:
            copy.written.clear()
        copy.written[viewer] = state.written  # another viewer may have what the copy lacks
        return True

    def _note_owner(self, namespace: str, viewer: Viewer) -> None:
        if len(self._owning) >= COUNTED_MAX:
            self._owning.clear()
        self._owning.add((namespace, viewer))

    async def _load(self, key: CopyKey) -> None:
        """Copy what is small. Nobody waits for it, so what fails is tried after the next search."""
        try:
            copy = await self._store.seen_by(key[2]).read(key[0], partial(self._read, key[1]))
        except EngramqError as problem:
            log.info("A namespace was not copied", extra={"code": problem.fault.code})
            return
        if copy is None:
            self._searches[key] = -SEARCHES_LATER
            return
        self._copies[key] = _Kept(copy)
        self._hold_bounds(key, copy)

    async def _read(self, partitions: Sequence[Partition], tx: Transaction) -> NamespaceCopy | None:
        if (await self._sizes.of(tx, partitions)).own > ROWS_MAX:
            return None
        singles = single_partitions(partitions)
        state = await tx.row(COPY_IDS, **singles)
        assert state is not None
        ids = state["ids"]
        if len(ids) > ROWS_MAX:
            return None
        copy = NamespaceCopy(state["since"], state["server"], state["now"], room=len(ids))
        for start in range(0, len(ids), LOADED_AT_A_TIME):
            some = ids[start : start + LOADED_AT_A_TIME]
            copy.put(await tx.rows(COPY_ROWS, **singles, ids=some))
            if copy.size_bytes > COPY_BYTES_MAX:
                return None
        # What was erased meanwhile is missing, and what changed is newer than the snapshot: the next search finds out.
        return copy
