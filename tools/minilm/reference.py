"""all-MiniLM-L6-v2 in plain numpy, as the measure of the ONNX file.

Knows: the published architecture, straight from the safetensors. Refuses to know: ONNX, so that a mistake in the graph
cannot hide in its own reference. One text at a time, slow on purpose.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tensor = NDArray[np.float32]
_HEADS = 12
_LAYERS = 6
_erf = np.vectorize(math.erf, otypes=[np.float64])


def embed(weights: dict[str, Tensor], token_ids: Sequence[int]) -> NDArray[np.float64]:
    """Return the unit vector float64 [384] of one text given as token ids with [CLS] and [SEP]."""

    def dense(name: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"], dtype=np.float64)

    def norm(name: str, value: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return np.asarray(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"], dtype=np.float64)

    words = weights["embeddings.word_embeddings.weight"][list(token_ids)].astype(np.float64)
    positions = weights["embeddings.position_embeddings.weight"][: len(token_ids)]
    hidden = norm("embeddings.LayerNorm", words + positions + weights["embeddings.token_type_embeddings.weight"][0])
    for layer in range(_LAYERS):
        name = f"encoder.layer.{layer}"
        parts = [
            dense(f"{name}.attention.self.{part}", hidden).reshape(len(token_ids), _HEADS, -1).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        ]
        query, key, value = parts
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        context = (shares @ value).transpose(1, 0, 2).reshape(len(token_ids), -1)
        attended = dense(f"{name}.attention.output.dense", context)
        middle = norm(f"{name}.attention.output.LayerNorm", attended + hidden)
        wide = dense(f"{name}.intermediate.dense", middle)
        wide = wide * (1 + _erf(wide / math.sqrt(2))) / 2
        hidden = norm(f"{name}.output.LayerNorm", dense(f"{name}.output.dense", wide) + middle)
    mean: NDArray[np.float64] = hidden.mean(0)
    return np.asarray(mean / np.linalg.norm(mean), dtype=np.float64)
