"""Define what the rest of engramq may know about turning text into vectors.

Knows: the contract of an embedder, the identity of a model, and how embedding fails.
Refuses to know: any model, file, network address, cache or queue.
Implemented by `minilm`, `openai` and `hashing`; wrapped by `batching.BatchingEmbedder`, which is what workers hold.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How an embedder likes to be fed.

    `characters` bounds what one call costs, so that a short query never waits long behind long texts; a single text
    above it still travels, alone. `concurrent` is the number of calls that gain from running at the same time. `alone`:
    texts that somebody waits for gain nothing from going together.
    """

    texts: int = 32
    characters: int = 4_000
    concurrent: int = 1
    alone: bool = False


class EmbedderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The identity of a model, stored beside each vector that it made.

    `name` is the value of ENGRAMQ_EMBEDDER. `sha256` is the hex digest of the model's file, "" where there is no file.
    `dimensions` is 0 until a remote model has answered once (`warm` makes it known). The model reads a text up to
    `max_tokens`. `names_drown`: names in a question outweigh what it asks, so they are taken out of it.
    """

    name: str
    dimensions: int
    max_tokens: int
    sha256: str = ""
    names_drown: bool = False
    batches: BatchLimits = BatchLimits()


class EmbedderUnavailable(Exception):
    """The texts were not embedded; nothing about them is known to be wrong. Keep them pending and try later.

    `reason` never holds a text, a key or a stack trace.
    """

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after_s = retry_after_s


class EmbedderOverloaded(EmbedderUnavailable):
    """Refused at once, because too many texts are waiting already."""


class InputRejected(EmbedderUnavailable):
    """The model answered, and will not take at least one of these texts. Trying the same texts again is useless."""


class Embedder(Protocol):
    """Turn texts into unit vectors. Every method runs on the event loop and never blocks it.

    Our own embedders inherit what most have in common.
    """

    @property
    def spec(self) -> EmbedderSpec: ...

    def adopt(self, sha256: str) -> bool:
        """Make the vectors of the model with this digest from now on, because the store has such; False if it cannot.

        Called before the first text; what was made before counts no more. Most have one model alone.
        """
        return sha256 == self.spec.sha256

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        """Return float32 [len(texts), dimensions], rows in the order of `texts`, each of length 1, or zeros for a text
        that the model cannot read: it is compared with nothing.

        No text, no row: [] gives [0, dimensions]. The same text gives the same row in any company (cosine .999999).
        `questions` are compared with what is stored and never kept: they may be computed less exactly. Raises
        EmbedderUnavailable; then no text of the call counts as embedded.
        """
        ...

    def embed_now(self, text: str, *, question: bool = False) -> Vectors | None:  # noqa: ARG002 - most cannot
        """Return what `embed` does for one text, at once; None where that would keep the event loop for long.

        For who is alone in a process: a thread costs more than a short text does. Raises EmbedderUnavailable.
        """
        return None

    async def warm(self) -> None:
        """Load or reach the model now, so that the first text does not pay for it. Raises EmbedderUnavailable."""
        await self.embed(["warm"])

    async def aclose(self) -> None:
        """Let go of the model. Idempotent; `embed` afterwards raises EmbedderUnavailable."""
        ...
