"""Of two that contradict each other a person keeps one or both, and every correction is undone from its result."""

import pytest

from engramq.workers.memories import contradictions
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

LIST = "/ui/memories"


@pytest.mark.parametrize(
    ("keep", "left"), [("later", ["December"]), ("earlier", ["August"]), ("both", ["December", "August"])]
)
async def test_of_two_that_contradict_each_other_one_is_kept_or_both(
    agent: Agent, browser: Browser, keep: str, left: list[str]
) -> None:
    for month in ("August", "December"):
        await agent.store(f"The lease of the office ends in {month}", project="office")
    page = await browser.get("/ui/contradictions", project="office")
    assert "December" in page.text
    done = await browser.send(page, "/ui/contradictions", keep=keep)
    assert "Nothing was seen to disagree." in done.text
    listed = (await agent.call("list_recent_memories", project="office"))["memories"]
    assert [memory["content"].rsplit(" ", 1)[1] for memory in listed] == left
    if keep != "both":
        (action,) = [form.action for form in done.reader.forms if form.action.endswith("/restore")]
        assert "The memory is back." in (await browser.send(done, action)).text
        assert len((await agent.call("list_contradictions", project="office"))["pairs"]) == 1
    for odd in ("../consent/x?", "", "x"):
        foreign = await browser.get("/ui/contradictions", replaced=odd)
        assert [form.action for form in foreign.reader.forms if form.action.endswith("/restore")] == []
    refused = await browser.send(page, "/ui/contradictions", keep="neither")
    assert (refused.status, "no decision" in refused.text) == (400, True)


async def test_an_edit_is_undone_from_its_result(agent: Agent, browser: Browser) -> None:
    old = (await agent.store("The port is 80"))["id"]
    done = await browser.send(await browser.get(f"{LIST}/{old}"), f"{LIST}/{old}/reword", content="The port is 443.")
    new = done.path.removeprefix(f"{LIST}/")
    undone = await browser.send(done, f"{LIST}/{old}/restore")
    assert (undone.path, "The memory is back." in undone.text) == (f"{LIST}/{old}", True)
    listed = (await agent.call("list_recent_memories"))["memories"]
    assert [memory["id"] for memory in listed] == [old], "the new words stand no longer"
    assert (await agent.call("get_memory", memory_id=new))["memory"]["state"] == "archived"

    done = await browser.send(undone, f"{LIST}/{old}/reword", content="The port is 8080.")
    newer = done.path.removeprefix(f"{LIST}/")
    third = await agent.store("The port is 9090")
    await agent.call("supersede_memory", old_memory_id=newer, new_memory_id=third["id"])
    refused = await browser.send(done, f"{LIST}/{old}/restore")
    assert (refused.status, "changed again since" in refused.text) == (409, True)
    assert [memory["id"] for memory in (await agent.call("list_recent_memories"))["memories"]] == [third["id"]]


async def test_every_correction_is_undone_from_its_result_or_offers_nothing(agent: Agent, browser: Browser) -> None:
    first, second = [(await agent.store(f"Fact {number}", tags=["old"]))["id"] for number in "12"]
    address = f"{LIST}/{first}"
    for action, fields, undo in (
        ("forget", {}, "restore"),
        ("edit", {"confidence": "0.25", "new_tags": "tea", "position": "3"}, "set_back"),
        ("verify", {"verification": "rejected"}, "verify"),
    ):
        before = (await agent.call("get_memory", memory_id=first, detail="full"))["memory"]
        done = await browser.send(await browser.get(address), f"{address}/{action}", **fields)
        assert (action, "Undo " in done.reader.words) == (action, True)
        way = next(form for form in done.reader.forms if form.action == f"{address}/{undo}")
        await browser.send(done, way.action)
        after = (await agent.call("get_memory", memory_id=first, detail="full"))["memory"]
        same = ("state", "confidence", "tags", "position", "verification")
        assert (action, [after.get(name) for name in same]) == (action, [before.get(name) for name in same])
    done = await browser.send(await browser.get(address), f"{address}/edit", speaker="Bea", confidence="0.5")
    assert "Undo " not in done.reader.words, "the audit log holds no words that would come back"
    done = await browser.send(await browser.get(address), f"{address}/replace", new_memory_id=second)
    assert done.path == f"{LIST}/{second}"
    await browser.send(done, f"{address}/restore")
    listed = (await agent.call("list_recent_memories"))["memories"]
    assert {memory["id"] for memory in listed} == {first, second}, "both hold, as before"
    assert "Undo " not in (await browser.get(f"{LIST}/{second}", done="superseded")).reader.words


async def test_a_page_without_contradictions_looks_further_by_itself_but_not_for_ever(
    here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contradictions, "TRANSACTIONS", 1)
    agent, browser = await here.agent("ada"), await here.browser("ada")
    for month in ("August", "December"):
        await agent.store(f"The lease of the office ends in {month}")
    for number in range(contradictions.LOOKED_UP_TOGETHER):
        await agent.store(f"Note {number}")
    first = await browser.get("/ui/contradictions")
    assert ("there are more to look at" in first.text, _next_looks(first)) == (True, [1])
    assert "The newest memories do not disagree." in (await browser.get("/ui/more")).text
    (address,) = [link for link in first.reader.links if "cursor=" in link]
    second = await browser.get(address)
    assert ("August" in second.text, "December" in second.text, _next_looks(second)) == (True, True, [])
    for looks, more in (("29", [30]), ("30", []), ("9" * 40, []), ("x", [1])):
        assert (looks, _next_looks(await browser.get("/ui/contradictions", looks=looks))) == (looks, more)


def _next_looks(page: Shown) -> list[int]:
    addresses = [given["hx-get"] for _, given in page.reader.elements if "looks=" in given.get("hx-get", "")]
    return [int(address.rsplit("=", 1)[1]) for address in addresses]
