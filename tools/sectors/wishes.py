"""Make the weights that tell standing wishes, and say how good they are: `python -m tools.sectors.wishes [--check]`.

`wishes.jsonl` has texts of our own, wishes and what only looks like one. The texts of the sectors are no wishes, but
for rules and for what has the words of one.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import click
import msgspec
import numpy as np
from numpy.typing import NDArray

from engramq.schemas.vocabulary import Sector
from engramq.workers.embedders.interface import Vectors
from engramq.workers.sectors.cues import Cues
from engramq.workers.sectors.model import Matrix, Standard
from engramq.workers.sectors.wishes import WEIGHTS, WishModel, wish_cue_rows, wish_features
from tools.sectors import corpus
from tools.sectors.corpus import Labelled, Rows, Turn
from tools.sectors.regression import fit
from tools.sectors.train import embed

_FOLDS: Final = 5
_PENALTY: Final = 3e-4
_SAME: Final = 1e-2
_DOUBTFUL: Final = re.compile(
    r"\b(?:prefer\w*|always|never|from now on|please|call me|whenever|rather|every time|immer|nie)\b|"
    r"^(?:use|keep|don't|do not|write|when)\b",
    re.IGNORECASE,
)


class WishText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text, and whether it asks for something for good."""

    text: str
    wish: bool


def texts() -> list[WishText]:
    """Return all texts, our own first."""
    own = [
        msgspec.json.decode(line, type=WishText) for line in (corpus.FOLDER / "wishes.jsonl").read_bytes().splitlines()
    ]
    written = [text for text in corpus.own_texts() if text.sector is not Sector.PROCEDURAL]
    others: list[Labelled | Turn] = [*written, *corpus.chat_turns()]
    return own + [WishText(each.text, wish=False) for each in others if _DOUBTFUL.search(each.text) is None]


@click.command()
@click.option("--check", is_flag=True, help="Compare with the weights that are there; write nothing.")
def main(*, check: bool) -> None:
    """Train on all texts; write or compare wishes.npz."""
    known = texts()
    contents = [each.text for each in known]
    vectors = asyncio.run(embed([Turn(text=content, sectors=(corpus.NONE,), topic="") for content in contents]))
    rows, wishes = wish_cue_rows(contents), np.array([each.wish for each in known], dtype=np.bool_)
    model = train(rows, vectors, wishes)
    for line in report(contents, rows, vectors, wishes):
        click.echo(msgspec.json.encode(line).decode())
    if not check:
        model.save()
    furthest = np.abs(WishModel.load().chances(contents, vectors) - model.chances(contents, vectors)).max()
    if furthest > _SAME:
        raise click.ClickException(f"the shipped weights differ (by {furthest:.3f}): train without --check and commit")
    click.echo(msgspec.json.encode({"bytes": WEIGHTS.stat().st_size, "written": not check}).decode())


def train(rows: Cues, vectors: Vectors, wishes: NDArray[np.bool_]) -> WishModel:
    """Fit both heads."""
    standard = Standard.of(rows)
    allowed = np.stack([~wishes, wishes], axis=1)

    def fitted(with_vectors: Vectors | None) -> Matrix:
        weights = fit(wish_features(rows, standard, with_vectors), allowed, penalty=_PENALTY)
        return np.asarray(weights[:, 1] - weights[:, 0])

    return WishModel(standard, fitted(vectors), fitted(None))


def report(contents: list[str], rows: Cues, vectors: Vectors, wishes: NDArray[np.bool_]) -> Iterator[dict[str, Any]]:
    """Yield precision and recall among our own texts of folds that were held out, with vectors and without."""
    fold = np.random.default_rng(0).integers(0, _FOLDS, len(contents))
    found = np.zeros((2, len(contents)), dtype=np.bool_)
    for number in range(_FOLDS):
        model = train(rows[fold != number], vectors[fold != number], wishes[fold != number])
        held: Rows = np.flatnonzero(fold == number)
        some = [contents[row] for row in held]
        found[0, held], found[1, held] = model.are_wishes(some, vectors[held]), model.are_wishes(some, None)
    for with_vectors, told in zip((True, False), found, strict=True):
        right = int((told & wishes).sum())
        yield {
            "texts": len(contents),
            "wishes": int(wishes.sum()),
            "vector": with_vectors,
            "precision": round(right / max(1, int(told.sum())), 3),
            "recall": round(right / int(wishes.sum()), 3),
        }


if __name__ == "__main__":
    main()
