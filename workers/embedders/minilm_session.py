"""The bundled model as onnxruntime runs it: tokenizer and sessions, in float32 and in int8 arithmetic.

Knows: onnxruntime, tokenizers, files. Refuses to know: event loops and who embeds what. Constructing and calling block.

Int8 arithmetic has one scale for the activations of a run, so each text runs alone: its vector never hangs on company.
Its weights have 7 bits, so that no sum of two products overflows 16 bits on a CPU that has nothing better.
"""

import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders import bundle
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.onnx_session import (
    check_file,
    encodable,
    failing_as_unavailable,
    load_session,
    load_tokenizer,
    needing_libraries,
    padded,
    return_freed_memory,
)

DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256
MEND: Final = "install engramq again"
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
        check_file(folder / bundle.MODEL_FILE, bundle.MODEL_SHA256, mend=MEND)  # holds the table of tokens of both
        path = folder / bundle.MODEL_FILE
        if arithmetic is Arithmetic.INT8:
            path = folder / bundle.INT8_FILE
            check_file(path, bundle.INT8_SHA256, mend=MEND)
        with needing_libraries("minilm"):
            self._session = load_session(path, threads=threads, fold=arithmetic is Arithmetic.FLOAT32)
        return_freed_memory()

    def run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """Return float32 [len(batch), DIMENSIONS] for texts as token ids."""
        if self.arithmetic is Arithmetic.INT8 and len(batch) > 1:
            return np.concatenate([self.run([tokens]) for tokens in batch])
        with failing_as_unavailable():
            (vectors,) = self._session.run(None, padded(batch))
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
        check_file(folder / bundle.TOKENIZER_FILE, bundle.TOKENIZER_SHA256, mend=MEND)
        with needing_libraries("minilm"):
            # The published file asks for 128 tokens, always padded to 128: the model was made for 256.
            self._tokenizer = load_tokenizer(folder / bundle.TOKENIZER_FILE, MAX_TOKENS)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return at most MAX_TOKENS ids for each text."""
        readable = [encodable(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]
