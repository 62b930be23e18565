"""What a store of LangGraph does, after LangGraph's own tests: one suite for its three stores and for ours.

Run by pytest in the environment of the frameworks; ENGRAMQ_URL says where ours is, POSTGRES_URL where PostgresStore may
keep its tables. Each test has namespaces of its own.
"""

import asyncio
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import BaseStore, GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

from engramq.client import Memory
from engramq.langgraph import EngramqStore
from tests.client.meanwhile import made_private_meanwhile


def embedded(texts: list[str]) -> list[list[float]]:
    """Return a vector for each text: how often each letter is in it."""
    return [[float(text.lower().count(chr(97 + letter))) for letter in range(26)] for text in texts]


INDEX: Any = {"dims": 26, "embed": embedded, "fields": ["$"]}
# By name and whether it is called by asyncio: the store, and where it keeps its items.
ON_DISK: dict[tuple[str, bool], tuple[Any, str]] = {
    ("sqlite", False): (SqliteStore, ":memory:"),
    ("sqlite", True): (AsyncSqliteStore, ":memory:"),
    ("postgres", False): (PostgresStore, os.environ["POSTGRES_URL"]),
    ("postgres", True): (AsyncPostgresStore, os.environ["POSTGRES_URL"]),
}
# Where a store does otherwise: docs/frameworks.md has the table.
DIFFERENT: dict[tuple[str, str], str] = {
    ("memory", "test_a_filter_compares_dates"): "ValueError: both sides are made numbers",
    ("sqlite", "test_times_have_a_zone"): "times without a zone",
    ("sqlite", "test_a_filter_is_on_a_part_of_a_value"): "ValueError: each key is taken for an operator",
    ("postgres", "test_a_filter_is_on_a_part_of_a_value"): "ValueError: each key is taken for an operator",
    ("sqlite", "test_what_is_no_operation_is_refused"): "it is left out in silence",
    ("postgres", "test_what_is_no_operation_is_refused"): "it is left out in silence",
    ("sqlite", "test_an_item_with_a_time_to_live_ends"): "it is shown until a sweeper has run",
    ("postgres", "test_an_item_with_a_time_to_live_ends"): "it is shown until a sweeper has run",
}


class Way:
    """A store as it is called by threads, or by asyncio."""

    def __init__(self, store: BaseStore, runner: asyncio.Runner | None) -> None:
        self.store = store
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        if self._runner is None:
            return getattr(self.store, name)
        runner, method = self._runner, getattr(self.store, f"a{name}")
        return lambda *given, **named: runner.run(method(*given, **named))


@pytest.fixture(params=["sync", "async"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner | None]:
    if request.param == "sync":
        yield None
        return
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=["memory", "sqlite", "postgres", "engramq"])
def way(request: pytest.FixtureRequest, runner: asyncio.Runner | None) -> Iterator[Way]:
    name = request.node.originalname
    if (reason := DIFFERENT.get((request.param, name))) is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    if request.param == "engramq":
        store = EngramqStore()
        yield Way(store, runner)
        if runner is None:
            store.close()
        else:
            runner.run(store.aclose())
    elif request.param == "memory":
        yield Way(InMemoryStore(index=INDEX), runner)
    else:
        kind, address = ON_DISK[request.param, runner is not None]
        opening = kind.from_conn_string(address, index=INDEX)
        if runner is None:
            with opening as store:
                store.setup()
                yield Way(store, runner)
        else:
            store = runner.run(opening.__aenter__())
            runner.run(store.setup())
            yield Way(store, runner)
            runner.run(opening.__aexit__(None, None, None))


@pytest.fixture
def root() -> str:
    return f"r{uuid.uuid4().hex}"


def keys(items: Any) -> set[str]:
    return {item.key for item in items}


def test_what_is_put_is_got_until_it_is_deleted(way: Way, root: str) -> None:
    assert way.get((root, "a"), "k") is None
    way.put((root, "a"), "k", {"text": "tea", "n": [1, {"x": None}], "ü": True})
    item = way.get((root, "a"), "k")
    assert (item.namespace, item.key) == ((root, "a"), "k")
    assert item.value == {"text": "tea", "n": [1, {"x": None}], "ü": True}
    assert way.get((root, "b"), "k") is None
    assert way.get((root, "a"), "other") is None
    assert way.get((root,), "k") is None
    way.delete((root, "a"), "k")
    assert way.get((root, "a"), "k") is None
    way.delete((root, "a"), "k")  # what is not there


def test_times_have_a_zone(way: Way, root: str) -> None:
    way.put((root,), "k", {"v": 1})
    item = way.get((root,), "k")
    assert None not in (item.created_at.tzinfo, item.updated_at.tzinfo)


def test_what_is_put_again_replaces_what_was(way: Way, root: str) -> None:
    way.put((root,), "k", {"v": 1})
    first = way.get((root,), "k")
    way.put((root,), "k", {"v": 2})
    second = way.get((root,), "k")
    assert second.value == {"v": 2}
    assert second.updated_at >= first.updated_at
    assert [item.value for item in way.search((root,))] == [{"v": 2}]
    way.delete((root,), "k")
    assert way.search((root,)) == []


def test_a_search_is_below_a_namespace(way: Way, root: str) -> None:
    for number, namespace in enumerate([(root, "a"), (root, "a", "deep"), (root, "ab"), (root, "b")]):
        way.put(namespace, f"k{number}", {"n": number})
    assert keys(way.search((root,))) == {"k0", "k1", "k2", "k3"}
    assert keys(way.search((root, "a"))) == {"k0", "k1"}
    assert keys(way.search((root, "a", "deep"))) == {"k1"}
    assert way.search((root, "nothing")) == []


def test_a_search_has_pages(way: Way, root: str) -> None:
    for number in range(7):
        way.put((root,), f"k{number}", {"n": number})
    pages = [way.search((root,), limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [len(page) for page in pages] == [3, 3, 1, 0]
    assert keys(item for page in pages for item in page) == {f"k{number}" for number in range(7)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"kind": "a"}, {"k0", "k1"}),
        ({"kind": "a", "n": 1}, {"k1"}),
        ({"n": {"$gt": 0}}, {"k1", "k2"}),
        ({"n": {"$gte": 1, "$lt": 2}}, {"k1"}),
        ({"n": {"$lte": 0}}, {"k0"}),
        ({"kind": {"$ne": "a"}}, {"k2"}),
        ({"kind": {"$eq": "b"}}, {"k2"}),
        ({"list": [1, 2]}, {"k1"}),
        ({"missing": 1}, set()),
    ],
)
def test_a_filter_is_on_values(way: Way, root: str, wanted: dict[str, Any], found: set[str]) -> None:
    way.put((root,), "k0", {"kind": "a", "n": 0})
    way.put((root,), "k1", {"kind": "a", "n": 1, "list": [1, 2]})
    way.put((root,), "k2", {"kind": "b", "n": 2, "more": {"deep": True, "x": 1}})
    assert keys(way.search((root,), filter=wanted)) == found


def test_a_filter_is_on_a_part_of_a_value(way: Way, root: str) -> None:
    way.put((root,), "k", {"more": {"deep": True, "x": 1}})
    assert keys(way.search((root,), filter={"more": {"deep": True}})) == {"k"}


def test_a_filter_compares_dates(way: Way, root: str) -> None:
    way.put((root,), "old", {"on": "2026-01-31"})
    way.put((root,), "new", {"on": "2026-11-02T09:00:00Z"})
    assert keys(way.search((root,), filter={"on": {"$gte": "2026-06-01"}})) == {"new"}
    assert keys(way.search((root,), filter={"on": {"$lt": "2026-06-01"}})) == {"old"}


def test_a_query_puts_what_is_like_it_first(way: Way, root: str) -> None:
    way.put((root,), "tea", {"text": "green tea in the evening"})
    way.put((root,), "sky", {"text": "zzz quick fox jumps"})
    way.put((root, "deep"), "tea too", {"text": "black tea in the evening", "kind": "x"})
    hits = way.search((root,), query="tea in the evening", limit=2)
    assert keys(hits) == {"tea", "tea too"}
    assert all(hit.score is not None for hit in hits)
    assert keys(way.search((root,), query="tea in the evening", filter={"kind": "x"})) == {"tea too"}
    assert len(way.search((root,), query="tea", limit=10)) == 3, "what is unlike comes last"
    way.delete((root,), "tea")
    assert "tea" not in keys(way.search((root,), query="tea in the evening"))


def test_a_query_lists_what_it_found_and_a_page_goes_on(way: Way, root: str) -> None:
    for number in range(5):
        way.put((root,), f"k{number}", {"text": f"the boat {number} leaves in the evening"})
    pages = [way.search((root,), query="Which opera is about Egypt?", limit=3, offset=offset) for offset in (0, 3, 6)]
    assert [len(page) for page in pages] == [3, 2, 0]
    assert keys(item for page in pages for item in page) == {f"k{number}" for number in range(5)}
    assert all(item.score is not None for page in pages for item in page), "nothing is filled in"


def test_an_index_says_by_what_an_item_is_found(way: Way, root: str) -> None:
    way.put((root,), "named", {"text": "qqq", "note": "mountain lake at dawn"}, index=["note"])
    way.put((root,), "hidden", {"text": "mountain lake at dawn"}, index=False)
    way.put((root,), "list", {"parts": [{"t": "wood"}, {"t": "mountain lake at dawn"}]}, index=["parts[*].t"])
    found = way.search((root,), query="mountain lake at dawn", limit=1)
    assert keys(found) <= {"named", "list"}
    assert way.get((root,), "hidden").value == {"text": "mountain lake at dawn"}


def test_namespaces_are_listed(way: Way, root: str) -> None:
    below = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "c", "f"), ("b", "a", "f")]
    for number, namespace in enumerate(below):
        way.put((root, *namespace), f"k{number}", {"n": number})

    def listed(**asked: Any) -> list[tuple[str, ...]]:
        return [namespace[1:] for namespace in way.list_namespaces(**{"prefix": (root,), "limit": 1_000, **asked})]

    assert listed() == sorted(below)
    assert listed(prefix=(root, "a", "b")) == below[:3]
    assert listed(prefix=(root, "a", "*", "f")) == [("a", "c", "f")]
    assert listed(suffix=("f",)) == [("a", "c", "f"), ("b", "a", "f")]
    assert listed(suffix=("*", "e")) == [("a", "b", "d", "e")]
    assert listed(max_depth=3) == [("a", "b"), ("a", "c"), ("b", "a")]
    assert listed(limit=2) == sorted(below)[:2]
    assert listed(offset=2, limit=2) == sorted(below)[2:4]
    assert way.list_namespaces(prefix=("nobody", root)) == []
    way.delete((root, "b", "a", "f"), "k4")


def test_names_that_are_none_are_refused(way: Way, root: str) -> None:
    for namespace in ((), (root, "a.b"), (root, ""), ("langgraph", root)):
        with pytest.raises(InvalidNamespaceError):
            way.put(namespace, "k", {"v": 1})
    way.put((root, "langgraph"), "k", {"v": 1})
    assert way.get((root, "langgraph"), "k").value == {"v": 1}


def test_a_batch_reads_what_was_before_it_writes(way: Way, root: str) -> None:
    way.put((root,), "old", {"v": 0})
    results = way.batch(
        [
            PutOp((root,), "new", {"v": 1}),
            PutOp((root,), "new", {"v": 2}),
            PutOp((root,), "old", None),
            GetOp((root,), "old"),
            GetOp((root,), "new"),
            SearchOp((root,)),
            ListNamespacesOp(match_conditions=None, limit=0),
        ]
    )
    assert results[:3] == [None, None, None]
    assert (results[3].value, results[4], keys(results[5])) == ({"v": 0}, None, {"old"})
    assert way.get((root,), "old") is None
    assert way.get((root,), "new").value == {"v": 2}, "the last of several"


def test_what_is_no_operation_is_refused(way: Way) -> None:
    with pytest.raises(ValueError, match=r"[Oo]peration"):
        way.batch(["no operation"])


def test_an_item_with_a_time_to_live_ends(way: Way, root: str) -> None:
    if not way.store.supports_ttl:
        with pytest.raises(NotImplementedError):
            way.put((root,), "k", {"v": 1}, ttl=1)
        return
    way.put((root,), "short", {"v": 1}, ttl=0.02)
    way.put((root,), "kept", {"v": 1}, ttl=0.05)
    way.put((root,), "long", {"v": 1})
    until = time.monotonic() + 30
    while way.get((root,), "short", refresh_ttl=False) is not None:
        assert way.get((root,), "kept") is not None, "each reading lets it live on"
        assert time.monotonic() < until
    assert keys(way.search((root,), refresh_ttl=False)) == {"kept", "long"}
    assert way.get((root,), "kept") is not None


# What ours does beyond theirs.


def test_a_filter_beside_a_query_goes_before_the_ranking(root: str) -> None:
    store = EngramqStore()
    store.batch([PutOp((root,), f"k{number}", {"text": f"green tea, cup {number}"}) for number in range(60)])
    store.put((root,), "wanted", {"text": "a walk on the beach", "kind": "x"})
    store.put((root,), "second", {"text": "green tea on the beach", "kind": "x"})
    found = store.search((root,), query="green tea", filter={"kind": "x"})
    assert [item.key for item in found] == ["second", "wanted"]
    store.close()


def test_numbers_as_texts_are_compared_and_dates_with_none(root: str) -> None:
    store = EngramqStore()
    store.put((root,), "old", {"on": "2026-01-31", "n": "7"})
    store.put((root,), "new", {"on": "2026-11-02T09:00:00Z", "n": None})
    assert keys(store.search((root,), filter={"n": {"$gte": 7}})) == {"old"}
    assert keys(store.search((root,), filter={"on": {"$gte": 5}})) == set()
    store.close()


def test_a_query_is_not_filled_up_with_what_it_did_not_find(root: str) -> None:
    store = EngramqStore()
    store.batch([PutOp((root,), f"k{number}", {"text": f"note {number}"}) for number in range(60)])
    found = store.search((root,), query="note", limit=60)
    assert len(found) == 50, "as many as are ranked"
    assert all(item.score is not None for item in found)
    assert len(store.search((root,), limit=60)) == 60, "a list has all"
    store.close()


def test_what_was_overwritten_or_deleted_is_kept(root: str) -> None:
    store = EngramqStore()
    with Memory() as memory:
        store.put((root,), "k", {"text": "the first plan"})
        first = store.get((root,), "k")
        store.put((root,), "k", {"text": "the second plan"})
        second = store.get((root,), "k")
        assert first is not None
        assert second is not None
        assert second.created_at == first.created_at, "of the item, as in LangGraph's stores on disk"
        (new,) = [item for item in memory.each_recent(tags=["langgraph"]) if root in str(item.metadata)]
        old = memory.get(new.supersedes or "").memory
        assert old is not None
        assert old.superseded_by == new.id
        assert old.metadata["langgraph"]["value"] == {"text": "the first plan"}
        store.delete((root,), "k")
        assert memory.restore(new.id).status == "restored"
        restored = store.get((root,), "k")
        assert restored is not None
        assert restored.value == {"text": "the second plan"}
    store.close()


@pytest.mark.parametrize("meanwhile", [False, True])
def test_an_item_is_as_private_as_it_was(root: str, meanwhile: bool) -> None:
    store = EngramqStore()
    with Memory() as memory:
        store.put((root,), "k", {"text": "Ada looks for another job"})
        (item,) = [entry for entry in memory.each_recent(tags=["langgraph"]) if root in str(entry.metadata)]
        if not meanwhile:
            memory.update(item.id, visibility="private")
        put = store._carried_out([PutOp((root,), "k", {"text": "Ada has another job"})])
        memory.converse(made_private_meanwhile(put, item.id) if meanwhile else put)
        found = store.get((root,), "k")
        assert found is not None
        assert found.value == {"text": "Ada has another job"}
        states: dict[str, Any] = {"states": ["active", "archived"], "include_superseded": True}
        kept = [entry for entry in memory.each_recent(tags=["langgraph"], **states) if root in str(entry.metadata)]
        assert {entry.visibility for entry in kept} == {"private"}
        assert len(kept) == 2, "the one before and this one, and no shared copy"
    store.close()


@pytest.mark.parametrize("query", ["walnut cake", None])
def test_no_planted_item_hides_a_private_one_that_is_beyond_what_was_read(root: str, query: str | None) -> None:
    store = EngramqStore()
    with Memory() as memory:
        store.put((root,), "k", {"text": "Ada looks for another job"})
        (item,) = [entry for entry in memory.each_recent(tags=["langgraph"]) if root in str(entry.metadata)]
        memory.update(item.id, visibility="private")
        for number in range(101):
            about = {**item.metadata["langgraph"], "value": {"text": f"planted {number}"}}
            memory.store(f"walnut cake {number}", tags=item.tags, metadata={"langgraph": about}, visibility="shared")
        found = [entry.value["text"] for entry in store.search((root,), query=query, limit=1)]
        assert found == ["Ada looks for another job"]
        assert store.search((root,), query=query, filter={"text": "planted 100"}, limit=1) == []
    store.close()


def test_a_memory_that_only_looks_like_an_item_is_none(root: str) -> None:
    store = EngramqStore()
    store.put((root,), "k", {"v": 1})
    with Memory() as memory:
        (item,) = [entry for entry in memory.each_recent(tags=["langgraph"]) if root in str(entry.metadata)]
        memory.store(
            "forged", tags=item.tags, metadata={"langgraph": {"namespace": [root], "key": "other", "value": 7}}
        )
        memory.store("forged", tags=item.tags)
    found = store.get((root,), "k")
    assert found is not None
    assert found.value == {"v": 1}
    assert len(store.search((root,))) == 1
    store.close()
