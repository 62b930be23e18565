"""The model as onnxruntime runs it. Knows files and libraries; constructing and calling block."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders.e5 import files
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

# What the model was trained with; without them it finds less.
TEXT, QUESTION = "passage: ", "query: "
CHARACTERS_MAX: Final = 16 * files.MAX_TOKENS  # no piece has more; what is beyond is not seen anyway


class E5Session:
    """The loaded model with its tokenizer."""

    def __init__(self, folder: Path, *, threads: int, sha256: Mapping[str, str] = files.SHA256) -> None:
        """`sha256`: of the files, by their names.

        Raises EmbedderUnavailable for a file that is missing or damaged, and without the libraries.
        """
        for name, expected in sha256.items():
            check_file(folder / name, expected, mend=files.MEND)
        replaced = json.loads((folder / files.REPLACEMENTS_FILE).read_bytes())
        self._replaced = {int(character, 16): text for character, text in replaced.items()}
        with needing_libraries("e5"):
            self._tokenizer = load_tokenizer(folder / files.TOKENIZER_FILE, files.MAX_TOKENS)
            self._session = load_session(folder / files.MODEL_FILE, threads=threads, fold=True)
        return_freed_memory()

    def encode(self, texts: Sequence[str], *, questions: bool) -> list[list[int]]:
        """Return at most MAX_TOKENS ids for each text."""
        prefix = QUESTION if questions else TEXT
        readable = [prefix + self._normal(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]

    def run(self, batch: Sequence[Sequence[int]], *, questions: bool) -> Vectors:
        """Return float32 [len(batch), DIMENSIONS] for texts as token ids."""
        kind = np.full(len(batch), int(questions), dtype=np.int64)
        with failing_as_unavailable():
            (vectors,) = self._session.run(None, padded(batch) | {"kind": kind})
        return np.asarray(vectors, dtype=np.float32)

    def _normal(self, text: str) -> str:
        """Replace characters as SentencePiece does: compatibility forms, and composed ones for letter and accent."""
        if text.isascii() and text.isprintable():
            return text
        return unicodedata.normalize("NFC", encodable(text[:CHARACTERS_MAX])).translate(self._replaced)
