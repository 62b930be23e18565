"""Full text by the language of a namespace: stems, pairs of characters, and a change that loses nothing on the way."""

import asyncio
from uuid import uuid4

import pytest

from engramq.schemas.commands import MemoryStats, Stats
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import LANGUAGES, Partition
from engramq.workers.db.database import Store
from engramq.workers.db.namespaces import change_language, known_languages
from engramq.workers.db.readiness import NotReady
from engramq.workers.db.vectors import Sizes
from engramq.workers.queue.background import Activity
from engramq.workers.search.candidates import Filters, find_candidates
from engramq.workers.search.copies import Copies
from engramq.workers.search.question import Question
from engramq.workers.upkeep import rebuilding
from engramq.workers.upkeep.rebuilding import Rebuilding
from tests.conftest import Database
from tests.workers.conftest import World

BOTH = (Partition.TRUSTED, Partition.UNTRUSTED)
GERMAN, ENGLISH = "Die Häuser am Fluss gehören der Stadt", "The houses by the river were flooding"


async def found(store: Store, namespace: str, question: str) -> int:
    """Return how many memories have a word of the question, by the tables."""
    chosen = Filters(partitions=BOTH)
    read = await store.read(namespace, lambda tx: find_candidates(tx, Sizes(), Question(question), None, chosen))
    return len(read.ids)


async def spoken(store: Store, namespace: str, language: str) -> str | None:
    return await store.write(namespace, lambda tx: change_language(tx, language))


@pytest.fixture
def namespace() -> str:
    return f"n-{uuid4().hex[:8]}"


@pytest.fixture
def work(store: Store, monkeypatch: pytest.MonkeyPatch) -> Rebuilding:
    """What upkeep does, a few memories at a time, and any pass the last one."""
    monkeypatch.setattr(rebuilding, "AT_ONCE", 3)
    return Rebuilding(store=store, activity=Activity(), stopping=asyncio.Event(), settled_s=0.0)


async def test_words_are_stemmed_by_the_language_of_the_namespace(world: World, namespace: str) -> None:
    assert await spoken(world.store, namespace, "german") == "english"
    await world.keep(GERMAN, namespace=namespace)
    await world.keep(GERMAN, namespace=f"{namespace}-english")
    assert await found(world.store, namespace, "Haus") == 1
    assert await found(world.store, namespace, "der am") == 0  # stop words
    assert await found(world.store, f"{namespace}-english", "Haus") == 0
    assert await spoken(world.store, namespace, "german") is None


WITHOUT_SPACES = (  # what is kept, what asks for it, and what asks for nothing of all
    ("我们上周把计费服务部署到了Docker集群", "谁负责部署docker？", "花园里的猫"),
    ("会議は東京タワーの近くで木曜日に開かれます", "木曜日はどこですか", "朝食の味噌汁"),
    ("내일 회의에서 예산을 발표합니다", "회의", "고양이"),
    ("การประชุมจัดที่กรุงเทพทุกวันศุกร์", "ประชุมวันไหน", "แมว"),
    ("ｶﾒﾗを買った", "カメラ", "テレビ"),
)


@pytest.mark.parametrize("language", ["english", "german", "simple", "japanese"])
async def test_scripts_without_spaces_are_found_by_pairs_of_characters(
    world: World, namespace: str, language: str
) -> None:
    await spoken(world.store, namespace, language)
    for content, _, _ in WITHOUT_SPACES:
        await world.keep(content, namespace=namespace)
    copies = world.services[Copies]
    for _ in range(2):
        await copies.prepare(namespace, BOTH)
    for _, asked, other in WITHOUT_SPACES:
        for question, count in ((asked, 1), (other, 0)):
            assert await found(world.store, namespace, question) == count, question
            proven = await copies.find_current(namespace, BOTH, Question(question))
            assert proven is not None
            candidates = await proven.candidates(Question(question), None, Filters(partitions=BOTH))
            assert len(candidates.ids) == count, question


async def test_a_change_of_the_language_loses_nothing_on_its_way(
    world: World, namespace: str, work: Rebuilding
) -> None:
    for number in range(7):
        await world.keep(f"{ENGLISH} {number}", namespace=namespace)
        await world.keep(f"{GERMAN} {number}", namespace=namespace)
    before = world.rows("select node_id, updated_at from memories order by 1")
    copies = world.services[Copies]
    for _ in range(2):
        await copies.prepare(namespace, BOTH)

    async def both(question: str) -> int:
        proven = await copies.find_current(namespace, BOTH, Question(question))
        tables = await found(world.store, namespace, question)
        if proven is not None:
            copied = await proven.candidates(Question(question), None, Filters(partitions=BOTH))
            assert len(copied.ids) == tables
        return tables

    assert (await both("flood"), await both("Haus")) == (7, 0)
    await spoken(world.store, namespace, "german")
    seen = []
    for _ in range(4):
        assert await both("flooding") == 7
        assert await both("the river") == 7
        seen.append(await both("Haus"))
        await world.store.write(namespace, work._rebuild_some)
    assert seen == sorted(seen)
    assert 0 < seen[-1] < 7
    told = (await world.ask(Stats, MemoryStats(), namespace=namespace)).full_text
    assert told == {"language": "german", "rebuilding": {"done": 12, "total": 14}}
    await world.keep(f"{GERMAN} again", namespace=namespace)
    await work.run()
    assert (await both("Haus"), await both("flood"), await both("flooding")) == (8, 0, 7)
    assert world.rows("select node_id, updated_at from memories order by 1")[:14] == before
    assert world.count("lexeme_rebuilds") == 0
    assert (await world.ask(Stats, MemoryStats(), namespace=namespace)).full_text == {"language": "german"}


async def test_what_stores_old_words_while_a_pass_goes_on_is_found_by_the_next_one(
    world: World, namespace: str, work: Rebuilding
) -> None:
    await world.keep(GERMAN, namespace=namespace)
    await spoken(world.store, namespace, "german")
    work.settled_s = 60.0
    await work.run()
    await work.run()
    assert world.rows("select passes from lexeme_rebuilds") == [{"passes": 1}]  # the next one comes a minute later
    world.rows(
        "update memories set lexemes = array_to_tsvector(array[lexeme_prefix(tenant) || 'hauser']) "
        "where tenant = tenant_of(%s)",
        namespace,
    )  # as a transaction leaves it that began before the change
    assert await found(world.store, namespace, "Häuser") == 1
    world.rows("update lexeme_rebuilds set changed_at = changed_at - interval '1 minute'")
    await work.run()
    assert world.count("lexeme_rebuilds") == 0
    assert await found(world.store, namespace, "Haus") == 1


async def test_a_change_back_and_forth_remembers_every_language(world: World, namespace: str, work: Rebuilding) -> None:
    await world.keep(ENGLISH, namespace=namespace)
    for language in ("german", "simple", "english", "french"):
        await spoken(world.store, namespace, language)
        await world.keep(f"Flooding {language}", namespace=namespace)
    (row,) = world.rows("select former_languages as former from lexeme_rebuilds")
    assert set(row["former"]) == {"english", "german", "simple"}
    assert await found(world.store, namespace, "flooding") == 5
    await work.run()
    assert await found(world.store, namespace, "flooding") == 5
    assert world.count("lexeme_rebuilds") == 0


async def test_upkeep_stops_when_it_is_told_to_and_goes_on_later(
    world: World, namespace: str, work: Rebuilding
) -> None:
    for number in range(7):
        await world.keep(f"{GERMAN} {number}", namespace=namespace)
    await spoken(world.store, namespace, "german")
    await world.store.write(namespace, work._rebuild_some)
    work.stopping.set()
    await work.run()
    assert world.rows("select done from lexeme_rebuilds") == [{"done": 3}]
    work.stopping.clear()
    await work.run()
    assert await found(world.store, namespace, "Haus") == 7


async def test_words_are_counted_anew_after_a_change(world: World, namespace: str, work: Rebuilding) -> None:
    await world.keep(GERMAN, namespace=namespace)
    await spoken(world.store, namespace, "german")
    world.rows("delete from changes")
    await work.run()
    assert world.rows("select n.namespace from changes join namespaces n using (tenant)") == [{"namespace": namespace}]


async def test_new_namespaces_have_the_language_of_the_setting(database: Database, namespace: str) -> None:
    settings = read_settings({"ENGRAMQ_LANGUAGE": "french"})
    async with await Store.open(database.url, language=settings.language) as store:
        assert await spoken(store, namespace, "french") is None
    async with await Store.open(database.url) as store:
        assert await spoken(store, namespace, "french") is None  # it keeps what it has
    with pytest.raises(NotReady, match="klingon"):
        await Store.open(database.url, language="klingon")


async def test_every_language_that_may_be_named_is_one_that_the_database_knows(store: Store, namespace: str) -> None:
    known = await store.read(namespace, known_languages)
    assert set(known) <= set(LANGUAGES)
    assert set(LANGUAGES) - set(known) <= {"estonian"}  # PostgreSQL 17 has not
