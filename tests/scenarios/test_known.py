"""What is known is said: lookups by bare words, names and identifiers show what holds them, whatever else is kept."""

from collections.abc import Sequence
from typing import Final

import pytest

from tests.conftest import Database
from tests.scenarios.stage import Agent
from tests.scenarios.test_relevance import asked
from tools.relevance import fillers

pytestmark = pytest.mark.long

# A memory, and what is asked about it. None of them was learned from.
HOME: Final[dict[str, tuple[str, ...]]] = {
    "Dentist appointment with Dr. Okafor on 2026-12-08 at 08:40, bring the X-rays.": (
        "Dr. Okafor", "Okafor", "dentist", "dentist appointment", "X-rays", "What about Okafor?",
        "dentsit appointment",
    ),
    "The staging broker listens on 10.20.30.42 and nobody but the bastion may reach it.": ("10.20.30.42", "broker"),
    "Priyanka moved the nightly export to Kestrel after the second timeout.": (
        "Priyanka", "Kestrel", "nightly export", "Priyanca Kestrell",
    ),
    "We do not deploy on Fridays since the outage of the ticket desk.": ("deploy Fridays", "ticket desk outage"),
}  # fmt: skip
SIZES: Final = (10, 80, 400)


async def keep_beside(agent: Agent, contents: Sequence[str]) -> None:
    rows = [{"content": content} for content in contents]
    for start in range(0, len(rows), 100):
        await agent.call("import_memories", records=rows[start : start + 100])


@pytest.mark.promise("KN-1", "KN-3")
async def test_a_lookup_shows_what_holds_its_words_whatever_else_is_kept(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    around = [text for text in fillers.texts(SIZES[-1] + 50) if not any(word in text for word in ("ticket", "Friday"))]
    async with asked(database, redis_url, key_prefix, list(HOME)) as agent:
        kept = 0
        for size in SIZES:
            await keep_beside(agent, around[kept:size])
            kept = size
            for content, queries in HOME.items():
                for query in queries:
                    found = await agent.call("search_memories", query=query)
                    shown = [hit["content"] for hit in found["memories"]]
                    assert content in shown, (size, query, found)
                    assert found["answered"] != "no"


@pytest.mark.promise("KN-1")
async def test_of_a_word_that_many_memories_share_some_are_shown_and_the_others_counted(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    contents = [f"The zebra server number {number} restarts every week on Sunday night." for number in range(1, 8)]
    async with asked(database, redis_url, key_prefix, [*contents, *fillers.texts(60)]) as agent:
        for query in ("zebra", "zebra server", "zebra night"):
            found = await agent.call("search_memories", query=query)
            assert {hit["content"] for hit in found["memories"]} <= set(contents)
            assert found["count"] == 5
            assert found["more"]["n"] == 2
            whole = await agent.call("search_memories", query=query, limit=found["count"] + found["more"]["n"])
            assert found["more"]["call"] == f'search_memories(query="{query}", limit=7)'
            assert {hit["content"] for hit in whole["memories"]} == set(contents)
            assert "more" not in whole


@pytest.mark.promise("KN-2")
async def test_no_is_said_beside_an_empty_list_alone_and_claims_no_more_than_was_looked_at(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    async with asked(database, redis_url, key_prefix, [*HOME, *fillers.texts(100)]) as agent:
        nothing = await agent.call("search_memories", query="Which opera did Verdi write for Cairo?")
        assert (nothing["answered"], nothing["memories"]) == ("no", [])
        assert nothing["hint"].startswith(f"No sure answer here. {nothing['left_out']} weaker hits hidden, best ")
        whole = await agent.call("search_memories", query="Which opera did Verdi write for Cairo?", min_relevance=0)
        assert whole["answered"] == "unsure"
        assert len(whole["memories"]) == nothing["left_out"]
        assert f"{max(hit['relevance'] for hit in whole['memories']):.2f}" in nothing["hint"]
        assert "hint" not in whole


@pytest.mark.promise("KN-4")
async def test_a_filter_that_leaves_few_lowers_none_of_them(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    async with asked(database, redis_url, key_prefix, fillers.texts(80)) as agent:
        await agent.call(
            "store_memory", content="Kick-off of the harbour project, all leads were there.",
            occurred_at="2026-03-04T09:00:00Z", tags=["trip"], thread="harbour",
        )  # fmt: skip
        query = "when was the kick-off"
        wide = await agent.call("search_memories", query=query)
        (hit, *_) = wide["memories"]
        for narrow in ({"since": "2026-03-04", "until": "2026-03-04"}, {"tags": ["trip"]}, {"thread": "harbour"}):
            found = await agent.call("search_memories", query=query, **narrow)
            assert [each["id"] for each in found["memories"]] == [hit["id"]], narrow
            assert found["memories"][0]["relevance"] >= hit["relevance"] - 0.1, (narrow, found, wide)


@pytest.mark.promise("KN-10")
async def test_of_somebody_whom_many_memories_name_a_question_about_all_counts_the_others(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    contents = [
        f"{did} with Ingrid Solberg."
        for did in (
            "Signed the lease", "Had lunch in Bergen", "Reviewed the budget", "Moved the stand-up", "Fixed the pump",
            "Planned the offsite", "Tasted new coffee", "Closed ticket 77", "Went to the fair", "Wrote the handover",
        )
    ]  # fmt: skip
    async with asked(database, redis_url, key_prefix, [*contents, *fillers.texts(80)]) as agent:
        for query in ("Ingrid Solberg", "What do you know about Ingrid Solberg?"):
            found = await agent.call("search_memories", query=query)
            named = sum(hit["content"] in contents for hit in found["memories"])
            assert found["more"]["n"] == len(contents) - named, (query, found)
            tool, _, arguments = found["more"]["call"].partition("(")
            assert query in arguments
            assert tool in {"search_memories", "survey_memories"}
        survey = await agent.call("survey_memories", topic="What do you know about Ingrid Solberg?")
        assert survey["totals"]["named"] == len(contents)
