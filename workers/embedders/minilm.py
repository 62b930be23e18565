"""The default embedder: all-MiniLM-L6-v2 from the package's own ONNX file, offline. English.

Knows: onnxruntime, tokenizers, and how to feed them cheaply. Refuses to know: queues, caches, the network.
Implements `interface.Embedder`. Everything that computes runs in one thread at a time beside the event loop.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from anyio import CapacityLimiter, to_thread

from engramq.workers.embedders import bundle
from engramq.workers.embedders.interface import (
    BatchLimits,
    EmbedderSpec,
    EmbedderUnavailable,
    EmbeddingFailure,
    Vectors,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

T = TypeVar("T")

DIMENSIONS = 384
MAX_TOKENS = 256
_TEXTS_PER_RUN = 32
# Padded tokens per run: beyond about 1,000 nothing is gained and attention's buffers cost (200 tokens x 32 texts runs
# at 26 texts/s instead of 65); it also bounds how long a cancelled call keeps the thread.
_TOKENS_PER_RUN = 1024
_TOKENS_A_RUN_COSTS = 6  # as much time as a run takes besides its tokens (1.5 ms, .28 ms a token, on one core)
_DEFAULT_THREADS = 2


class MiniLmEmbedder:
    """Load on first use; embed sorted by length, in runs of at most 32 texts and about 1,000 padded tokens."""

    spec = EmbedderSpec(
        name="minilm",
        sha256=bundle.MODEL_SHA256,
        dimensions=DIMENSIONS,
        max_tokens=MAX_TOKENS,
        batches=BatchLimits(texts=_TEXTS_PER_RUN),
    )

    def __init__(self, *, threads: int | None = None, folder: Path = bundle.FOLDER) -> None:
        """`threads` is what one run may use (default: 2, or 1 on a single core); `folder` holds the two files."""
        self._threads = threads or min(_DEFAULT_THREADS, _usable_cores())
        self._folder = folder
        # One at a time: two runs at once would only take the cores from each other. It also guards `_loaded`.
        self._limiter = CapacityLimiter(1)
        self._loaded: _Model | None = None
        self._closed = False

    async def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        if texts or self._closed:
            encoded = await self._in_thread(lambda: self._model().encode(texts))
            for rows in _runs([len(ids) for ids in encoded]):
                batch = [encoded[row] for row in rows]
                vectors[rows] = await self._in_thread(lambda batch=batch: self._model().run(batch))  # type: ignore[misc]
        return vectors

    async def warm(self) -> None:
        await self.embed(["warm"])

    async def aclose(self) -> None:
        self._closed = True
        async with self._limiter:
            self._loaded = None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await to_thread.run_sync(work, limiter=self._limiter)

    def _model(self) -> "_Model":
        if self._closed:
            raise EmbedderUnavailable(EmbeddingFailure(reason="the minilm embedder is closed"))
        if self._loaded is None:
            self._loaded = _Model(self._folder, self._threads)
        return self._loaded


class _Model:
    """Tokenizer and session. Constructing and calling both block: threads only."""

    def __init__(self, folder: Path, threads: int) -> None:
        _check(folder / bundle.MODEL_FILE, bundle.MODEL_SHA256)
        _check(folder / bundle.TOKENIZER_FILE, bundle.TOKENIZER_SHA256)
        try:
            self._tokenizer = _load_tokenizer(folder / bundle.TOKENIZER_FILE)
            self._session = _load_session(folder / bundle.MODEL_FILE, threads)
        except ImportError as error:
            reason = f"the library {error.name} cannot be loaded here: minilm needs onnxruntime and tokenizers"
            raise EmbedderUnavailable(EmbeddingFailure(reason=reason)) from error
        _return_freed_memory()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        readable = [_encodable(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]

    def run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        with _failing_as_unavailable():
            (vectors,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return np.asarray(vectors, dtype=np.float32)


def _runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each run, shortest texts first, so that padding and the runs themselves cost least together.

    Every text of a run is padded to its longest: eight questions of 10 to 33 tokens in one run cost a third more.
    """
    rows = sorted(range(len(lengths)), key=lengths.__getitem__)
    # For so many of the first rows: the least that they cost, in tokens, and where their last run begins.
    costs, begins = [0], [0]
    for end in range(1, len(rows) + 1):
        longest = lengths[rows[end - 1]]
        most = max(1, min(_TEXTS_PER_RUN, end, _TOKENS_PER_RUN // max(longest, 1)))
        cost, begin = min(
            (costs[begin] + _TOKENS_A_RUN_COSTS + (end - begin) * longest, begin) for begin in range(end - most, end)
        )
        costs.append(cost)
        begins.append(begin)
    runs, end = [], len(rows)
    while end:
        runs.append(rows[begins[end] : end])
        end = begins[end]
    yield from reversed(runs)


def _load_tokenizer(path: Path) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415 - 60 ms that a worker with another embedder never pays

    tokenizer = Tokenizer.from_file(str(path))
    # The published file asks for 128 tokens, always padded to 128: the model was made for 256.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(path: Path, threads: int) -> Any:
    import onnxruntime  # noqa: PLC0415 - 150 ms and 40 MB, paid in the thread, by the process that embeds

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch ever seen for good: 120 instead of 300 MB per worker without it.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    # Fold the int8 weights to float32 at load. Without it the runtime takes int8 kernels: mean cosine .9996, not .9998.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Idle threads must sleep: spinning would burn a core between batches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with _failing_as_unavailable():
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@contextmanager
def _failing_as_unavailable() -> Iterator[None]:
    """Turn what onnxruntime raises (memory, unreadable model) into our own, telling the kind without the message."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415 - loaded by then, never before

    # They share no base but Exception.
    kinds = (state.Fail, state.RuntimeException, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf)
    try:
        yield
    except (*kinds, state.NotImplemented, MemoryError, RuntimeError) as error:
        raise EmbedderUnavailable(EmbeddingFailure(reason=f"onnxruntime failed: {type(error).__name__}")) from error


def _check(path: Path, expected: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(EmbeddingFailure(reason=f"cannot read {path}: {error.strerror}")) from error
    if found != expected:
        reason = f"{path} is damaged: its sha256 is {found}, expected {expected}; install engramq again"
        raise EmbedderUnavailable(EmbeddingFailure(reason=reason))


def _encodable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 has and the tokenizer refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _return_freed_memory() -> None:
    """Give the pages of loading (file buffer, unfolded weights) back to the system; glibc alone would keep them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
