"""Which standing wishes stand beside the hits of a question."""

import base64
import json
import logging
import tomllib
from pathlib import Path

import pytest

from engramq.schemas import limits
from engramq.workers.db.vectors import Embedding
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.search.wishes import Wishes

log = logging.getLogger(__name__)  # of the figures: pytest -rP shows them

pytestmark = pytest.mark.promise("PR-6")

SET = tomllib.loads((Path(__file__).parent / "standing.toml").read_text("utf-8"))


def _matters(name: str) -> list[tuple[str, str]]:
    """Return the matter of each line, and the line."""
    pairs = (line.partition(": ") for line in SET[name].strip().splitlines())
    return [(matter, text) for matter, _, text in pairs]


async def test_wishes_beside_hits_bear_on_the_question() -> None:
    wishes, questions = _matters("wishes"), _matters("questions")
    wishes = [*wishes, ("none", "Do you always lock the door of the cabin at night?")]
    vectors = [Embedding.of(1, vector) for vector in await MiniLmEmbedder().embed([text for _, text in wishes])]
    asked = [Embedding.of(1, vector) for vector in await MiniLmEmbedder().embed([text for _, text in questions])]
    rows = [
        [str(number), text, base64.b64encode(vector.half).decode(), None]
        for number, ((_, text), vector) in enumerate(zip(wishes, vectors, strict=True))
    ]
    told: list[tuple[str, str]] = []  # the matter of the question, that of a wish beside its hits
    for (matter, question), vector in zip(questions, asked, strict=True):
        found = Wishes()
        found.read(json.dumps(rows), question, vector)
        beside = found.besides([])
        assert len(beside) <= limits.STANDING_SHOWN == 5
        assert not [wish for wish in beside if wish.preview and wish.preview.endswith("?")]
        told += [(matter, wishes[int(wish.id)][0]) for wish in beside]
    right = sum(of in {matter, "all"} for matter, of in told)
    own = sum(of == matter for matter, of in told)
    wanted = sum(of == matter for matter, _ in questions for of, _ in wishes if matter != "none")
    log.warning("%d of %d shown bear on the question; %d of %d of its matter", right, len(told), own, wanted)
    assert right >= 0.9 * len(told)
    assert own >= 0.55 * wanted
