"""Make the bundled model files again, byte for byte: `python -m tools.minilm.build [--check] [--verify FILE]`.

Knows: where the result goes and what it must hash to. Refuses to know: the graph and the weights (`builder`). Needs the
`dev` extra (onnx, safetensors) and pip; nothing at run time imports it.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any, TextIO

import click
import numpy as np
from safetensors.numpy import load
from tokenizers import Tokenizer

from engramq.workers.embedders import minilm
from engramq.workers.embedders.onnx_session import onnx_runtime
from tools.minilm import carrier, graph, int8, reference

# What the shipped file reaches on conversation turns is .9998 mean; a change of the builder that loses more is refused.
_LEAST_MEAN_COSINE = 0.9998
_LEAST_BATCH_COSINE = 0.999999


@click.command()
@click.option("--check", is_flag=True, help="Build and compare with the files that are there; write nothing.")
@click.option("--verify", type=click.File(encoding="utf-8"), help="One text per line: compare vectors with float64.")
def main(*, check: bool, verify: TextIO | None) -> None:
    """Download the official weights, build model.onnx and tokenizer.json, write or compare them."""
    sources = carrier.fetch()
    weights = load(sources.weights)
    model = graph.build(weights)
    files = {
        minilm.MODEL_FILE: model,
        minilm.INT8_FILE: int8.build(weights, model, minilm.MODEL_FILE),
        minilm.TOKENIZER_FILE: sources.tokenizer,
    }
    recorded = {
        minilm.MODEL_FILE: minilm.MODEL_SHA256,
        minilm.INT8_FILE: minilm.INT8_SHA256,
        minilm.TOKENIZER_FILE: minilm.TOKENIZER_SHA256,
    }
    differing = []
    for name, content in files.items():
        digest = hashlib.sha256(content).hexdigest()
        click.echo(f"{name} {len(content)} bytes sha256 {digest}")
        if digest != recorded[name]:
            differing.append(f"{name}: minilm.py records {recorded[name]}")
        if check and _content(minilm.FOLDER / name) != content:
            differing.append(f"{name}: the file in {minilm.FOLDER.name}/ has other bytes")
        if not check:
            (minilm.FOLDER / name).write_bytes(content)
    if verify is not None:
        differing += _verify(sources, files[minilm.MODEL_FILE], [line.strip() for line in verify if line.strip()])
    for line in differing:
        click.echo(line, err=True)
    sys.exit(1 if differing else 0)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _verify(sources: carrier.Sources, model: bytes, texts: list[str]) -> list[str]:
    """Compare the model with the numpy reference, and every text alone with the same text in company."""
    weights = load(sources.weights)
    tokenizer = Tokenizer.from_str(sources.tokenizer.decode())
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    alone = np.concatenate([_run(session, [ids]) for ids in encoded])
    company = np.concatenate([_run(session, encoded[start : start + 32]) for start in range(0, len(encoded), 32)])
    expected = np.array([reference.embed(weights, ids) for ids in encoded])
    quality, invariance = (alone * expected).sum(axis=1), (alone * company).sum(axis=1)
    click.echo(f"{len(texts)} texts: cosine to float64 mean {quality.mean():.6f} least {quality.min():.6f}")
    click.echo(f"alone and in batches of 32: least cosine {invariance.min():.7f}")
    found = []
    if quality.mean() < _LEAST_MEAN_COSINE:
        found.append(f"mean cosine to the reference is under {_LEAST_MEAN_COSINE}")
    if invariance.min() < _LEAST_BATCH_COSINE:
        found.append(f"a text's vector depends on its batch: cosine under {_LEAST_BATCH_COSINE}")
    return found


def _run(session: Any, batch: list[list[int]]) -> graph.Tensor:
    ids = np.zeros((len(batch), max(map(len, batch))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1
    return np.asarray(session.run(None, {"input_ids": ids, "attention_mask": mask})[0], dtype=np.float32)


if __name__ == "__main__":
    main()
