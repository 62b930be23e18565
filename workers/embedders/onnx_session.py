"""What all models of our own share that run on onnxruntime: checked files, sessions, batches, and errors as ours.

Knows: onnxruntime, tokenizers, files. Refuses to know: event loops, models, and who embeds what. All of it blocks.
"""

import ctypes
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.interface import EmbedderUnavailable, EmbeddingFailure

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
        raise EmbedderUnavailable(EmbeddingFailure(reason=reason)) from error


@contextmanager
def failing_as_unavailable() -> Iterator[None]:
    """Turn what onnxruntime raises (memory, unreadable model) into our own, telling the kind without the message."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state  # noqa: PLC0415 - loaded by then, never before

    # They share no base but Exception.
    kinds = (state.Fail, state.RuntimeException, state.InvalidArgument, state.InvalidGraph, state.InvalidProtobuf)
    try:
        yield
    except (*kinds, state.NotImplemented, MemoryError, RuntimeError) as error:
        raise EmbedderUnavailable(EmbeddingFailure(reason=f"onnxruntime failed: {type(error).__name__}")) from error


def check_file(path: Path, expected: str, *, mend: str) -> None:
    """Prove that a file has this sha256; `mend` says what to do about one that has not. Raises EmbedderUnavailable."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EmbedderUnavailable(EmbeddingFailure(reason=f"cannot read {path}: {error.strerror}; {mend}")) from error
    if found != expected:
        reason = f"{path} is damaged: its sha256 is {found}, expected {expected}; {mend}"
        raise EmbedderUnavailable(EmbeddingFailure(reason=reason))


def load_tokenizer(path: Path, tokens: int) -> "Tokenizer":
    """Return a tokenizer that cuts texts at so many tokens and pads none."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - 60 ms that a worker with another embedder never pays

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    return tokenizer


def load_session(path: Path, *, threads: int, fold: bool) -> Any:
    """Return a session; `fold`: weights of 8 bits become float32 at load.

    Without it the runtime takes int8 kernels where it finds such weights: mean cosine .9996, not .9998.
    """
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch ever seen for good: 120 instead of 300 MB per worker without it.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    if fold:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    # Idle threads must sleep: spinning would burn a core between batches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with failing_as_unavailable():
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def padded(batch: Sequence[Sequence[int]]) -> dict[str, NDArray[np.int64]]:
    """Return texts as token ids in the form of the inputs that all our graphs have."""
    ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def encodable(text: str) -> str:
    """Replace lone surrogates, which no UTF-8 has and the tokenizer refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def return_freed_memory() -> None:
    """Give the pages of loading (file buffer, unfolded weights) back to the system; glibc alone would keep them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
