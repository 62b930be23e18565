"""The parts of calls by themselves, points of time stamps, calls of the fuzz; no test looks at durations."""

import inspect
from collections import Counter
from itertools import chain

import jsonschema
import numpy as np
import pytest

from bench.common import Samples
from bench.fuzz import Arguments
from bench.stamps import POINTS, owner_of
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


def samples(latencies_ms: list[float]) -> Samples:
    return Samples(latencies_ms=latencies_ms, seconds=1.0)


def test_every_point_names_a_function_of_the_product() -> None:
    for point in chain.from_iterable(POINTS.values()):
        owner, name = owner_of(point)
        assert inspect.isfunction(getattr(owner, name))
