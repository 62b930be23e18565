"""What doors for people and frameworks list: all that was found, in a home whose floor would hide it from agents."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio.to_thread
import pytest

from engramq.client import AsyncMemory
from engramq.deploy.cli import main
from engramq.schemas.command_line import ExitCode
from engramq.schemas.contents import split_by_relevance
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import LIKELY
from engramq.workers.embedders.confidence import bystanders
from tests.conftest import Database
from tests.gateway.ui.browsing import Shown
from tests.gateway.ui.conftest import Served, served
from tests.scenarios.stage import Agent, stage_settings, until

pytestmark = pytest.mark.promise("KN-5")

FLOOR: Final = 1.0  # nothing reaches it: what is listed all the same was asked for
DRINKS: Final = ("Ada drinks tea in the morning", "Bob drinks coffee", "The engine needs coal", "Ada lives in Lyon")
PEOPLE: Final = tuple(
    f"Priya {did} {what}"
    for did in ("reviewed", "fixed", "postponed", "asked about")
    for what in ("the invoices", "the release notes", "the search index", "the holiday plan", "the login page")
)
OTHERS: Final = (
    "Dentist appointment with Dr. Okafor on 2026-12-08 at 08:40, bring the X-rays.",
    "The proxy of staging listens at 10.20.30.42 and speaks HTTP/2 only.",
    "Ingrid Solberg leads the harbour project since May.",
    "We write new services in Go, old ones stay in C#.",
)
WORDS: Final = ("Priya", "Okafor", "dentist", "X-rays", "10.20.30.42", "Solberg", "harbour", "proxy", "C#", "invoices")
MEMORIES: Final = 300


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix, min_relevance=str(FLOOR))


@pytest.fixture
async def here(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as made:
        yield made


@pytest.fixture
async def agent(here: Served) -> Agent:
    agent = await here.agent("ada")
    for content in DRINKS:
        await agent.store(content)
    return agent


class Terminal:
    """The command line of somebody who has a token."""

    def __init__(self, here: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{here.port}")
        monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["ada"])
        self._capsys = capsys

    async def search(self, *words: str) -> tuple[str, str]:
        assert await anyio.to_thread.run_sync(main, ["search", *words]) == ExitCode.DONE
        printed = self._capsys.readouterr()
        return printed.out, printed.err


@pytest.fixture
def terminal(here: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(here, capsys, monkeypatch)


def contents(page: Shown, known: tuple[str, ...]) -> list[str]:
    """Return those of the known contents that a page shows, in its order."""
    return sorted((content for content in known if content in page.text), key=page.text.index)


async def all_have_vectors(database: Database) -> bool:
    return bool(database.rows("select count(*) = 0 as done from memories where state = 'pending'")[0]["done"])


def in_order(hits: list[dict[str, Any]]) -> list[str]:
    likely, unlikely = split_by_relevance(hits)
    return [hit["content"] for hit in (*likely, *unlikely)]


async def test_hits_are_split_at_one_relevance_in_the_order_in_which_they_came() -> None:
    hits = [{"id": place, "relevance": relevance} for place, relevance in enumerate((0.2, LIKELY, 0.9, 0.49))]
    likely, unlikely = split_by_relevance([*hits, {"id": 4}])
    assert ([hit["id"] for hit in likely], [hit["id"] for hit in unlikely]) == ([1, 2], [0, 3, 4])


async def test_the_page_lists_what_agents_are_not_shown_under_a_line(here: Served, agent: Agent) -> None:
    query = "What does Ada drink?"
    hidden = await agent.call("search_memories", query=query)
    assert (hidden["memories"], hidden["left_out"] > 0) == ([], True)
    hits = await agent.search(query, limit=20, min_relevance=0, detail="full")
    likely, unlikely = split_by_relevance(hits)
    page = await (await here.browser("ada")).get("/ui/memories", q=query)
    assert contents(page, DRINKS) == in_order(hits)
    assert f"{len(hits)} found, {len(likely)} likely." in page.text
    assert ("Less likely" in page.text) == bool(unlikely)
    assert "min_relevance" not in page.text, "the hint is for agents"
    assert "Nothing was found" not in page.text


async def test_the_page_says_that_nothing_was_found_only_where_nothing_was(here: Served, agent: Agent) -> None:
    browser = await here.browser("ada")
    assert "Nothing was found." in (await browser.get("/ui/memories", q="tea", tags="nosuch")).text
    filtered = await browser.get("/ui/memories", q="tea", created_by="nobody")
    assert "Nothing was found" not in filtered.text
    assert "Nothing that was found passes your filters." in filtered.text
    assert f"Of the best 50, {len(DRINKS)} more do not pass" in filtered.text


async def test_a_terminal_lists_what_agents_are_not_shown(agent: Agent, terminal: Terminal) -> None:
    query = "What does Ada drink?"

    async def lists_the_same() -> bool:  # counts of a home that has just begun are remembered for milliseconds
        hits = await agent.search(query, limit=10, min_relevance=0, detail="full")
        out, err = await terminal.search(query)
        rows = [line.split("\t") for line in out.splitlines()]
        assert ([row[3] for row in rows], err) == (in_order(hits), "")
        return {row[3]: float(row[4]) for row in rows} == {hit["content"]: hit["relevance"] for hit in hits}

    await until(lists_the_same)
    hits = await agent.search(query, limit=10, min_relevance=0, detail="full")
    reply = json.loads((await terminal.search(query, "--json"))[0])
    assert [hit["id"] for hit in reply["memories"]] == [hit["id"] for hit in hits]
    out, err = await terminal.search(query, "--min-relevance", "1")
    assert out == ""
    assert "--min-relevance 0 shows them" in err


@pytest.mark.parametrize(
    ("options", "looked_at"),
    [
        ((), "was found among the trusted memories that are in no project."),
        (
            ("--project", "shop"),
            "was found among the trusted memories of project shop and those that are in no project.",
        ),
        (("--project", "shop", "--only"), "was found among the trusted memories of project shop."),
        (("--project", "*"), "was found among the trusted memories of all projects."),
        (("--partition", "untrusted"), "was found among the untrusted memories that are in no project."),
        (("--tag", "x"), "that passes the filters was found among the trusted memories that are in no project."),
    ],
)
async def test_a_terminal_that_finds_nothing_names_what_it_looked_at(
    terminal: Terminal, options: tuple[str, ...], looked_at: str
) -> None:
    out, err = await terminal.search("zebra", *options)
    assert (out, err.splitlines()[-1]) == ("", f"Nothing {looked_at}")


async def test_a_search_by_similarity_knows_no_floor_and_rest_keeps_that_of_agents(here: Served, agent: Agent) -> None:
    async with AsyncMemory(f"http://127.0.0.1:{here.port}", here.secrets["ada"]) as memory:
        assert (await memory.search("Ada's tea")).memories == []
        assert await agent.search("Ada's tea") == []
        assert len((await memory.search("Ada's tea", ranking="similarity")).memories) == len(DRINKS)
        assert len(await agent.search("Ada's tea", ranking="similarity")) == len(DRINKS)
        chosen = await memory.search("Ada's tea", ranking="similarity", min_relevance=1)
        assert (chosen.memories, chosen.left_out) == ([], len(DRINKS))


@pytest.mark.long
async def test_words_of_a_large_home_are_found_by_the_page_and_a_terminal(
    database: Database, redis_url: str, key_prefix: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """As people look: one word, in a home of memories of all kinds, by the bundled model and the learned floor."""
    every = (*PEOPLE, *OTHERS, *bystanders())[:MEMORIES]
    records = [{"content": content} for content in every]
    settings = stage_settings(database, redis_url, key_prefix, embedder="minilm", min_relevance="")
    async with served(settings) as here:
        agent, browser = await here.agent("ada"), await here.browser("ada")
        for start in range(0, len(records), 100):
            await agent.call("import_memories", records=records[start : start + 100])
        await until(lambda: all_have_vectors(database), 120.0)
        terminal = Terminal(here, capsys, monkeypatch)
        for word in WORDS:
            assert word in contents((await browser.get("/ui/memories", q=word)), every)[0], word
            rows = [line.split("\t") for line in (await terminal.search(word))[0].splitlines()]
            assert word in rows[0][3], word
