"""Run models on onnxruntime: checked files, sessions, batches, loading on first use, errors as ours.

Knows: onnxruntime, tokenizers, files. Refuses to know: models, and who embeds what. All of it blocks but `LazyModel`.
"""

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
from anyio import CapacityLimiter, to_thread
from numpy.typing import NDArray

from engramq.workers.embedders.interface import EmbedderUnavailable

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# onnxruntime 1.31 counts its runs, and sends that with an id of the machine to its maker; fastembed's hub does alike.
# They read these as they are loaded.
_TELL_NOBODY: Final = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}


def tell_nobody() -> None:
    """Keep the libraries of models from reporting home; to be called before one is imported."""
    os.environ.update(_TELL_NOBODY)


def onnx_runtime() -> Any:
    """Return the library onnxruntime."""
    tell_nobody()
    import onnxruntime  # noqa: PLC0415 - 150 ms and 40 MB, paid in the thread, by the process that embeds

    return onnxruntime


@contextmanager
def needing_libraries(model: str) -> Iterator[None]:
    """Tell of a library that is missing as EmbedderUnavailable."""
    try:
        yield
    except ImportError as error:
        reason = f"the library {error.name} cannot be loaded here: {model} needs onnxruntime and tokenizers"
        raise EmbedderUnavailable(reason) from error


@contextmanager
def failing_as_unavailable() -> Iterator[None]:
    """Turn what onnxruntime raises (memory, unreadable model) into our own, telling the kind without the message."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415 - loaded by then, never before

    # They share no base but Exception.
    kinds = (state.Fail, state.RuntimeException, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf)
    try:
        yield
    except (*kinds, state.NotImplemented, MemoryError, RuntimeError) as error:
        raise EmbedderUnavailable(f"onnxruntime failed: {type(error).__name__}") from error


def sha256_of(path: Path) -> str:
    """Return the digest of a file; raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_file(path: Path, expected: str, *, mend: str) -> None:
    """Prove that a file has this sha256; `mend` says what to do about one that has not. Raises EmbedderUnavailable."""
    try:
        found = sha256_of(path)
    except OSError as error:
        raise EmbedderUnavailable(f"cannot read {path}: {error.strerror}; {mend}") from error
    if found != expected:
        reason = f"{path} is damaged: its sha256 is {found}, expected {expected}; {mend}"
        raise EmbedderUnavailable(reason)


def load_tokenizer(path: Path, tokens: int) -> "Tokenizer":
    """Return a tokenizer that cuts texts at so many tokens and pads none."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - 60 ms that a worker with another embedder never pays

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    return tokenizer


def load_session(path: Path, *, fold: bool) -> Any:
    """Return a session; `fold`: weights of 8 bits become float32 at load.

    Without it the runtime takes int8 kernels where it finds such weights: mean cosine .9996, not .9998.
    """
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # The arena keeps the largest batch ever seen for good: 120 instead of 300 MB per worker without it.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    if fold:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Idle threads must sleep: spinning would burn a core between batches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with failing_as_unavailable():
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def pad(batch: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Return texts as token ids in the form of the inputs that all our graphs have."""
    ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows of length 1; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def encodable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 has and the tokenizer refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def return_freed_memory() -> None:
    """Give the pages of loading (file buffer, unfolded weights) back to the system; glibc alone would keep them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


TEXTS_PER_RUN: Final = 32
# Padded tokens per run: beyond about 1,000 nothing is gained and attention's buffers cost (200 tokens x 32 texts runs
# at 26 texts/s instead of 65); it also bounds how long a cancelled call keeps the thread.
TOKENS_PER_RUN: Final = 1024
TOKENS_A_RUN_COSTS: Final = 6  # as much time as a run takes besides its tokens (1.5 ms, .28 ms a token, on one core)


def split_in_runs(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each run, shortest texts first, so that padding and the runs themselves cost least together.

    Every text of a run is padded to its longest: eight questions of 10 to 33 tokens in one run cost a third more.
    """
    rows = sorted(range(len(lengths)), key=lengths.__getitem__)
    # For so many of the first rows: the least that they cost, in tokens, and where their last run begins.
    costs, begins = [0], [0]
    for end in range(1, len(rows) + 1):
        longest = lengths[rows[end - 1]]
        most = max(1, min(TEXTS_PER_RUN, end, TOKENS_PER_RUN // max(longest, 1)))
        cost, begin = min(
            (costs[begin] + TOKENS_A_RUN_COSTS + (end - begin) * longest, begin) for begin in range(end - most, end)
        )
        costs.append(cost)
        begins.append(begin)
    runs, end = [], len(rows)
    while end:
        runs.append(rows[begins[end] : end])
        end = begins[end]
    yield from reversed(runs)


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


M = TypeVar("M")
T = TypeVar("T")


class LazyModel(Generic[M]):
    """Loads in a thread, once, and works in threads of its own; `closed` says that it was let go for good."""

    def __init__(self, load: Callable[[], M], *, at_once: int, closed_reason: str) -> None:
        """`load` blocks; `at_once` is how many threads there are; `closed_reason` is the error after the end."""
        self._load = load
        self._limiter = CapacityLimiter(at_once)
        self._loading = threading.Lock()
        self.loaded: M | None = None  # until it is loaded, and once it is closed
        self._closed_reason = closed_reason
        self.closed = False

    async def run(self, work: Callable[[M], T]) -> T:
        """Return what `work` makes of the model, in a thread; raises EmbedderUnavailable once it is closed."""
        return await to_thread.run_sync(lambda: work(self._ready()), limiter=self._limiter)

    @contextmanager
    def another(self) -> Iterator[None]:
        """Let the next use load anew; nothing is loaded within the block."""
        with self._loading:
            yield
            self.loaded = None

    def close(self) -> None:
        """Let the model go."""
        self.closed = True
        self.loaded = None

    def _ready(self) -> M:
        if self.closed:
            raise EmbedderUnavailable(self._closed_reason)
        with self._loading:
            if self.loaded is None:
                self.loaded = self._load()
            return self.loaded
