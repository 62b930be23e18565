"""Times as people say them: what a question about a time finds, through the pipeline, with the bundled model."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest

from tests.conftest import Database
from tests.scenarios.stage import Agent, agent_of, stage_settings, staged

BERLIN: Final = ZoneInfo("Europe/Berlin")
DIARY: Final = (
    "Repaired the garden gate with a hinge", "Lunch with Priya about the budget", "Ran ten kilometres along the river",
    "Wrote the outline of the workshop", "Took the cat to the vet", "Migrated the wiki to the new host",
    "Baked rye bread for the neighbours", "Interviewed two candidates for support", "Watched a film about whales",
    "Sorted the photographs of the summer", "Called the landlord about the heating", "Bought tickets for the concert",
    "Planted garlic in the raised bed", "Reviewed the contract of the caterer", "Fixed the flaky login test",
    "Visited the museum of clocks",
)  # fmt: skip
OTHERS: Final = (
    "The kettle takes {} minutes to boil", "Door number {} opens with the silver key", "Robot {} charges at the dock",
    "The library lends at most {} books", "Bus {} stops at the bakery", "The team of area {} plays handball",
)  # fmt: skip


@pytest.fixture
async def agent(database: Database, redis_url: str, key_prefix: str) -> AsyncIterator[Agent]:
    settings = stage_settings(
        database,
        redis_url,
        key_prefix,
        embedder="minilm",
        link_threshold="1",
        min_relevance="",
        timezone="Europe/Berlin",
    )
    async with staged(settings) as stage, agent_of(await stage.gateway()) as connected:
        yield connected


async def bring_in(agent: Agent, records: list[dict[str, Any]]) -> None:
    assert (await agent.call("import_memories", records=records))["accepted"] == len(records)


async def first(agent: Agent, query: str, **arguments: Any) -> str | None:
    body = await agent.call("search_memories", query=query, **arguments)
    assert (body["answered"] == "no") is (not body["memories"])
    return body["memories"][0]["content"] if body["memories"] else None


def days_to(today: date) -> dict[str, date]:
    """Return questions with the day that each means."""
    ago = {days: today - timedelta(days=days) for days in range(16)}
    friday = today - timedelta(days=(today.weekday() - 4) % 7 or 7)
    monday = today - timedelta(days=today.weekday())
    fifth = ago[5]
    return {
        "What did I do yesterday?": ago[1],
        "what did I do today": ago[0],
        "What happened the day before yesterday?": ago[2],
        "What did I do three days ago?": ago[3],
        "4 days ago": ago[4],
        f"What did I do on {fifth:%B} {fifth.day}?": ago[5],
        f"What happened on {ago[6].isoformat()}?": ago[6],
        f"what did I do on {ago[7]:%d.%m.%Y}": ago[7],
        f"What did I do on {ago[8].month}/{ago[8].day}?": ago[8],
        f"anything on {ago[9]:%b} {ago[9].day}?": ago[9],
        f"What did I do on the {ago[10].day}th of {ago[10]:%B}?": ago[10],
        f"{ago[11].day} {ago[11]:%b} {ago[11].year}": ago[11],
        f"what happened on {ago[12]:%d.%m.}?": ago[12],
        "What did I do last Friday?": friday,
        "What did I do on Monday?": monday,
    }


@pytest.mark.long
@pytest.mark.promise("KN-6")
async def test_where_a_question_holds_little_but_a_time_the_time_decides(agent: Agent) -> None:
    today = datetime.now(BERLIN).date()
    entries = {today - timedelta(days=days): text for days, text in enumerate(DIARY)}
    await bring_in(agent, [{"content": text, "occurred_at": f"{day}T12:30"} for day, text in entries.items()])
    await bring_in(agent, [{"content": OTHERS[number % 6].format(number)} for number in range(60)])

    for question, day in days_to(today).items():
        assert await first(agent, question) == entries[day], question
    yesterday = str(today - timedelta(days=1))
    assert await agent.found("What did I do yesterday?") == [DIARY[1]]
    assert await agent.found("What did I do?", since=yesterday, until=yesterday) == [DIARY[1]]
    week = await agent.found("What did I do in the last 3 days?", limit=4)
    assert set(week) == set(DIARY[:4])
    surveyed = await agent.call("survey_memories", topic="what happened", since=yesterday, until=yesterday)
    assert [extract["text"] for extract in surveyed["extracts"]] == [DIARY[1]]
    assert await first(agent, "Who was interviewed?") == DIARY[7]
    # Nothing is from then: a search like any other.
    assert (await agent.call("search_memories", query="What happened in March 1999?", min_relevance=0))["count"] == 5


@pytest.mark.long
@pytest.mark.promise("KN-6")
async def test_a_date_in_a_text_counts_where_no_other_is_given(agent: Agent) -> None:
    down = "Incident 2026-10-21: checkout was down for two hours since the certificate had expired"
    reviews = [
        {"content": f"Sprint review {number}: the board was cleaned up", "occurred_at": f"{year}-10-{day}"}
        for number, (year, day) in enumerate(((2026, 12), (2026, 26), (2025, 14)))
    ]
    others = [{"content": OTHERS[number % 6].format(number)} for number in range(30)]
    await bring_in(agent, [{"content": down}, *reviews, *others])
    assert await first(agent, "Why was checkout down in October?") == down
    assert await first(agent, "What happened on October 21, 2026?") == down
    assert await first(agent, "when was the kettle bought in October", min_relevance=0) != reviews[0]["content"]


@pytest.mark.promise("KN-6")
async def test_a_day_is_one_of_the_zone_that_is_given_or_set(agent: Agent) -> None:
    west = await agent.store("Landed in Seattle", occurred_at="2026-11-20T21:30:00-08:00")
    late = await agent.store("Locked the cellar", occurred_at="2026-11-18T23:30")
    plain = await agent.store("Fed the cat", occurred_at="2026-11-15")
    assert west["occurred_at"] == "2026-11-20T21:30:00.000000-08:00"
    assert late["occurred_at"] == "2026-11-18T23:30:00.000000+01:00"
    assert plain["occurred_at"] == "2026-11-15T00:00:00.000000+01:00"
    assert await agent.found("What happened on November 20, 2026?") == [west["content"]]
    assert await agent.found("What happened on 2026-11-18?") == [late["content"]]
    assert await agent.found("cellar", since="2026-11-18", until="2026-11-18") == [late["content"]]
    assert (await agent.search("cellar"))[0]["occurred_at"] == late["occurred_at"]

    moved = await agent.call("update_memory", memory_id=late["id"], occurred_at="2026-11-17T08:00:00Z")
    assert moved["memory"]["occurred_at"] == "2026-11-17T08:00:00.000000Z"
    assert await agent.found("What happened on 2026-11-18?", min_relevance=0.5) == []
    refusal = await agent.call("search_memories", query="cellar", since="2026-11-19", until="2026-11-18")
    assert refusal["field"] == "until"


@pytest.mark.promise("KN-6")
async def test_lists_and_searches_mean_the_same_times(agent: Agent) -> None:
    old = await agent.store("The roof was mended", occurred_at="2020-05-05T10:00:00Z")
    new = await agent.store("The roof was painted")
    today = str(datetime.now(UTC).date() - timedelta(days=1))
    for ask in (agent.recent, lambda **span: agent.found("roof", **span)):
        assert await ask(until="2020-12-31") == [old["content"]]
        assert await ask(since=today) == [new["content"]]
        assert set(await ask(stored_since=today)) == {old["content"], new["content"]}
        assert await ask(stored_until="2020-12-31") == []
    counted = await agent.call("list_recent_memories", since="2020-05-05", until="2020-05-05")
    assert counted["count"] == 1
    refusal = await agent.call("list_recent_memories", stored_since="2026-11-19", stored_until="2026-11-18")
    assert refusal["field"] == "stored_until"


SPELLINGS: Final = (
    "{0:%B} {0.day}, {0.year}",
    "{0.day} {0:%B} {0.year}",
    "{0:%Y-%m-%d}",
    "{0:%d.%m.%Y}",
    "{0.month}/{0.day}/{0.year}",
)


@pytest.mark.long
@pytest.mark.promise("KN-7")
@pytest.mark.parametrize("stored", range(len(SPELLINGS)))
async def test_a_date_is_found_in_its_other_spellings(agent: Agent, stored: int) -> None:
    days = [date(2024, 1, 3) + timedelta(days=9 * number) for number in range(40)]
    await bring_in(
        agent,
        [
            {"content": f"Delivery to depot {place % 7} on {SPELLINGS[stored].format(day)}"}
            for place, day in enumerate(days)
        ],
    )
    right = 0
    for spelling in SPELLINGS:
        for day in days[::2]:
            found = await first(agent, f"Which delivery was on {spelling.format(day)}?")
            right += found is not None and SPELLINGS[stored].format(day) in found
    assert right >= 0.95 * len(SPELLINGS) * len(days[::2])


@pytest.mark.long
@pytest.mark.promise("KN-7")
async def test_a_number_is_found_with_other_separators(agent: Agent) -> None:
    numbers = [10_345 + 1_777 * place for place in range(24)]
    written = ("{:d}", "{:,}", "{:.}", "{: }")

    def spell(way: str, number: int) -> str:
        return f"{number}" if way == "{:d}" else f"{number:,}".replace(",", way[2])

    await bring_in(
        agent,
        [
            {"content": f"The meter showed {spell(written[place % 4], number)} units"}
            for place, number in enumerate(numbers)
        ],
    )
    right = 0
    for way in written:
        for place, number in enumerate(numbers):
            found = await first(agent, f"Which meter showed {spell(way, number)} units?")
            right += found is not None and spell(written[place % 4], number) in found
    assert right >= 0.95 * len(written) * len(numbers)
