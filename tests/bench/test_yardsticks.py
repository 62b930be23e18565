"""The parts of calls by themselves, time stamps, calls of the fuzz, tables: nobody looks at how long anything takes."""

import inspect
from collections import Counter

import jsonschema
import numpy as np
import pytest

from bench.common import Samples
from bench.fuzz import Arguments
from bench.profile import STAGES, WHOLE, of_calls, stages_of, table
from bench.stamps import POINTS, Point, Span, owner_of
from bench.synthetic import Corpus
from bench.yardsticks import NOT_COUNTED, Asked, Float32Model, Parts, batch_rate, record, replay, shipped_embedder
from engramq.gateway.mcp.schema import input_schema
from engramq.schemas.commands import TOOLS, SearchMemories
from engramq.workers.db.database import Store
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.search.search import VISIBLE_BY_ID
from tests.conftest import Database
from tools.loading import load

NAMESPACE = "bench"
SIZE = 20  # memories that are there
TEXTS = [f"Ada keeps bees behind the house number {number}" for number in range(NOT_COUNTED + 2)]


async def test_the_yardstick_computes_what_the_shipped_model_computes(store: Store) -> None:
    model, embedder = Float32Model(), await shipped_embedder(store)
    shipped = await embedder.embed(TEXTS)
    assert await batch_rate(embedder, TEXTS, 2) > 0
    await embedder.aclose()
    ours = np.stack([model.embed(text) for text in TEXTS])
    cosines = (ours * shipped).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(shipped, axis=1)
    assert cosines.min() > 0.98  # the product may compute in int8
    assert model.rate(TEXTS) > 0
    assert model.cpu_ms(TEXTS) > 0


@pytest.mark.own_database  # its indexes are made anew
@pytest.mark.long
async def test_parts_are_measured_on_a_store_and_a_search_is_replayed_as_it_was_sent(
    database: Database, store: Store
) -> None:
    spec = MiniLmEmbedder().spec
    model_id = await store.register_embedding_model(spec.name, spec.sha256, spec.dimensions)
    assert await load(database.owner_url, model_id, Corpus(SIZE).memories(), linked=True) == SIZE
    parts = Parts(database.url, NAMESPACE, model_id)
    stored = await parts.of_store(TEXTS)
    assert database.owner.execute("select count(*) as left from memories").fetchone() == {"left": SIZE}
    found = await parts.of_search(TEXTS)
    assert {name: len(times) for name, times in stored.items()} == {"embedding": 2, "insert": 2}
    copied = await parts.of_copy(TEXTS)
    assert {name: len(times) for name, times in found.items()} == {"embedding": 2, "sql": 2}
    assert {name: len(times) for name, times in copied.items()} == {"proof": 2, "sql_with_copy": 2}

    vector = Float32Model().embed(TEXTS[0])
    asked = Asked(SearchMemories(query=TEXTS[0]), Embedding.of(model_id, vector))
    statements = await record(store, NAMESPACE, asked, Sizes())
    assert VISIBLE_BY_ID in [statement.query for statement in statements]
    assert any("embedding" in str(statement.query) for statement in statements)
    assert 0 < max(statement.waited_for for statement in statements) <= len(statements)
    await replay(store, NAMESPACE, statements)


ID = "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42"


def test_every_tool_is_called_and_more_than_half_of_the_calls_fit() -> None:
    calls = [Arguments(f"1/{block}").call() for block in range(3_000)]
    assert {name for name, _ in calls} == set(TOOLS)
    validators = {name: jsonschema.Draft202012Validator(input_schema(tool)) for name, tool in TOOLS.items()}
    fitting = Counter(validators[name].is_valid(given) for name, given in calls)
    assert fitting[True] > fitting[False] > 500, fitting


MS = 1_000_000


def samples(latencies_ms: list[float]) -> Samples:
    return Samples(latencies_ms=latencies_ms, seconds=1.0)


@pytest.mark.parametrize(
    "point", [point for several in POINTS.values() for point in several], ids=lambda point: point.place
)
def test_every_point_names_a_function_of_the_product(point: Point) -> None:
    owner, name = owner_of(point)
    assert inspect.isfunction(getattr(owner, name))


def spans(start: int) -> list[Span]:
    """Return a call's spans: 1 ms for each boundary, the model 4, the transaction 6 of which ranking 2."""
    marks: list[tuple[str, int, int]] = [
        ("request", 1, 40), ("service", 2, 39), ("asked", 3, 30), ("sealed", 4, 5), ("handler", 7, 20),
        ("model", 8, 12), ("transaction", 13, 19), ("ranking", 15, 17), ("settle", 22, 23),
    ]  # fmt: skip
    return [(name, (start + begun) * MS, (start + ended) * MS) for name, begun, ended in marks]


def test_stages_follow_each_other_without_a_gap() -> None:
    stages = stages_of((0, 41 * MS), spans(0))
    assert [stages[name] for name in STAGES] == [1, 1, 1, 2, 2, 4, 4, 2, 3, 2, 8, 11]
    assert sum(stages[name] for name in STAGES) == stages[WHOLE] == 41


def test_calls_find_their_stamps_by_time_and_the_table_has_medians() -> None:
    calls = [(start * MS, (start + length) * MS) for start, length in ((0, 41), (100, 43), (200, 49))]
    profile = of_calls(calls, [spans(200), spans(0), spans(100), spans(900)])
    assert (profile[WHOLE], profile["out to the client"], profile["model"]) == (43, 13, 4)
    rows = table({"search": profile}).splitlines()
    assert rows[0].split() == ["ms,", "medians", "search"]
    assert rows[-1].split() == ["whole", "call", "43.00"]
