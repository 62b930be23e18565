"""Whatever is asked is a text and nothing more."""

import pytest

from engramq.schemas.commands import MemoryStats, Stats
from engramq.schemas.limits import QUERY_CHARS
from tests.workers.search.recall.conftest import Scene, ids

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
