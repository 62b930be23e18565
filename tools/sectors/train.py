"""Make the weights again, and say how good they are: `python -m tools.sectors.train [--check] [--no-figures]`.

Prints one JSON object per line. Numpy only, no randomness but seeded splits: the same texts give the same weights.
"""

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click
import msgspec
import numpy as np

from engramq.workers.embedders import bundle
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.minilm_session import Arithmetic
from engramq.workers.sectors import regression
from engramq.workers.sectors.features import Standard
from engramq.workers.sectors.model import WEIGHTS, Head, SectorModel
from tools.sectors import calibration, corpus, evaluation
from tools.sectors.corpus import SECTORS, Labelled
from tools.sectors.evaluation import Data, Recipe

_FOLDS: Final = 10
_REPEATS: Final = 3
FULL: Final = Recipe()
WORDING: Final = Recipe(vectors=False)
_CANDIDATES: Final = tuple(
    Recipe(scale=scale, penalty=penalty)
    for scale, penalty in itertools.product((0.05, 0.1, 0.15, 0.2), (1e-4, 3e-4, 1e-3))
)
# Beyond this the processor's arithmetic does not explain the difference any more.
_SAME: Final = 1e-2


@click.command()
@click.option("--check", is_flag=True, help="Compare with the weights that are there; write nothing.")
@click.option("--figures/--no-figures", default=True, help="Print cross-validated and transfer figures.")
def main(*, check: bool, figures: bool) -> None:
    """Train on all labelled texts; write or compare weights.npz."""
    own, dev = corpus.own_texts(), corpus.dev_texts()
    data = Data.of([*own, *dev], asyncio.run(_embed([*own, *dev])))
    if figures:
        for line in report(data, len(own)):
            click.echo(msgspec.json.encode(line).decode())
    model = train(data)
    if check:
        _compare(model, data)
    else:
        model.save()
    click.echo(
        msgspec.json.encode({"weights": WEIGHTS.name, "bytes": WEIGHTS.stat().st_size, "written": not check}).decode()
    )


def train(data: Data) -> SectorModel:
    """Fit both heads on all of `data`, with temperatures from logits of texts held out."""
    standard = Standard.of(data.cues)
    return SectorModel(
        embedder_sha256=bundle.MODEL_SHA256,
        standard=standard,
        scale=FULL.scale,
        heads=(_head(data, standard, FULL), _head(data, standard, WORDING)),
    )


def report(data: Data, own: int) -> Iterator[dict[str, Any]]:
    """Yield the figures; the first `own` texts of `data` are ours, the others of another hand."""
    texts, everything = data.texts, np.arange(len(data.texts))
    ours, theirs = everything[:own], everything[own:]
    yield {"texts": len(texts), "own": own, "groups": len(np.unique(data.groups)), "per_sector": _counts(texts[:own])}
    for name, train_on, test_on in (("own to dev", ours, theirs), ("dev to own", theirs, ours)):
        for recipe in (FULL, WORDING, Recipe(cues=False)):
            logits = evaluation.held_out(data, train_on, test_on, recipe)
            yield {"transfer": name, **_inputs(recipe), **evaluation.scores([texts[row] for row in test_on], logits)}
    for recipe in (FULL, WORDING, Recipe(cues=False)):
        runs = [evaluation.cross_validated(data, recipe, count=_FOLDS, seed=seed) for seed in range(_REPEATS)]
        yield {
            "cross_validated": f"{_FOLDS} folds, {_REPEATS} times",
            **_inputs(recipe),
            **_mean([evaluation.scores(texts, logits) for logits in runs]),
            "calibration_error": round(
                float(np.mean([evaluation.calibration_error(data, logits, 0) for logits in runs])), 3
            ),
        }
        if recipe is FULL:
            yield {"confusion": evaluation.confusion(texts, runs[0])}
    logits, chosen = evaluation.nested(data, _CANDIDATES, count=5, seed=0)
    yield {
        "nested": "recipe chosen inside each of 5 folds",
        "chosen": [[recipe.scale, recipe.penalty] for recipe in chosen],
        **evaluation.scores(texts, logits),
    }


def _head(data: Data, standard: Standard, recipe: Recipe) -> Head:
    features = data.features(np.arange(len(data.texts)), standard, recipe)
    weights = regression.fit(features, data.labels, classes=len(SECTORS), penalty=recipe.penalty)
    logits = evaluation.cross_validated(data, recipe, count=_FOLDS, seed=0)
    return Head(weights, calibration.temperature(logits, data.labels))


def _compare(model: SectorModel, data: Data) -> None:
    contents, digest = [one.text for one in data.texts], bundle.MODEL_SHA256
    shipped = SectorModel.load().classify_many(contents, data.vectors, embedder_sha256=digest)
    trained = model.classify_many(contents, data.vectors, embedder_sha256=digest)
    furthest = max(abs(one.confidence - other.confidence) for one, other in zip(shipped, trained, strict=True))
    if furthest > _SAME:
        raise click.ClickException(f"the shipped weights differ (by {furthest:.3f}): train without --check and commit")


async def _embed(texts: Sequence[Labelled]) -> Vectors:
    embedder = MiniLmEmbedder(arithmetic=Arithmetic.FLOAT32)  # the weights serve both
    try:
        return await embedder.embed([one.text for one in texts])
    finally:
        await embedder.aclose()


def _counts(texts: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    return {
        sector: {
            "all": sum(one.sector is sector for one in texts),
            "hard": sum(one.sector is sector and one.hard for one in texts),
            "de": sum(one.sector is sector and one.lang == "de" for one in texts),
        }
        for sector in SECTORS
    }


def _inputs(recipe: Recipe) -> dict[str, bool]:
    return {"vector": recipe.vectors, "cues": recipe.cues}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([run[name] for run in runs])), 3) for name in runs[0]}


if __name__ == "__main__":
    main()
