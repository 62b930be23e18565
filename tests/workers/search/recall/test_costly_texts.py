"""Whatever is asked is a text and nothing more, and one that PostgreSQL's parser reads again and again costs little."""

import dataclasses
import re
import time
from collections.abc import Sequence

import pytest

from engramq.schemas.commands import MemoryList, MemoryStats, SearchMemories, Stats
from engramq.schemas.faults import EngramqError
from engramq.schemas.limits import QUERY_CHARS
from engramq.workers.db.transaction import Transaction
from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.hashing import HashEmbedder
from engramq.workers.embedders.interface import Vectors
from engramq.workers.embedders.vectorizer import QUESTION_CHARS, Vectorizer
from engramq.workers.search import handlers
from engramq.workers.search.candidates import Tables
from engramq.workers.search.search import NOTHING, Search, SearchResult
from tests.assignments import assignment
from tests.workers.search.recall.conftest import Scene, ids

# Times as long as a plain text of the same length: 4 to 25 times is usual, without bounds most take 100 or more.
LONG = 60
COSTLY = ["a_", "1-a-", "a-1.", "1.2.3.4.5.6-", "<!-- ", "--><!--", "1 ", "(0)", "12k ", "Aü", "Ae", "aA", "1,234"]


def parse_s(scene: Scene, function: str, content: str) -> float:
    """Return the seconds of CPU that the server needs for a text function: others use the processors too."""
    told: list[str] = []
    owner = scene.world.database.owner
    owner.add_notice_handler(note := lambda notice: told.append(notice.message_detail or ""))
    try:
        owner.execute("set client_min_messages = log; set log_statement_stats = on")
        told.clear()
        scene.world.rows(f"select {function} as words", content)
        used = re.findall(r"^!\s+([\d.]+) s user, ([\d.]+) s system", "\n".join(told), re.MULTILINE)
    finally:
        owner.execute("reset log_statement_stats; reset client_min_messages")
        owner.remove_notice_handler(note)
    return sum(float(user) + float(system) for user, system in used)


@pytest.mark.promise("SE-5")
@pytest.mark.parametrize("text", COSTLY)
async def test_no_text_takes_the_parser_long(scene: Scene, text: str) -> None:
    plain, costly = [(it * QUERY_CHARS)[:QUERY_CHARS] for it in ("fox tree ", text)]
    usual_s = min(parse_s(scene, "words_in('english', %s)", plain) for _ in range(3))
    for function, times in (
        ("words_in('english', %s)", LONG),
        ("words_in('english', '数' || %s)", LONG),
        ("lexemes_of(1, 'english', %s, null, null)", LONG),
        ("words_asked(array['english'], %s)", LONG / 10),  # its beginning alone
    ):
        assert parse_s(scene, function, costly) < times * usual_s, function


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
    await scene.world.complete(dataclasses.replace(assignment(SearchMemories(query="fox")), patience_s=30.0))
    await scene.world.ask(MemoryList, SearchMemories(query="a fox"), namespace="another")
    assert seen[0] <= 30.0
    assert seen[1] == 60.0


async def test_a_statement_that_takes_longer_than_its_search_may_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.keep("The quick brown fox")

    async def slow(search: Search) -> SearchResult:
        assert isinstance(search.source, Tables)
        await search.source.tx.rows(b"select pg_sleep(20)")
        return NOTHING

    monkeypatch.setattr(handlers, "SEARCH_S", 0.2)
    monkeypatch.setattr(Search, "run", slow)
    began = time.monotonic()
    with pytest.raises(EngramqError, match="took too long"):
        await scene.world.complete(assignment(SearchMemories(query="fox")))
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


QUERIES = [
    "the of and", "?!. ,;", "🦊", "🦊🦊 fox", "' or 1=1 --", "'; drop table memories; --",
    "fox & !dog | (cat <-> bird)",
    "fox:*", "a' & 'b", "\\", "\\' fox", "fox\\", "%s %(namespace)s {visible} %%", "$1 :name", "<->", ":::", "!!!fox",
    "' ' ' '", "\u202efox\u200b", "naïve café", "e\u0301", "ﬁ", "数据库",
    "a" * QUERY_CHARS, "fox " * (QUERY_CHARS // 4),
    " ".join(f"w{number}" for number in range(5_000)), "'" * 1_000, "\n\t fox \r", "fox\x01\x7f", "-" * 3000,
    "http://example.org/a?b=c&d='e'", "fox@example.org", "../../etc/passwd", "0x1F 1e309 -0", "<b>fox</b>",
]  # fmt: skip

NAMES = ["'; drop table memories; --", "' & ''", "a\\b'c", "%(namespace)s", "🦊", "x" * 255]


@pytest.mark.promise("SE-5")
async def test_a_query_is_only_a_text(scene: Scene) -> None:
    fox = await scene.keep("The quick brown fox")
    await scene.keep("secret of another", namespace="other")
    for query in QUERIES:
        found = await scene.search(query)
        assert found.degraded is not True
        assert set(ids(found.memories)) <= {fox}, query[:50]
    scene.world.model.down = True
    for query in QUERIES:
        by_words = await scene.search("z" + query[1:])  # another text, whose vector nobody has kept
        assert by_words.degraded is True, query[:50]
        assert set(ids(by_words.memories)) <= {fox}, query[:50]
    assert scene.world.count("memories") == 2


@pytest.mark.promise("SE-5")
async def test_names_are_only_texts(scene: Scene) -> None:
    await scene.keep("fox", namespace="other")
    for text in NAMES:
        mine = await scene.keep(f"fox {text}", namespace=text, speaker=text, thread=text, external_id=text)
        assert ids(await scene.found("fox", namespace=text, thread=text)) == [mine]
        assert ids(await scene.found(text, namespace=text)) == [mine]
        assert ids((await scene.recent(namespace=text)).memories) == [mine]
        assert (await scene.world.ask(Stats, MemoryStats(), namespace=text)).memories == 1


async def test_a_query_without_words_is_answered_by_the_vector_alone(scene: Scene) -> None:
    fox = await scene.keep("The quick brown fox")
    (found,) = await scene.found("the of and", explain=True)
    assert found.id == fox
    assert isinstance(found.similarity, float)
    scene.world.model.down = True
    assert (await scene.search("and of the")).degraded is True
    assert await scene.found("and of the") == []
