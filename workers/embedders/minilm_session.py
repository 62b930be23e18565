"""The bundled model as onnxruntime runs it: tokenizer and sessions, in float32 and in int8 arithmetic.

Knows: onnxruntime, tokenizers, files. Refuses to know: event loops and who embeds what. Constructing and calling block.

Int8 arithmetic has one scale for the activations of a run, so each text runs alone: its vector never hangs on company.
Its weights have 7 bits, so that no sum of two products overflows 16 bits on a CPU that has nothing better.
"""

import ctypes
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from engramq.workers.embedders import bundle
from engramq.workers.embedders.interface import EmbedderUnavailable, EmbeddingFailure, Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256
_TIMED_TOKENS: Final = 24  # what a question has


class Arithmetic(StrEnum):
    """How a model multiplies."""

    FLOAT32 = "float32"
    INT8 = "int8"

    @property
    def sha256(self) -> str:
        """The digest of the file that the vectors come from: the identity of the model."""
        return bundle.INT8_SHA256 if self is Arithmetic.INT8 else bundle.MODEL_SHA256


class Session:
    """A loaded model."""

    def __init__(self, folder: Path, arithmetic: Arithmetic, *, threads: int = 1) -> None:
        """Raises EmbedderUnavailable for a file that is missing or damaged, and without the libraries."""
        self.arithmetic = arithmetic
        _check(folder / bundle.MODEL_FILE, bundle.MODEL_SHA256)  # holds the table of tokens of both
        path = folder / bundle.MODEL_FILE
        if arithmetic is Arithmetic.INT8:
            path = folder / bundle.INT8_FILE
            _check(path, bundle.INT8_SHA256)
        with _needing_libraries():
            self._session = _load_session(path, arithmetic, threads)
        _return_freed_memory()

    def run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """Return float32 [len(batch), DIMENSIONS] for texts as token ids."""
        if self.arithmetic is Arithmetic.INT8 and len(batch) > 1:
            return np.concatenate([self.run([tokens]) for tokens in batch])
        ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        with _failing_as_unavailable():
            (vectors,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        return np.asarray(vectors, dtype=np.float32)

    def run_ms(self) -> float:
        """Run a question; return the CPU that it took, of this thread, which is all where a run has one."""
        began = time.thread_time()
        self.run([[101, *range(2000, 2000 + _TIMED_TOKENS - 2), 102]])
        return 1e3 * (time.thread_time() - began)


class TokenEncoder:
    """Texts to token ids."""

    def __init__(self, folder: Path) -> None:
        """Raises EmbedderUnavailable for a file that is missing or damaged, and without the library."""
        _check(folder / bundle.TOKENIZER_FILE, bundle.TOKENIZER_SHA256)
        with _needing_libraries():
            self._tokenizer = _load_tokenizer(folder / bundle.TOKENIZER_FILE)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return at most MAX_TOKENS ids for each text."""
        readable = [_encodable(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]


@contextmanager
def _needing_libraries() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        reason = f"the library {error.name} cannot be loaded here: minilm needs onnxruntime and tokenizers"
        raise EmbedderUnavailable(EmbeddingFailure(reason=reason)) from error


def _load_tokenizer(path: Path) -> "Tokenizer":
    from tokenizers import Tokenizer  # noqa: PLC0415 - 60 ms that a worker with another embedder never pays

    tokenizer = Tokenizer.from_file(str(path))
    # The published file asks for 128 tokens, always padded to 128: the model was made for 256.
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _load_session(path: Path, arithmetic: Arithmetic, threads: int) -> Any:
    import onnxruntime  # noqa: PLC0415 - 150 ms and 40 MB, paid in the thread, by the process that embeds

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest batch ever seen for good: 120 instead of 300 MB per worker without it.
    options.enable_cpu_mem_arena = False
    options.log_severity_level = 3
    if arithmetic is Arithmetic.FLOAT32:
        # Fold the int8 weights at load. Without it the runtime takes int8 kernels: mean cosine .9996, not .9998.
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


def _return_freed_memory() -> None:
    """Give the pages of loading (file buffer, unfolded weights) back to the system; glibc alone would keep them."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
