"""What the page of a memory names beside it: the list that leads to it, and other memories."""

import anyio
import pytest

from tests.deploy.helpers import BOUND_S
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")


def back_of(page: Shown) -> str:
    """Return where the page of a memory leads back to."""
    crumb = page.reader.elements.index(("p", {"class": "crumbs"}))
    return page.reader.elements[crumb + 1][1]["href"]


async def test_a_memory_leads_back_to_the_list_it_was_opened_in(agent: Agent, browser: Browser) -> None:
    place = f"/ui/memories/{(await agent.store('Ada drinks tea'))['id']}"
    for before, back in (
        (f"{browser.origin}/ui/memories?q=tea&state=archived", "/ui/memories?q=tea&state=archived"),
        (f"{browser.origin}/ui/inbox", "/ui/inbox"),
        (f"{browser.origin}{place}", "/ui/memories"),
        ("https://example.org/ui/inbox?x", "/ui/memories"),
        ("http://[", "/ui/memories"),
        ("", "/ui/memories"),
    ):
        browser.client.headers["referer"] = before
        assert back_of(await browser.get(place)) == back


async def test_a_memory_leads_back_to_its_list_after_actions_too(agent: Agent, browser: Browser) -> None:
    place = f"/ui/memories/{(await agent.store('Ada drinks tea'))['id']}"
    listed = "/ui/memories?q=tea&project=a+b"
    browser.client.headers["referer"] = f"{browser.origin}{listed}"
    page = await browser.get(place)
    browser.client.headers["referer"] = f"{browser.origin}{place}"
    for action, values in (
        ("forget", {}),
        ("restore", {}),
        ("edit", {"seen": "another", "project": "x"}),
        ("reword", {"content": "Ada drinks oolong"}),
    ):
        page = await browser.send(page, f"{place}/{action}", **values)
        assert (action, back_of(page)) == (action, listed)
    for strange in ("https://example.org/ui/inbox", "//example.org/ui/inbox", "/ui/../x", "javascript:alert(1)"):
        assert back_of(await browser.get(place, before=strange)) == "/ui/memories"


async def test_only_trusted_memories_are_previewed_without_their_marks(here: Served, browser: Browser) -> None:
    for writer, said in (
        ("ada", "The pot is U+200B red supports"),
        ("researcher", "The **pot** is U+200B red untrusted"),
    ):
        agent = await here.agent(writer)
        memory, other = [(await agent.store(text))["id"] for text in ("Tea boils", "The **pot** is\u200b red")]
        await agent.call("connect", source=memory, target=other, relation="supports")
        page = await browser.get(f"/ui/memories/{memory}")
        assert page.text.count(said) == 2, "among what is related, and in its links"


async def test_a_memory_says_in_whole_numbers_how_much_it_helped(agent: Agent, browser: Browser) -> None:
    memory = (await agent.store("Ada drinks tea"))["id"]
    for _time in range(2):
        await agent.call("record_outcome", memory_ids=[memory], signal=0.9)
    await agent.call("search_memories", query="Ada drinks tea")
    place = f"/ui/memories/{memory}"
    with anyio.fail_after(BOUND_S):
        while "Shown in" not in (page := (await browser.get(place)).text):  # it is counted after the reply
            pass
    assert "helped 2, misled 0" in page
