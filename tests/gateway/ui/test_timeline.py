"""A timeline has a bar for each day, month or year of a whole list, and cut words are shown whole in their row."""

import re
from urllib.parse import urlsplit

import pytest

from engramq.gateway.ui import timeline
from tests.conftest import Database
from tests.gateway.ui.browsing import Browser
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

LIST = "/ui/memories"
TIMELINE = "/ui/timeline"
BAR = re.compile(r'<a href="([^"]+)" title="([^"]+)"( aria-current="true")?( tabindex="-1")?>')


async def store_at(agent: Agent, database: Database, at: str, count: int = 1, **more: object) -> None:
    """Store memories as if it had been then."""
    for number in range(count):
        memory = await agent.store(f"Fact {number} of {at}", **more)
        database.rows("update memories set created_at = %s::timestamptz where node_id = %s::uuid", at, memory["id"])


async def bars(browser: Browser, address: str = "") -> dict[str, str]:
    """Return the addresses of the bars of a timeline by what they say; one that is chosen says so."""
    page = await browser.get(f"{TIMELINE}?{address}")
    assert page.status == 200, page.text
    return {f"{title}{' chosen' if chosen else ''}": href for href, title, chosen, _ in BAR.findall(page.response.text)}


async def test_a_bar_leads_to_the_memories_of_its_day_and_no_others(
    agent: Agent, browser: Browser, database: Database
) -> None:
    await store_at(agent, database, "2026-03-30T23:59:59Z")
    await store_at(agent, database, "2026-04-01T00:00:00Z", 2, project="rover")
    await store_at(agent, database, "2026-04-02T10:00:00Z", 30, project="rover")
    days = await bars(browser)
    assert list(days) == ["2026-03-30: 1", "2026-04-01: 2", "2026-04-02: 30"], "more than one page of the list"
    assert "Timeline" not in (await browser.get(f"{LIST}?q=fact")).text, "hits are not in the order of time"
    address = days["2026-04-01: 2"].replace("&amp;", "&")
    assert address.endswith("since=2026-04-01&until=2026-04-01"), "the state is in the address"
    assert len((await browser.get(address)).values("shown")) == 2
    around = await bars(browser, urlsplit(address).query)
    assert list(around) == ["2026-04-01: 2 chosen", "2026-04-02: 30"], "of a day its month is shown"
    assert list(await bars(browser, "project=rover")) == ["2026-04-01: 2", "2026-04-02: 30"]
    assert await bars(browser, "created_by=nobody") == {}
    assert (await browser.get(f"{TIMELINE}?since=2026-04-02&until=2026-04-01")).status == 400


async def test_a_longer_time_has_bars_of_months_and_of_years(
    agent: Agent, browser: Browser, database: Database
) -> None:
    for at in ("2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z", "2026-05-02T12:00:00Z"):
        await store_at(agent, database, at)
    months = await bars(browser)
    assert list(months) == ["2026-01: 1", "2026-02: 1", "2026-05: 1"]
    assert months["2026-02: 1"].endswith("since=2026-02-01&amp;until=2026-02-28")
    assert list(await bars(browser, "since=2026-02-01&until=2026-02-28")) == ["2026-02-01: 1"]
    await store_at(agent, database, "2019-05-02T12:00:00Z")
    assert list(await bars(browser)) == ["2019: 1", "2026: 3"]


@pytest.mark.promise("PV-1")
async def test_everybody_counts_what_they_may_read_and_nothing_else(here: Served, database: Database) -> None:
    ada = await here.agent("ada")
    await store_at(ada, database, "2026-04-01T12:00:00Z", visibility="private")
    await store_at(ada, database, "2026-04-02T12:00:00Z", visibility="shared")
    await store_at(await here.agent("researcher"), database, "2026-04-03T12:00:00Z")
    assert list(await bars(await here.browser("ada"))) == ["2026-04-01: 1", "2026-04-02: 1"]
    for name in ("grace", "keeper", "reader"):
        seen = await bars(await here.browser(name))
        assert list(seen) == ["2026-04-02: 1"], "nothing private of others, nothing untrusted unasked"
    assert list(await bars(await here.browser("reader"), "partition=untrusted")) == ["2026-04-03: 1"]


async def test_words_that_a_list_cuts_are_shown_whole_in_their_row(
    here: Served, agent: Agent, browser: Browser
) -> None:
    short = await agent.store("It is short")
    long = await agent.store("The tea of Ada. " * 40 + "And the\u200bend.")
    for path in (LIST, "/ui/changes"):
        page = await browser.get(path)
        assert "end." not in page.text
        opened = [given["hx-get"] for _, given in page.reader.elements if "hx-get" in given]
        assert [place for place in opened if place.endswith("/content")] == [f"{LIST}/{long['id']}/content"]
    whole = await browser.get(f"{LIST}/{long['id']}/content")
    assert "U+200B end." in whole.text
    assert (await browser.get(f"{LIST}/{short['id']}/content")).text == "It is short"
    await agent.store("# Runbook\n```sh\nrm **x**\n```\n**Never** on `Friday`")
    await (await here.agent("researcher")).store("**Trust** me", source_type="research")
    for path in (f"{LIST}?partition=both", "/ui/changes"):
        page = await browser.get(path)
        assert "Runbook rm **x** Never on Friday" in page.text
        assert "**Trust** me" in page.text, "who decides sees every mark"
    private = await agent.store("Mine " * 100, visibility="private")
    assert (await (await here.browser("grace")).get(f"{LIST}/{private['id']}/content")).status == 404


@pytest.mark.promise("KN-6")
async def test_a_bar_stands_where_a_memory_happened_and_the_list_agrees(agent: Agent, browser: Browser) -> None:
    await agent.store("The roof was mended", occurred_at="2019-05-02T23:30:00Z")
    days = await bars(browser)
    assert list(days) == ["2019-05-02: 1"]
    assert len((await browser.get(days["2019-05-02: 1"].replace("&amp;", "&"))).values("shown")) == 1
    assert len((await browser.get(f"{LIST}?stored_until=2019-12-31")).values("shown")) == 0


async def test_where_no_totals_are_kept_so_many_of_the_newest_are_counted(
    here: Served, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "COUNTED", 3)
    agent, browser = await here.agent("ada"), await here.browser("ada")
    await store_at(agent, database, "2026-03-30T10:00:00Z", 1)
    await store_at(agent, database, "2026-04-02T10:00:00Z", 2)
    for asked in ("verification=unverified", "stored_since=2026-01-01"):
        assert list(await bars(browser, asked)) == ["2026-03-30: 1", "2026-04-02: 2"]
        assert "there are more" not in (await browser.get(f"{TIMELINE}?{asked}")).text, "these are all"
    await store_at(agent, database, "2026-03-30T10:00:00Z", 1)
    for asked in ("verification=unverified", "stored_since=2026-01-01"):
        assert list(await bars(browser, asked)) == ["2026-03-30: 1", "2026-04-02: 2"], "the newest"
        assert "there are more" in (await browser.get(f"{TIMELINE}?{asked}")).text
    assert list(await bars(browser)) == ["2026-03-30: 2", "2026-04-02: 2"], "totals are kept of it"
