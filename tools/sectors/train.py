"""Make the weights again, and say how good they are: `python -m tools.sectors.train [--check] [--no-figures]`.

Prints one JSON object per line. Numpy only, no randomness but seeded splits: the same texts give the same weights.
"""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import numpy as np

from engramq.workers.embedders import minilm
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.minilm import Arithmetic, MiniLmEmbedder
from engramq.workers.sectors.model import WEIGHTS, HeadOutput, Heads, SectorModel, Standard
from tools.sectors import calibration, corpus, evaluation
from tools.sectors.corpus import SECTORS, Labelled, Rows, Text, Turn
from tools.sectors.evaluation import Data, Recipe

_FOLDS: Final = 10
_CURVE_FOLDS: Final = 30  # the more, the nearer are heads that are judged to those that are shipped
_REPEATS: Final = 3
FULL: Final = Recipe()
WORDING: Final = Recipe(vectors=False)
_CANDIDATES: Final = tuple(
    Recipe(scale=scale, penalty=penalty) for scale in (0.05, 0.1, 0.2) for penalty in (3e-4, 1e-3)
)
# Beyond this the processor's arithmetic does not explain the difference any more.
_SAME: Final = 1e-2
_LEAST: Final = {"en_easy": 0.95, "en_hard": 0.88}  # of texts of another hand
_FURTHEST: Final = 0.05  # of a confidence from the share that is right


@click.command()
@click.option("--check", is_flag=True, help="Compare with the weights that are there; write nothing.")
@click.option("--figures/--no-figures", default=True, help="Print cross-validated and transfer figures.")
def main(*, check: bool, figures: bool) -> None:
    """Train on all labelled texts but the turns held out; write or compare weights.npz."""
    texts, held = corpus.learned_texts(), corpus.held_out_turns()
    data = Data.of(texts, asyncio.run(embed(texts)))
    model = train(data)
    if figures:
        others = asyncio.run(embed(held))
        if repeated := corpus.repeated(texts, data.vectors, others):
            raise click.ClickException(f"these texts repeat others: {repeated}")
        everything = Data.of([*texts, *held], np.concatenate([data.vectors, others]))
        own = len(corpus.own_texts())
        for line in report(everything, own=own, written=own + len(corpus.dev_texts()), learned=len(texts)):
            click.echo(msgspec.json.encode(line).decode())
            if missed := list(_missed(line)):
                raise click.ClickException(f"targets missed: {missed}")
    if check:
        _compare(model, data)
    else:
        model.save()
    told = {"weights": WEIGHTS.name, "bytes": WEIGHTS.stat().st_size, "written": not check, "same_bytes": _same(model)}
    click.echo(msgspec.json.encode(told).decode())


def train(data: Data) -> SectorModel:
    """Fit the heads with vectors and without on all of `data`, with curves from chances of texts held out."""
    standard = evaluation.standard_of(data, data.everything)
    return SectorModel(
        embedder_sha256=minilm.MODEL_SHA256,
        standard=standard,
        scale=FULL.scale,
        heads=(_heads(data, standard, FULL), _heads(data, standard, WORDING)),
    )


def report(data: Data, *, own: int, written: int, learned: int) -> Iterator[dict[str, Any]]:
    """Yield the figures. In the order of `data`: written texts, the first `own` of them ours and the others of another
    hand, turns up to `learned`, turns held out."""
    rows = data.everything
    texts = [text for text in data.texts if isinstance(text, Labelled)]
    ours, theirs, turns, held = np.split(rows, (own, written, learned))
    counted = {"texts": written, "own": own, "turns": len(turns), "turns_held_out": len(held)}
    yield {**counted, "groups": len(np.unique(data.groups)), "per_sector": _counts(texts[:own])}
    for name, train_on, test_on in (("own to dev", ours, theirs), ("dev to own", theirs, ours)):
        for recipe in (FULL, WORDING, Recipe(cues=False)):
            told = evaluation.held_out(data, np.concatenate([train_on, turns]), test_on, recipe)
            yield {"transfer": name, **_inputs(recipe), **evaluation.scores([texts[row] for row in test_on], told)}
    for recipe in (FULL, WORDING):
        told = evaluation.held_out(data, rows[:learned], held, recipe)
        yield {"turns of topics held out": len(held), **_inputs(recipe), **_talk_scores(data, held, told)}
    seen = Data.of(data.texts[:learned], data.vectors[:learned])
    for recipe in (FULL, WORDING, Recipe(cues=False)):
        yield from _cross_validated(seen, texts, rows[written:learned], recipe)
    told, chosen = evaluation.nested(seen, _CANDIDATES, count=5, seed=0)
    yield {
        "nested": "recipe chosen inside each of 5 folds",
        "chosen": [[recipe.scale, recipe.penalty] for recipe in chosen],
        **evaluation.scores(texts, evaluation.part(told, ~seen.talk)),
    }


def _missed(line: dict[str, Any]) -> Iterator[str]:
    if not (line.get("vector") and line.get("cues")):
        return
    if line.get("transfer") == "own to dev":
        yield from (name for name, least in _LEAST.items() if line[name] < least)
    errors: dict[str, float] = line.get("calibration_errors", {})
    yield from (f"confidence of {name}" for name, error in errors.items() if error > _FURTHEST)


def _cross_validated(data: Data, texts: Sequence[Labelled], turns: Rows, recipe: Recipe) -> Iterator[dict[str, Any]]:
    runs = [evaluation.cross_validated(data, recipe, count=_FOLDS, seed=seed) for seed in range(_REPEATS)]
    errors = [evaluation.calibration_errors(data, told, recipe, 0) for told in runs]
    yield {
        "cross_validated": f"{_FOLDS} folds, {_REPEATS} times",
        **_inputs(recipe),
        **_mean([evaluation.scores(texts, evaluation.part(told, ~data.talk)) for told in runs]),
        **_mean([_talk_scores(data, turns, evaluation.part(told, turns)) for told in runs]),
        "calibration_errors": _mean(errors),
    }
    if recipe is FULL:
        yield {"confusion": evaluation.confusion(texts, evaluation.part(runs[0], ~data.talk))}


def _talk_scores(data: Data, rows: Rows, told: HeadOutput) -> dict[str, float]:
    return evaluation.talk_scores([one for row in rows if isinstance(one := data.texts[row], Turn)], told)


def _heads(data: Data, standard: Standard, recipe: Recipe) -> Heads:
    rows = data.everything
    told = evaluation.cross_validated(data, recipe, count=_CURVE_FOLDS, seed=0)
    curve = calibration.curve(told, data.right(rows, told), data.counts(rows, recipe))
    return Heads(evaluation.fitted(data, rows, standard, recipe), curve)


def _compare(model: SectorModel, data: Data) -> None:
    contents, digest = [text.text for text in data.texts], minilm.MODEL_SHA256
    shipped = SectorModel.load().classify_many(contents, data.vectors, embedder_sha256=digest)
    trained = model.classify_many(contents, data.vectors, embedder_sha256=digest)
    furthest = max(abs(item.confidence - other.confidence) for item, other in zip(shipped, trained, strict=True))
    if furthest > _SAME:
        raise click.ClickException(f"the shipped weights differ (by {furthest:.3f}): train without --check and commit")


def _same(model: SectorModel) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / WEIGHTS.name
        model.save(path)
        return path.read_bytes() == WEIGHTS.read_bytes()


async def embed(texts: Sequence[Text]) -> Vectors:
    """Return the vectors that the weights are made for, float32 [len(texts), 384]."""
    embedder = MiniLmEmbedder(arithmetic=Arithmetic.FLOAT32)  # the weights serve both
    try:
        return await embedder.embed([text.text for text in texts])
    finally:
        await embedder.aclose()


def _counts(texts: Sequence[Labelled]) -> dict[str, dict[str, int]]:
    return {
        sector: {
            "all": sum(text.sector is sector for text in texts),
            "hard": sum(text.sector is sector and text.hard for text in texts),
            "de": sum(text.sector is sector and text.lang == "de" for text in texts),
        }
        for sector in SECTORS
    }


def _inputs(recipe: Recipe) -> dict[str, bool]:
    return {"vector": recipe.vectors, "cues": recipe.cues}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: round(float(np.mean([run[name] for run in runs])), 3) for name in runs[0]}


if __name__ == "__main__":
    main()
