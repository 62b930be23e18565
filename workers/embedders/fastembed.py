"""Run models of the package `fastembed`, by its names (`fastembed:BAAI/bge-small-en-v1.5`), from a model hub.

Knows: the package's interface, which comes with an extra. Refuses to know: what models there are, queues, caches.
Implements `interface.Embedder`. Texts run one by one: some of the models have one scale for the activations of a run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from engramq.workers.embedders.interface import BatchLimits, Embedder, EmbedderSpec, EmbedderUnavailable, Vectors
from engramq.workers.embedders.onnx_session import LazyModel, encodable, failing_as_unavailable, tell_nobody, unit_rows

FOLDER: Final = Path("models", "fastembed")  # in the home
EXTRA: Final = "install engramq[fastembed]"
MAX_TOKENS: Final = 512  # of most of them; each cuts by itself
# What loading raises: files, network (requests' errors are OSErrors), unknown models, the hub's refusals.
_LOADING: Final = (OSError, ValueError, RuntimeError)


class FastembedEmbedder(Embedder):
    """Load on first use, downloading the model when it is not here yet."""

    def __init__(self, name: str, model: str, *, home: Path | None = None, **options: Any) -> None:
        """`name` is the setting, `model` the package's name; `home` keeps what is downloaded; `options` go on to it."""
        self._name, self._model = name, model
        self._options = {"threads": 1, **options}
        if home is not None:
            self._options["cache_dir"] = str(home / FOLDER)
        self._package: LazyModel[Any] = LazyModel(
            self._load, at_once=1, closed_reason=f"{name}: the embedder is closed"
        )
        self._dimensions = 0

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model: its name, since the package tells no digest."""
        return EmbedderSpec(
            name=self._name,
            dimensions=self._dimensions,
            max_tokens=MAX_TOKENS,
            batches=BatchLimits(alone=True),
        )

    def adopt(self, sha256: str) -> bool:
        """Say whether these may be vectors of this model."""
        return not sha256

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if not texts and self._dimensions and not self._package.closed:
            return np.empty((0, self._dimensions), dtype=np.float32)
        return await self._package.run(lambda model: self._run(model, texts, questions=questions))

    async def aclose(self) -> None:
        self._package.close()

    def _run(self, model: Any, texts: Sequence[str], *, questions: bool) -> Vectors:
        readable = [encodable(text) for text in texts]
        with failing_as_unavailable():
            made = (model.query_embed if questions else model.passage_embed)(readable, batch_size=1)
            vectors = np.array(list(made), dtype=np.float32).reshape(len(texts), -1)
        if not len(texts):
            return np.empty((0, self._dimensions), dtype=np.float32)
        self._dimensions = vectors.shape[1]
        return unit_rows(vectors)

    def _load(self) -> Any:
        tell_nobody()
        try:
            from fastembed import TextEmbedding  # noqa: PLC0415 - an extra, and a second to import
        except ImportError as error:
            raise self._unavailable(f"the package {error.name} is missing: {EXTRA}") from error
        try:
            model = TextEmbedding(model_name=self._model, **self._options)
        except _LOADING as error:
            told = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            raise self._unavailable(f"cannot load {self._model}: {told}") from error
        self._dimensions = int(model.embedding_size)
        return model

    def _unavailable(self, why: str) -> EmbedderUnavailable:
        return EmbedderUnavailable(f"{self._name}: {why}")
