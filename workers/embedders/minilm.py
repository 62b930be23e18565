"""Run the default embedder: all-MiniLM-L6-v2 from the package's own ONNX files, offline. English.

Knows: which arithmetic to use, and how to feed sessions cheaply. Refuses to know: queues, caches, the network.
Implements `interface.Embedder`. Each run takes one thread beside the event loop, and as many run at once as there are
cores: two threads a run cost 3 to 17 % more.

Int8 arithmetic takes 2.4 times less where the CPU has instructions for it, at no loss of recall. Its vectors are those
of a model with an id of its own: a store goes on as it began (see `adopt`), and a new one begins with int8 where the
CPU has it, else with the arithmetic that is measured to be faster. In a store that began with float32, questions alone
are embedded in int8, if that is faster.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders.interface import BatchLimits, Embedder, EmbedderSpec, EmbedderUnavailable, Vectors
from engramq.workers.embedders.onnx_session import (
    TEXTS_PER_RUN,
    LazyModel,
    check_file,
    encodable,
    failing_as_unavailable,
    load_session,
    load_tokenizer,
    needing_libraries,
    pad,
    return_freed_memory,
    split_in_runs,
    usable_cores,
)

FOLDER = Path(__file__).parent / "minilm"
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
MODEL_SHA256 = "54f75b302aa7f5550f01b276e2fa1b1206f88570398bb0eda532af2b3c30373a"
INT8_FILE = "model_int8.onnx"  # the same weights in int8 arithmetic; reads the token table of the other file
INT8_SHA256 = "a092e00af0ca17e9704ddf834dbaa9e01e7bb035d34eb5e0e2d06e5712a557b5"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


def interchangeable(sha256: str) -> frozenset[str]:
    """Return the digests of the models that mean the same by a vector: both arithmetics of the bundled one."""
    bundled = frozenset((MODEL_SHA256, INT8_SHA256))
    return bundled if sha256 in bundled else frozenset((sha256,))


DIMENSIONS: Final = 384
MAX_TOKENS: Final = 256
MEND: Final = "install engramq again"
NOW_CHARS: Final = 200  # of a text that int8 arithmetic reads in some 2 ms, as long as the event loop may be kept
_TIMED_TOKENS: Final = 24  # what a question has
# Of the tokens of a text, [UNK] for what the model was not taught (Thai, Khmer, Amharic, an emoji): with more it would
# make one vector for all such texts. They get zeros, which are similar to nothing.
UNKNOWN_SHARE: Final = 0.5
_UNKNOWN: Final = 100
_BOUNDS: Final = 2  # tokens around each text: [CLS] and [SEP]


class Arithmetic(StrEnum):
    """How a model multiplies."""

    FLOAT32 = "float32"
    INT8 = "int8"

    @property
    def sha256(self) -> str:
        """The digest of the file that the vectors come from: the identity of the model."""
        return INT8_SHA256 if self is Arithmetic.INT8 else MODEL_SHA256


class LoadedMiniLm:
    """A loaded model."""

    def __init__(self, folder: Path, arithmetic: Arithmetic) -> None:
        """Raises EmbedderUnavailable for a file that is missing or damaged, and without the libraries."""
        self.arithmetic = arithmetic
        check_file(folder / MODEL_FILE, MODEL_SHA256, mend=MEND)  # holds the table of tokens of both
        path = folder / MODEL_FILE
        if arithmetic is Arithmetic.INT8:
            path = folder / INT8_FILE
            check_file(path, INT8_SHA256, mend=MEND)
        with needing_libraries("minilm"):
            self._session = load_session(path, fold=arithmetic is Arithmetic.FLOAT32)
        return_freed_memory()

    def run(self, batch: Sequence[Sequence[int]]) -> Vectors:
        """Return float32 [len(batch), DIMENSIONS] for texts as token ids."""
        if self.arithmetic is Arithmetic.INT8 and len(batch) > 1:
            return np.concatenate([self.run([tokens]) for tokens in batch])
        with failing_as_unavailable():
            (vectors,) = self._session.run(None, pad(batch))
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
        check_file(folder / TOKENIZER_FILE, TOKENIZER_SHA256, mend=MEND)
        with needing_libraries("minilm"):
            # The published file asks for 128 tokens, always padded to 128: the model was made for 256.
            self._tokenizer = load_tokenizer(folder / TOKENIZER_FILE, MAX_TOKENS)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return at most MAX_TOKENS ids for each text."""
        readable = [encodable(text) for text in texts]
        if len(readable) == 1:  # by the library's way for several the thread would have to get the interpreter back
            return [self._tokenizer.encode(readable[0]).ids]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]


log = logging.getLogger(__name__)

_TURNS: Final = 6  # of measuring; the first does not count
_FASTER: Final = 0.8  # of the time that float32 takes; else int8 is not worth another model
# With these int8 takes .4 of the time, so that a new store needs no float32 model to compare with: .18 s of its start.
_VNNI: Final = frozenset({"avx512_vnni", "avx_vnni"})


@dataclass(frozen=True, slots=True)
class _Loaded:
    encoder: TokenEncoder
    kept: LoadedMiniLm | None  # for what is stored; None when the file of the store's model cannot be used
    asked: LoadedMiniLm  # for questions


class MiniLmEmbedder(Embedder):
    """Load on first use; embed sorted by length, in runs of at most 32 texts and about 1,000 padded tokens."""

    def __init__(self, *, folder: Path = FOLDER, arithmetic: Arithmetic | None = None) -> None:
        """`folder` holds the files; `arithmetic` None: see `_sessions`."""
        self._folder = folder
        self._arithmetic = arithmetic
        self._spare: dict[Arithmetic, LoadedMiniLm] = {}  # of the model before, for the next one that is loaded
        cores = usable_cores()
        self._batches = BatchLimits(texts=TEXTS_PER_RUN, concurrent=cores, alone=True)
        self._model = LazyModel(self._load, at_once=cores, closed_reason="the minilm embedder is closed")

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model that makes what is stored; sure when it was adopted, or has been loaded."""
        return EmbedderSpec(
            name="minilm",
            sha256=(self._arithmetic or Arithmetic.FLOAT32).sha256,
            dimensions=DIMENSIONS,
            max_tokens=MAX_TOKENS,
            names_drown=True,
            batches=self._batches,
        )

    def adopt(self, sha256: str) -> bool:
        """Make the vectors of this model from now on, if it is one of ours."""
        found = next((arithmetic for arithmetic in Arithmetic if arithmetic.sha256 == sha256), None)
        if found is not None and found is not self._arithmetic:
            with self._model.another():  # nothing loads before the first text
                self._arithmetic = found
                if (former := self._model.loaded) is not None:
                    self._spare = {session.arithmetic: session for session in (former.kept, former.asked) if session}
        return found is not None

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if len(texts) == 1:
            return await self._model.run(lambda model: _run(model, model.encoder.encode(texts), questions=questions))
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        if texts or self._model.closed:
            encoded = await self._model.run(lambda model: model.encoder.encode(texts))
            for rows in split_in_runs([len(ids) for ids in encoded]):
                batch = [encoded[row] for row in rows]
                vectors[rows] = await self._model.run(partial(_run, batch=batch, questions=questions))
        return vectors

    def embed_now(self, text: str, *, question: bool = False) -> Vectors | None:
        model = self._model.loaded
        if model is None or len(text) > NOW_CHARS:
            return None
        session = model.asked if question else model.kept
        if session is None or session.arithmetic is not Arithmetic.INT8:
            return None
        return _run(model, model.encoder.encode([text]), questions=question)

    async def aclose(self) -> None:
        self._model.close()
        self._spare.clear()

    def _load(self) -> _Loaded:
        encoder = TokenEncoder(self._folder)
        sessions = self._sessions()
        fastest = _fastest(sessions)
        self._arithmetic = self._arithmetic or fastest
        loaded = _Loaded(encoder, sessions.get(self._arithmetic), sessions[fastest])
        sessions.clear()  # the slower one of a new store goes with it
        self._spare.clear()
        return_freed_memory()
        return loaded

    def _sessions(self) -> dict[Arithmetic, LoadedMiniLm]:
        """Load what may be used: int8 if it can be had, and float32 unless the store began with int8, or will.

        A new store does so without a comparison where the CPU multiplies int8.
        """
        sessions: dict[Arithmetic, LoadedMiniLm] = {}
        try:
            sessions[Arithmetic.INT8] = self._session(Arithmetic.INT8)
        except EmbedderUnavailable as problem:
            log.warning("No int8 arithmetic: float32 is used", extra={"reason": problem.reason})
        begins_with_int8 = self._arithmetic is None and multiplies_int8()
        if not (sessions and (begins_with_int8 or self._arithmetic is Arithmetic.INT8)):
            sessions[Arithmetic.FLOAT32] = self._session(Arithmetic.FLOAT32)
        return sessions

    def _session(self, arithmetic: Arithmetic) -> LoadedMiniLm:
        return self._spare.get(arithmetic) or LoadedMiniLm(self._folder, arithmetic)


def _run(loaded: _Loaded, batch: Sequence[Sequence[int]], *, questions: bool) -> Vectors:
    session = loaded.asked if questions else loaded.kept
    if session is None:
        reason = "this store's vectors are made by the int8 model, whose file cannot be used: install engramq again"
        raise EmbedderUnavailable(reason)
    read = [row for row, ids in enumerate(batch) if is_readable(ids)]
    if len(read) == len(batch):
        return session.run(batch)
    vectors = np.zeros((len(batch), DIMENSIONS), dtype=np.float32)
    if read:
        vectors[read] = session.run([batch[row] for row in read])
    return vectors


def is_readable(ids: Sequence[int]) -> bool:
    """Say whether the model was taught enough of a text's tokens to say anything of it."""
    return ids.count(_UNKNOWN) <= UNKNOWN_SHARE * (len(ids) - _BOUNDS) and len(ids) > _BOUNDS


def multiplies_int8() -> bool:
    """Say whether the CPU has instructions for sums of products of int8; where it does not say so, no."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # another system
        return False
    return any(not _VNNI.isdisjoint(line.split()) for line in lines if line.startswith("flags"))


def _fastest(sessions: Mapping[Arithmetic, LoadedMiniLm]) -> Arithmetic:
    """Return what questions are embedded with, and what a new store begins with: of two the faster one, as measured."""
    found, taken = next(iter(sessions)), dict[Arithmetic, float]()
    if len(sessions) > 1:
        # In turns, so that other load is in the way of both.
        turns = [{arithmetic: session.run_ms() for arithmetic, session in sessions.items()} for _ in range(_TURNS)]
        taken = {arithmetic: min(turn[arithmetic] for turn in turns[1:]) for arithmetic in sessions}
        faster = taken[Arithmetic.INT8] < _FASTER * taken[Arithmetic.FLOAT32]
        found = Arithmetic.INT8 if faster else Arithmetic.FLOAT32
    log.info(
        "Arithmetic chosen",
        extra={"arithmetic": found} | {f"{arithmetic}_ms": round(ms, 2) for arithmetic, ms in taken.items()},
    )
    return found
