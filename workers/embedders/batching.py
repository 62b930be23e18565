"""Share one embedder in a process: batches, a cache, and fairness between callers.

Knows: `interface.Embedder`, who waits, and what was computed lately. Refuses to know: any model. Wraps an embedder and
offers the same contract plus `bulk`. While one batch runs, what arrives is collected and goes together into the next.
An endpoint that is away takes long to fail: after one such failure nobody who waits is made to wait for the next.
"""

import hashlib
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self, TypeAlias

import anyio
import msgspec
import numpy as np
from anyio.abc import TaskGroup

from engramq.workers.embedders.interface import (
    BatchLimits,
    Embedder,
    EmbedderOverloaded,
    EmbedderSpec,
    EmbedderUnavailable,
    InputRejected,
    Vectors,
)

# What Python keeps beside the numbers of one entry: array object, key, node of the ordering. Measured on CPython 3.11.
ENTRY_OVERHEAD_BYTES = 300


def content_key(text: str, *, question: bool = False) -> bytes:
    """Return what a text's vector is kept under; that of a question may be another one."""
    person = b"question" if question else b""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, person=person).digest()


class VectorCache:
    """Keep float32 rows [dimensions] by content key. Not thread-safe: it belongs to the event loop."""

    def __init__(self, *, entries: int, size_bytes: int) -> None:
        self._entries = entries
        self._size_bytes = size_bytes
        self._rows: OrderedDict[bytes, Vectors] = OrderedDict()
        self._used_bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    @property
    def used_bytes(self) -> int:
        return self._used_bytes

    def get(self, key: bytes) -> Vectors | None:
        row = self._rows.get(key)
        if row is not None:
            self._rows.move_to_end(key)
        return row

    def put(self, key: bytes, row: Vectors, *, displace: bool = True) -> None:
        """Keep a copy of `row`; with `displace=False` only where there is room without dropping another."""
        cost = row.nbytes + ENTRY_OVERHEAD_BYTES
        if key in self._rows or cost > self._size_bytes:
            return
        if not displace and (len(self._rows) >= self._entries or self._used_bytes + cost > self._size_bytes):
            return
        kept = row.copy()  # a view would keep its whole batch alive
        kept.flags.writeable = False
        self._rows[key] = kept
        self._used_bytes += cost
        while len(self._rows) > self._entries or self._used_bytes > self._size_bytes:
            _, dropped = self._rows.popitem(last=False)
            self._used_bytes -= dropped.nbytes + ENTRY_OVERHEAD_BYTES

    def clear(self) -> None:
        """Forget everything."""
        self._rows.clear()
        self._used_bytes = 0


# Interactive batches in a row before one bulk slice gets its turn: a stream of queries slows an import, never stops it.
INTERACTIVE_BATCHES_IN_A_ROW = 8
# A slice of bulk on the server that is kept free, which a question may have to wait for: some 20 ms of a local model.
SHORT_TEXTS = 8
SHORT_CHARACTERS = 600


@dataclass(slots=True, eq=False)
class WaitingText:
    """One distinct text on its way: how many callers want it, and, once `settled`, its row or its error."""

    key: bytes
    text: str
    interactive: bool
    question: bool = False
    wanted_by: int = 0
    settled: anyio.Event = field(default_factory=anyio.Event)
    row: Vectors | None = None
    error: EmbedderUnavailable | None = None


class WaitingTexts:
    """Two first-in-first-out lines. An interactive text waits for at most one bulk slice, whatever bulk has queued."""

    def __init__(self) -> None:
        self.interactive: OrderedDict[bytes, WaitingText] = OrderedDict()
        self.bulk: OrderedDict[bytes, WaitingText] = OrderedDict()
        self._interactive_in_a_row = 0

    def add(self, item: WaitingText) -> None:
        (self.interactive if item.interactive else self.bulk)[item.key] = item

    def hasten(self, item: WaitingText) -> None:
        """Move a waiting bulk text into the interactive line, because a second caller is in a hurry."""
        if self.bulk.pop(item.key, None) is not None:
            item.interactive = True
            self.interactive[item.key] = item

    def drop(self, item: WaitingText) -> bool:
        """Forget a text that nobody wants any more; False where it is not waiting (under way, or settled).

        A settled text may have a successor with the same key in line, wanted by others: that one stays.
        """
        for line in (self.interactive, self.bulk):
            if line.get(item.key) is item:
                del line[item.key]
                return True
        return False

    def take(self, limits: BatchLimits, *, bulk_allowed: bool = True) -> list[WaitingText]:
        """Remove and return the next batch, [] where there is none. Bulk and interactive never share one."""
        bulk_turn = not self.interactive or self._interactive_in_a_row >= INTERACTIVE_BATCHES_IN_A_ROW
        if self.bulk and bulk_allowed and bulk_turn:
            line, texts = self.bulk, limits.texts
            self._interactive_in_a_row = 0
        else:
            line, texts = self.interactive, 1 if limits.alone else limits.texts
            if line:
                self._interactive_in_a_row = self._interactive_in_a_row + 1 if self.bulk else 0
        batch: list[WaitingText] = []
        characters = 0
        while line and len(batch) < texts:
            item = next(iter(line.values()))
            characters += len(item.text)
            if batch and (characters > limits.characters or item.question != batch[0].question):
                break
            batch.append(line.popitem(last=False)[1])
        return batch

    def take_all(self, *, bulk: bool = True) -> list[WaitingText]:
        """Remove and return whatever waits, of the interactive line alone without `bulk`."""
        lines = (self.interactive, self.bulk) if bulk else (self.interactive,)
        items = [item for line in lines for item in line.values()]
        for line in lines:
            line.clear()
        return items


_CLOSED = "the embedder is shutting down"
_NEVER: Final = -math.inf
REST_S: Final = 10.0


# Told of each batch: how many texts, seconds, and whether the model made their vectors.
BatchObserver: TypeAlias = Callable[[int, float, bool], None]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of waiting work.

    Beyond `interactive` waiting texts a call is refused; beyond `bulk` a bulk call waits for room.

    20,000 rows of 384 dimensions need 37 MB, so MiniLM is bounded by entries and wider models by bytes. An interactive
    call waits for `patience_s` at most, less than its caller for the reply. When its batch took `slow_failure_s` or
    more to fail, or patience ends, and nothing else succeeded meanwhile, interactive calls fail at once for REST_S.
    Bulk goes on trying, and its failures prove nothing: they may be due to a text that an endpoint cannot digest.
    `quiet_s`: after so long without an interactive call bulk has what is kept free for one, too.
    """

    interactive: int = 2_048
    bulk: int = 1_024
    cache_entries: int = 20_000
    cache_bytes: int = 48 * 1024 * 1024
    slow_failure_s: float = 0.5
    patience_s: float = 6.0
    quiet_s: float = 1.0


class BatchingEmbedder:
    """`async with BatchingEmbedder(inner) as embedder:` owns `inner` and the tasks that feed it.

    The same text is computed once, whether it comes again or is under way; a caller that is cancelled hurts no other. A
    text that the model rejects fails only the callers that sent it.
    """

    def __init__(self, inner: Embedder, bounds: Bounds | None = None, observers: Sequence[BatchObserver] = ()) -> None:
        """Tell `observers` of each batch."""
        self._inner = inner
        self._batches = inner.spec.batches
        self._observers = observers
        self._bounds = bounds or Bounds()
        self._cache = VectorCache(entries=self._bounds.cache_entries, size_bytes=self._bounds.cache_bytes)
        self._waiting = WaitingTexts()
        self._under_way: dict[bytes, WaitingText] = {}
        self._rest_until = self._last_success = self._last_asked = _NEVER
        self._last_failure = _CLOSED
        self._arrived = anyio.Event()
        self._room = anyio.Event()
        self._tasks: TaskGroup | None = None

    @property
    def spec(self) -> EmbedderSpec:
        return self._inner.spec

    @property
    def waiting(self) -> tuple[int, int]:
        """How many texts wait: those that somebody waits for, and those of bulk."""
        return len(self._waiting.interactive), len(self._waiting.bulk)

    @property
    def trouble(self) -> str:
        """Why waiting callers are refused now; nothing where none is."""
        return self._last_failure if anyio.current_time() < self._rest_until else ""

    async def __aenter__(self) -> Self:
        tasks = anyio.create_task_group()
        await tasks.__aenter__()
        servers = self._batches.concurrent
        for number in range(servers):
            tasks.start_soon(self._serve, servers > 1 and number == 0)
        self._tasks = tasks
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None
        tasks.cancel_scope.cancel()
        self._settle_failed(self._waiting.take_all(), EmbedderUnavailable(_CLOSED))
        self._room = _announce(self._room)
        try:
            return await tasks.__aexit__(kind, error, traceback)
        finally:
            with anyio.CancelScope(shield=True):
                await self._inner.aclose()

    def adopt(self, sha256: str) -> bool:
        """Make the vectors of the model with this digest from now on, if it is one of the embedder's."""
        before = self.spec.sha256
        adopted = self._inner.adopt(sha256)
        if self.spec.sha256 != before:
            self._cache.clear()
        return adopted

    async def warm(self) -> None:
        """Load or reach the model. Raises EmbedderUnavailable."""
        await self._inner.warm()

    async def embed(
        self, texts: Sequence[str], *, bulk: bool = False, questions: bool = False, alone: bool = False
    ) -> Vectors:
        """Return float32 [len(texts), dimensions], rows in the order of `texts`; the array is the caller's own.

        `bulk` says that nobody is watching: such texts go in slices between the others, and the call waits for room.
        `alone`: nobody else waits for this process, so that a short text may keep the event loop.
        Raises EmbedderOverloaded (interactive only, at once) or EmbedderUnavailable; then no text of the call counts.
        """
        if self._tasks is None:
            raise EmbedderUnavailable(_CLOSED)
        self._last_asked = self._last_asked if bulk else anyio.current_time()
        keys = [content_key(text, question=questions) for text in texts]
        distinct = dict(zip(keys, texts, strict=True))
        if alone and not self._under_way:
            for key, text in distinct.items():
                self._compute_now(key, text, question=questions)
        known = [row for key in keys if (row := self._cache.get(key)) is not None]
        if len(known) == len(keys):
            return np.stack(known) if known else np.empty((0, self.spec.dimensions), dtype=np.float32)
        if not bulk and (new := sum(key not in self._under_way and key not in self._cache for key in distinct)):
            self._require_service(new)
        rows: dict[bytes, Vectors] = {}
        items: list[WaitingText] = []
        try:
            # Neighbours in a slice are padded to the longest: shortest first saves half of the work on mixed lengths.
            for key, text in sorted(distinct.items(), key=lambda pair: len(pair[1])) if bulk else distinct.items():
                if bulk and key not in self._cache:
                    await self._wait_for_room()
                cached = self._cache.get(key)
                if cached is not None:
                    rows[key] = cached
                else:
                    items.append(self._want(WaitingText(key, text, interactive=not bulk, question=questions)))
            with anyio.move_on_after(math.inf if bulk else self._bounds.patience_s) as waited:
                for item in items:
                    await item.settled.wait()
                    if item.error is not None:
                        # A new exception for each caller: one raised in many tasks would collect all their tracebacks.
                        raise type(item.error)(item.error.reason, item.error.retry_after_s) from None
                    assert item.row is not None
                    rows[item.key] = item.row
            if waited.cancelled_caught:
                raise self._out_of_patience()
        finally:
            self._release(items)
        return np.stack([rows[key] for key in keys])

    def _compute_now(self, key: bytes, text: str, *, question: bool) -> None:
        """Compute a text that is not known, if that takes no time to speak of; its vector is in the cache then."""
        if key in self._cache:
            return
        started = anyio.current_time()
        vectors = self._inner.embed_now(text, question=question)
        if vectors is not None:
            self._cache.put(key, vectors[0])
            for observe in self._observers:
                observe(1, anyio.current_time() - started, True)

    def _require_service(self, new: int) -> None:
        """Refuse new texts at once while the model rests after a failure, and when too many wait already."""
        left_s = self._rest_until - anyio.current_time()
        if left_s > 0:
            raise EmbedderUnavailable(self._last_failure, retry_after_s=round(left_s, 1))
        waiting = len(self._waiting.interactive)
        # A lone call larger than the bound could never pass: it is let through when nothing else waits.
        if waiting and waiting + new > self._bounds.interactive:
            reason = f"{waiting} texts wait for the embedder already"
            raise EmbedderOverloaded(reason, retry_after_s=1.0)

    def _out_of_patience(self) -> EmbedderUnavailable:
        patience_s = self._bounds.patience_s
        silent = EmbedderUnavailable(f"the embedder gave no answer within {patience_s:g} s")
        self._rest(silent, anyio.current_time() - patience_s)
        return silent

    def _rest(self, error: EmbedderUnavailable, since: float) -> None:
        """Let interactive calls rest after a failure that took long, unless something succeeded since its beginning."""
        if self._last_success <= since:
            self._last_failure, self._rest_until = error.reason, anyio.current_time() + REST_S
            resting = EmbedderUnavailable(error.reason, error.retry_after_s)
            self._settle_failed(self._waiting.take_all(bulk=False), resting)

    async def _wait_for_room(self) -> None:
        while len(self._waiting.bulk) >= self._bounds.bulk:
            await self._room.wait()
            if self._tasks is None:
                raise EmbedderUnavailable(_CLOSED)

    def _want(self, wanted: WaitingText) -> WaitingText:
        item = self._under_way.get(wanted.key)
        if item is None:
            item = self._under_way[wanted.key] = wanted
            self._waiting.add(item)
            self._arrived = _announce(self._arrived)
        elif wanted.interactive:
            self._waiting.hasten(item)
            self._arrived = _announce(self._arrived)
        item.wanted_by += 1
        return item

    def _release(self, items: Iterable[WaitingText]) -> None:
        for item in items:
            item.wanted_by -= 1
            if item.wanted_by == 0 and not item.settled.is_set() and self._waiting.drop(item):
                del self._under_way[item.key]
        self._room = _announce(self._room)

    async def _serve(self, is_kept_free: bool) -> None:
        """Compute what waits. Where several batches may run at once, one server is kept free of bulk.

        While nobody asks, that one has short slices of bulk, if the model is one of this machine's.
        """
        short = msgspec.structs.replace(self._batches, texts=SHORT_TEXTS, characters=SHORT_CHARACTERS)
        while True:
            limits, quiet_in_s = self._batches, 0.0
            if is_kept_free:
                limits = limits if self._waiting.interactive else short
                quiet_in_s = (
                    self._last_asked + self._bounds.quiet_s - anyio.current_time() if limits.alone else math.inf
                )
            batch = self._waiting.take(limits, bulk_allowed=quiet_in_s <= 0)
            if not batch:
                with anyio.move_on_after(quiet_in_s if self._waiting.bulk and quiet_in_s > 0 else math.inf):
                    await self._arrived.wait()
                continue
            self._room = _announce(self._room)
            try:
                await self._compute(batch)
            finally:
                if unsettled := [item for item in batch if not item.settled.is_set()]:
                    # Only when this task ends: nobody may be left waiting.
                    self._settle_failed(unsettled, EmbedderUnavailable(_CLOSED))

    async def _compute(self, batch: list[WaitingText]) -> None:
        started = anyio.current_time()
        try:
            vectors = await self._inner.embed([item.text for item in batch], questions=batch[0].question)
        except InputRejected as error:
            if len(batch) == 1:
                self._settle_failed(batch, error)
                return
            middle = len(batch) // 2
            await self._compute(batch[:middle])
            await self._compute(batch[middle:])
        except EmbedderUnavailable as error:
            interactive = batch[0].interactive  # and so are all of it
            if interactive and anyio.current_time() - started >= self._bounds.slow_failure_s:
                self._rest(error, started)
            self._settle_failed(batch, error)
            for observe in self._observers:
                observe(len(batch), anyio.current_time() - started, False)
        else:
            for observe in self._observers:
                observe(len(batch), anyio.current_time() - started, True)
            self._rest_until, self._last_success = _NEVER, anyio.current_time()
            for item, row in zip(batch, vectors, strict=True):
                # Bulk fills a cache but never empties it: an import's texts seldom come again, a conversation's do.
                self._cache.put(item.key, row, displace=item.interactive)
                item.row = row
                del self._under_way[item.key]
                item.settled.set()

    def _settle_failed(self, batch: Iterable[WaitingText], error: EmbedderUnavailable) -> None:
        for item in batch:
            item.error = error
            del self._under_way[item.key]
            item.settled.set()


def _announce(event: anyio.Event) -> anyio.Event:
    """Wake all that wait for an event, and return the next one."""
    event.set()
    return anyio.Event()
