"""Any sentence model in ONNX, from a folder as sentence-transformers exports it: `ENGRAMQ_EMBEDDER=onnx:FOLDER`.

The folder holds the graph (`model.onnx` or `onnx/model.onnx`) and `tokenizer.json`. These files are read if they are
there: `modules.json`, `1_Pooling/config.json`, `sentence_bert_config.json` and `config.json` (length),
`config_sentence_transformers.json` (prompts). Without them: mean pooling, 512 tokens, no prompt.
Implements `interface.Embedder`. The model's identity is a digest of all these files: another export is another model.
"""

import hashlib
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

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
    sha256_of,
    split_in_runs,
    unit_rows,
    usable_cores,
)

GRAPHS: Final = ("model.onnx", "onnx/model.onnx")
TOKENIZER: Final = "tokenizer.json"
REPLACEMENTS: Final = "replacements.json"  # characters (hexadecimal) and what they become before the tokenizer
PROMPTS: Final = "config_sentence_transformers.json"
LENGTH: Final = "sentence_bert_config.json"
CONFIGS: Final = ("modules.json", "1_Pooling/config.json", LENGTH, PROMPTS, "config.json", REPLACEMENTS)
COMPUTED: Final = frozenset({"Transformer", "Pooling", "Normalize"})  # modules that engramq computes itself
MAX_TOKENS: Final = 512
CHARACTERS_A_TOKEN: Final = 16  # at most; what is beyond is not seen anyway
SENTENCE: Final = "sentence_embedding"  # the output of a graph that pools by itself

Array = NDArray[np.float32]
Pooling = Callable[[Array, NDArray[np.int64]], Array]


def _mean(hidden: Array, mask: NDArray[np.int64]) -> Array:
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((hidden * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1e-9))


POOLINGS: Final[Mapping[str, Pooling]] = {
    "mean_tokens": _mean,
    "cls_token": lambda hidden, _mask: hidden[:, 0],
    "lasttoken": lambda hidden, mask: hidden[np.arange(len(hidden)), mask.sum(axis=1) - 1],
}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """The description of a model in its folder. `digests`: of the files that have to be whole when it is loaded."""

    graph: Path
    tokenizer: Path
    max_tokens: int
    pooling: Pooling
    prompts: Mapping[bool, str]  # by whether the text is a question
    replaced: Mapping[int, str]
    digests: Mapping[Path, str]

    @property
    def sha256(self) -> str:
        """The identity of the model."""
        return hashlib.sha256("".join(sorted(self.digests.values())).encode()).hexdigest()


def read_folder(folder: Path, expected: Mapping[str, str] | None = None) -> ModelFolder:
    """Return what a folder says; `expected`: the digests of its files where they are known beforehand.

    Raises ValueError, which names what is missing or cannot be computed.
    """
    graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
    if graph is None:
        raise ValueError(f"{folder} has no {' and no '.join(GRAPHS)}: export the model to ONNX into this folder")
    if not (folder / TOKENIZER).is_file():
        raise ValueError(f"{folder} has no {TOKENIZER}: save the model's fast tokenizer there too")
    for module in _content(folder, "modules.json", []):
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in COMPUTED:
            raise ValueError(f"{folder}/modules.json asks for {kind}, which engramq does not compute")
    prompts = _content(folder, PROMPTS, {}).get("prompts") or {}
    replaced = _content(folder, REPLACEMENTS, {})
    return ModelFolder(
        graph=graph,
        tokenizer=folder / TOKENIZER,
        max_tokens=_max_tokens(folder),
        pooling=_pooling(folder),
        prompts={True: prompts.get("query", ""), False: prompts.get("passage") or prompts.get("document", "")},
        replaced={int(character, 16): text for character, text in replaced.items()},
        digests=_digests(folder, graph) if expected is None else {folder / name: expected[name] for name in expected},
    )


def _digests(folder: Path, graph: Path) -> Mapping[Path, str]:
    weights = graph.parent.glob(f"{graph.name}?data*")  # of a graph above 2 GB, beside it
    configs = (folder / name for name in CONFIGS if (folder / name).is_file())
    return {path: _digest(path) for path in (graph, *sorted(weights), folder / TOKENIZER, *configs)}


def _content(folder: Path, name: str, default: Any) -> Any:
    if not (folder / name).is_file():
        return default
    try:
        content = json.loads((folder / name).read_bytes())
    except (OSError, ValueError) as problem:
        raise ValueError(f"{folder / name} cannot be read: {problem}") from None
    if not isinstance(content, type(default)):
        raise ValueError(f"{folder / name} is not what sentence-transformers writes")
    return content


def _max_tokens(folder: Path) -> int:
    length = _content(folder, LENGTH, {}).get("max_seq_length")
    return int(length or _content(folder, "config.json", {}).get("max_position_embeddings") or MAX_TOKENS)


def _pooling(folder: Path) -> Pooling:
    config = _content(folder, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    chosen = [name.removeprefix("pooling_mode_") for name, on in config.items() if on is True and "_mode_" in name]
    if len(chosen) != 1 or chosen[0] not in POOLINGS:
        raise ValueError(f"{folder}/1_Pooling/config.json: engramq pools by one of {', '.join(POOLINGS)}, not {chosen}")
    return POOLINGS[chosen[0]]


def _digest(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as problem:
        raise ValueError(f"{path} cannot be read: {problem.strerror}") from None


class FolderSession:
    """The loaded model with its tokenizer. Constructing and calling block."""

    def __init__(self, name: str, folder: ModelFolder, *, mend: str) -> None:
        """`mend` says what to do about a damaged file. Raises EmbedderUnavailable."""
        for path, sha256 in folder.digests.items():
            check_file(path, sha256, mend=mend)
        self._folder = folder
        with needing_libraries(name):
            self._tokenizer = load_tokenizer(folder.tokenizer, folder.max_tokens)
            self._session = load_session(folder.graph, fold=True)
        self._inputs = {given.name for given in self._session.get_inputs()}
        outputs = [made.name for made in self._session.get_outputs()]
        self._output = SENTENCE if SENTENCE in outputs else outputs[0]
        # Activations that are quantised by the run have one scale for all its texts: each runs alone.
        self._alone = b"DynamicQuantizeLinear" in folder.graph.read_bytes()
        return_freed_memory()
        self.dimensions = self.run(self.encode(["warm"], questions=False), questions=False).shape[1]

    def encode(self, texts: Sequence[str], *, questions: bool) -> list[list[int]]:
        """Return at most `max_tokens` ids for each text."""
        prompt = self._folder.prompts[questions]
        readable = [prompt + self._replaced(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(readable)]

    def run(self, batch: Sequence[Sequence[int]], *, questions: bool) -> Vectors:
        """Return unit vectors, float32 [len(batch), dimensions], for texts as token ids."""
        if self._alone and len(batch) > 1:
            return np.concatenate([self.run([tokens], questions=questions) for tokens in batch])
        given = pad(batch)
        mask = given["attention_mask"]
        given["token_type_ids"] = np.zeros_like(mask)
        given["position_ids"] = np.broadcast_to(np.arange(mask.shape[1]), mask.shape).astype(np.int64)
        given["kind"] = np.full(len(batch), int(questions), dtype=np.int64)  # of our own e5
        if unknown := self._inputs - given.keys():
            raise EmbedderUnavailable(f"the model asks for {', '.join(sorted(unknown))}")
        with failing_as_unavailable():
            (made,) = self._session.run([self._output], {name: given[name] for name in self._inputs})
        vectors = np.asarray(made, dtype=np.float32)
        if vectors.ndim == 3:  # one for each token
            vectors = self._folder.pooling(vectors, mask)
        return unit_rows(vectors)

    def _replaced(self, text: str) -> str:
        """Replace characters as SentencePiece does: compatibility forms, and composed ones for letter and accent."""
        if not self._folder.replaced or (text.isascii() and text.isprintable()):
            return encodable(text)
        cut = encodable(text[: CHARACTERS_A_TOKEN * self._folder.max_tokens])
        return unicodedata.normalize("NFC", cut).translate(self._folder.replaced)


class OnnxEmbedder(Embedder):
    """Load on first use; embed sorted by length. Texts and questions get the model's own prompts."""

    def __init__(
        self, name: str, folder: ModelFolder, *, sha256: str = "", dimensions: int = 0, mend: str = ""
    ) -> None:
        """`sha256` and `dimensions` are those of the model where they are known beforehand."""
        cores = usable_cores()
        self._dimensions = dimensions
        self._spec = EmbedderSpec(
            name=name,
            sha256=sha256 or folder.sha256,
            dimensions=dimensions,
            max_tokens=folder.max_tokens,
            batches=BatchLimits(texts=TEXTS_PER_RUN, concurrent=cores, alone=True),
        )
        self._model = LazyModel(
            partial(FolderSession, name, folder, mend=mend or "export the model again"),
            at_once=cores,
            closed_reason=f"the {name} embedder is closed",
        )

    @property
    def spec(self) -> EmbedderSpec:
        """The identity of the model; its dimensions are known when it has been loaded."""
        return structs.replace(self._spec, dimensions=self._dimensions)

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
        if texts or not self._dimensions or self._model.closed:
            self._dimensions = await self._model.run(lambda model: model.dimensions)
        vectors = np.empty((len(texts), self._dimensions), dtype=np.float32)
        encoded = await self._model.run(lambda model: model.encode(texts, questions=questions)) if texts else []
        for rows in split_in_runs([len(ids) for ids in encoded]):
            batch = [encoded[row] for row in rows]
            vectors[rows] = await self._model.run(partial(FolderSession.run, batch=batch, questions=questions))
        return vectors

    async def aclose(self) -> None:
        self._model.close()
