"""Texts that PostgreSQL's parser reads again and again cost little: security finding 1, bounded."""

import dataclasses
import math
import time
from collections.abc import Sequence

import pytest

from engramq.schemas.commands import MemoryList, SearchMemories
from engramq.schemas.faults import EngramqError
from engramq.schemas.limits import QUERY_CHARS
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.vectorizer import QUESTION_CHARS, Vectorizer
from engramq.workers.search import handlers
from engramq.workers.search.candidates import Tables
from tests.jobs import job
from tests.workers.search.recall.conftest import Scene, ids

# Times as long as a plain text of the same length: 4 to 25 times is usual, without bounds most take 100 or more.
LONG = 60
TRIES = 20  # of which the shortest counts: others use the processors too
COSTLY = ["a_", "1-a-", "a-1.", "1.2.3.4.5.6-", "<!-- ", "--><!--"]


def parse_s(scene: Scene, function: str, content: str, enough_s: float = 0.0) -> float:
    """Return the least time that a text function takes, in seconds; an early one that is short enough does."""
    least_s = math.inf
    for _ in range(TRIES):
        began = time.perf_counter()
        scene.world.rows(f"select {function} as words", content)
        least_s = min(least_s, time.perf_counter() - began)
        if least_s < enough_s:
            break
    return least_s


@pytest.mark.promise("SE-5")
@pytest.mark.parametrize("text", COSTLY)
async def test_no_text_takes_the_parser_long(scene: Scene, text: str) -> None:
    plain, costly = [(it * QUERY_CHARS)[:QUERY_CHARS] for it in ("fox tree ", text)]
    usual_s = parse_s(scene, "words_in('english', %s)", plain)
    for function, times in (
        ("words_in('english', %s)", LONG),
        ("words_in('english', '数' || %s)", LONG),
        ("words_asked(array['english'], %s)", LONG / 10),  # its beginning alone
    ):
        assert parse_s(scene, function, costly, enough_s=times * usual_s) < times * usual_s, function


async def test_ordinary_texts_have_the_words_that_they_had(scene: Scene) -> None:
    texts = [
        "The foxes_jumped over https://example.org/a?b=c, see ada@example.org. " * 90,
        "Before <!-- a comment of\nseveral words --> after <b>it</b>", "open <!-- and never closed", "a --> b <!-- c d",
        "x" * 255 + " fox", "数据库 and a fox",
    ]  # fmt: skip
    for text in texts:
        (row,) = scene.world.rows(
            "select tsvector_to_array(to_tsvector('english', %(t)s)) = "
            "tsvector_to_array(to_tsvector('english', parseable(%(t)s))) as same".replace("%(t)s", "%s"),
            text, text,
        )  # fmt: skip
        assert row["same"], text[:40]


async def test_words_in_a_long_run_are_still_found(scene: Scene) -> None:
    kept = await scene.keep("-" * 600 + " needle " + "_" * 600)
    assert ids((await scene.search("needle")).memories) == [kept]


async def test_a_search_ends_when_its_caller_stops_waiting(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.keep("The quick brown fox")
    seen: list[float] = []
    limit = Transaction.limit_statements

    async def noted(tx: Transaction, seconds: float) -> None:
        seen.append(seconds)
        await limit(tx, seconds)

    monkeypatch.setattr(Transaction, "limit_statements", noted)
    monkeypatch.setattr(handlers, "SEARCH_S", 60.0)
    await scene.world.outcome(dataclasses.replace(job(SearchMemories(query="fox")), patience_s=30.0))
    await scene.world.ask(MemoryList, SearchMemories(query="a fox"), namespace="another")
    assert seen[0] <= 30.0
    assert seen[1] == 60.0


async def test_a_statement_that_takes_longer_than_its_search_may_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.keep("The quick brown fox")

    async def slow(tables: Tables, *_: object, **_named: object) -> list[object]:
        await tables.tx.rows(b"select pg_sleep(20)")
        return []

    monkeypatch.setattr(handlers, "SEARCH_S", 0.2)
    monkeypatch.setattr(handlers, "find", slow)
    began = time.monotonic()
    with pytest.raises(EngramqError, match="took too long"):
        await scene.world.outcome(job(SearchMemories(query="fox")))
    assert time.monotonic() - began < 5


@pytest.mark.promise("SE-5")
async def test_the_model_is_given_the_beginning_of_a_question_alone(scene: Scene) -> None:
    """Splitting all of it into tokens would cost more than the model."""
    given: list[int] = []

    class Counting(HashEmbedder):
        async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:
            given.extend(map(len, texts))
            return await super().embed(texts, questions=questions)

    async with BatchingEmbedder(Counting()) as embedder:
        vectorizer = Vectorizer(embedder, scene.world.store)
        await vectorizer.agree()
        given.clear()
        for long in ("word " * QUERY_CHARS, "x" * QUERY_CHARS):
            assert await vectorizer.try_read(long[:QUERY_CHARS], ()) is not None
    assert given == [QUESTION_CHARS] * 2
