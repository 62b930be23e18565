"""The default embedder: all-MiniLM-L6-v2 from the package's own ONNX files, offline. English.

Knows: which arithmetic to use, and how to feed sessions cheaply. Refuses to know: queues, caches, the network.
Implements `interface.Embedder`. Each run takes one thread beside the event loop, and as many run at once as there are
cores: two threads a run cost 3 to 17 % more.

Int8 arithmetic takes 2.4 times less where the CPU has instructions for it, at no loss of recall. Its vectors are those
of a model with an id of its own: a store goes on as it began (see `adopt`), and a new one begins with what is faster
here. In a store that began with float32, questions alone are embedded in int8, if that is faster.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders import bundle
from engramq.workers.embedders.interface import (
    BatchLimits,
    EmbedderSpec,
    EmbedderUnavailable,
    EmbeddingFailure,
    Vectors,
)
from engramq.workers.embedders.lazy_model import LazyModel
from engramq.workers.embedders.minilm_session import DIMENSIONS, MAX_TOKENS, Arithmetic, Session, TokenEncoder
from engramq.workers.embedders.runs import TEXTS_PER_RUN, in_runs, usable_cores

log = logging.getLogger(__name__)

_TURNS: Final = 6  # of measuring; the first does not count
_FASTER: Final = 0.8  # of the time that float32 takes; else int8 is not worth another model


@dataclass(frozen=True, slots=True)
class _Loaded:
    encoder: TokenEncoder
    kept: Session | None  # for what is stored; None when the file of the store's model cannot be used
    asked: Session  # for questions


class MiniLmEmbedder:
    """Load on first use; embed sorted by length, in runs of at most 32 texts and about 1,000 padded tokens."""

    def __init__(self, *, threads: int = 1, folder: Path = bundle.FOLDER, arithmetic: Arithmetic | None = None) -> None:
        """`threads` is what one run may use; `folder` holds the files; `arithmetic` None: what is faster here."""
        self._threads = threads
        self._folder = folder
        self._arithmetic = arithmetic
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
        found = next((one for one in Arithmetic if one.sha256 == sha256), None)
        if found is not None and found is not self._arithmetic:
            with self._model.another():  # nothing loads before the first text
                self._arithmetic = found
        return found is not None

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if len(texts) == 1:
            return await self._model.run(lambda model: _run(model, model.encoder.encode(texts), questions=questions))
        vectors = np.empty((len(texts), DIMENSIONS), dtype=np.float32)
        if texts or self._model.closed:
            encoded = await self._model.run(lambda model: model.encoder.encode(texts))
            for rows in in_runs([len(ids) for ids in encoded]):
                batch = [encoded[row] for row in rows]
                vectors[rows] = await self._model.run(partial(_run, batch=batch, questions=questions))
        return vectors

    async def warm(self) -> None:
        await self.embed(["warm"])

    async def aclose(self) -> None:
        self._model.close()

    def _load(self) -> _Loaded:
        encoder = TokenEncoder(self._folder)
        sessions = self._sessions()
        fastest = _fastest(sessions)
        self._arithmetic = self._arithmetic or fastest
        return _Loaded(encoder, sessions.get(self._arithmetic), sessions[fastest])

    def _sessions(self) -> Mapping[Arithmetic, Session]:
        """Load what may be used: int8 if it can be had, and float32 unless the store began with int8."""
        sessions = {}
        try:
            sessions[Arithmetic.INT8] = Session(self._folder, Arithmetic.INT8, threads=self._threads)
        except EmbedderUnavailable as problem:
            log.warning("No int8 arithmetic: float32 is used", extra={"reason": problem.failure.reason})
        if self._arithmetic is not Arithmetic.INT8 or not sessions:
            sessions[Arithmetic.FLOAT32] = Session(self._folder, Arithmetic.FLOAT32, threads=self._threads)
        return sessions


def _run(loaded: _Loaded, batch: Sequence[Sequence[int]], *, questions: bool) -> Vectors:
    session = loaded.asked if questions else loaded.kept
    if session is None:
        reason = "this store's vectors are made by the int8 model, whose file cannot be used: install engramq again"
        raise EmbedderUnavailable(EmbeddingFailure(reason=reason))
    return session.run(batch)


def _fastest(sessions: Mapping[Arithmetic, Session]) -> Arithmetic:
    """Return what questions are embedded with, and what a new store begins with: measured, not guessed."""
    if len(sessions) == 1:
        return next(iter(sessions))
    # In turns, so that whoever else is busy is in the way of both.
    turns = [{one: session.run_ms() for one, session in sessions.items()} for _ in range(_TURNS)]
    taken = {one: min(turn[one] for turn in turns[1:]) for one in sessions}
    faster = taken[Arithmetic.INT8] < _FASTER * taken[Arithmetic.FLOAT32]
    found = Arithmetic.INT8 if faster else Arithmetic.FLOAT32
    log.info(
        "Arithmetic chosen", extra={"arithmetic": found} | {f"{one}_ms": round(ms, 2) for one, ms in taken.items()}
    )
    return found
