"""People write memories on the page, and correct what is said about one; each change is audited."""

import pytest

from tests.gateway.ui.conftest import Served

pytestmark = [pytest.mark.anyio, pytest.mark.promise("OP-12")]

NEW = "/ui/memories/new"
LIST = "/ui/memories"


async def test_a_memory_is_written_once_with_all_that_is_said_of_it(here: Served) -> None:
    agent, browser = await here.agent("ada"), await here.browser("ada")
    listed = await browser.get(LIST)
    assert NEW in listed.reader.links
    page = await browser.get(NEW)
    said = {
        "sector": "procedural",
        "speaker": "Bea",
        "occurred_at": "2026-01-31",
        "thread": "handbook",
        "position": "3",
    }
    said |= {"project": "rover", "confidence": "0.5", "valid_from": "2026-01-01", "new_tags": "tea, green tea"}
    for _ in range(2):
        stored = await browser.send(page, LIST, content="Boil the water.\r\nThen wait.", **said)
        assert (stored.status, "The memory is stored." in stored.text) == (200, True)
    (memory,) = (await agent.call("list_recent_memories", project="*", detail="full"))["memories"]
    assert stored.path == f"{LIST}/{memory['id']}"
    assert memory["content"] == "Boil the water.\nThen wait."
    assert {name: memory[name] for name in ("sector", "sector_source", "source", "created_by", "partition")} == {
        "sector": "procedural",
        "sector_source": "manual",
        "source": "explicit",
        "created_by": "ada",
        "partition": "trusted",
    }
    assert (memory["tags"], memory["position"], memory["confidence"]) == (["tea", "green tea"], 3, 0.5)


async def test_what_is_wrong_in_a_new_memory_is_said_and_nothing_typed_is_lost(here: Served) -> None:
    browser = await here.browser("ada")
    page = await browser.get(NEW)
    refused = await browser.send(page, LIST, content="Tea is green", occurred_at="some day", speaker="Bea")
    assert (refused.status, "occurred_at" in refused.text, "Tea is green" in refused.text) == (400, True, True)
    fields = refused.form(LIST).fields
    assert (fields["speaker"], fields["occurred_at"]) == ("Bea", "some day")
    stored = await browser.send(refused, LIST, content="Tea is green", occurred_at="2026-01-31")
    assert "The memory is stored." in stored.text
    assert NEW not in (await (await here.browser("reader")).get(LIST)).reader.links
    scout = await here.browser("researcher")
    own = await scout.send(await scout.get(NEW), LIST, content="The web says that tea is blue")
    assert ("The memory is stored." in own.text, "untrusted" in own.text) == (True, True), (
        "what an untrusted visitor writes is kept apart, as ever"
    )


async def test_what_is_said_of_a_memory_is_corrected_and_the_trail_has_it(here: Served) -> None:
    agent, browser = await here.agent("ada"), await here.browser("ada")
    tags = ["a, with comma", "old"]
    told = {"speaker": "Bea", "thread": "t1", "confidence": 0.25}
    memory_id = (await agent.store("The office is in Porto", tags=tags, **told))["id"]
    path = f"{LIST}/{memory_id}"
    page = await browser.get(path)
    same = await browser.send(page, f"{path}/edit", keep_tag=tags)
    assert (same.status, "nothing was changed" in same.text) == (400, True)
    changes = {"speaker": "", "thread": "t2", "sector": "episodic", "new_tags": "new", "keep_tag": ["a, with comma"]}
    done = await browser.send(page, f"{path}/edit", **changes)
    assert "The memory is changed." in done.text
    memory = (await agent.call("get_memory", memory_id=memory_id, detail="full"))["memory"]
    assert (memory["speaker"], memory["thread"], memory["sector"]) == (None, "t2", "episodic")
    assert (memory["tags"], memory["confidence"]) == (["a, with comma", "new"], 0.25)
    (entry,) = (await agent.call("audit", target=memory_id, action="update"))["entries"]
    assert (entry["actor"], entry["new"]["sector"], entry["new"]["cleared"]) == ("ada", "episodic", ["speaker"])

    kept = {"keep_tag": memory["tags"], "sector": "episodic"}
    wrong = await browser.send(done, f"{path}/edit", **kept, valid_from="2026-02-01", valid_until="2025-01-01")
    assert "valid_until" in wrong.text
    assert (wrong.status, wrong.form(f"{path}/edit").fields["valid_from"]) == (400, "2026-02-01")
    empty = await browser.send(done, f"{path}/edit", **kept, confidence="")
    assert (empty.status, "confidence cannot be empty" in empty.text) == (400, True)


@pytest.mark.promise("TP-29")
async def test_a_correction_does_not_undo_what_somebody_else_has_corrected(here: Served) -> None:
    agent, browser = await here.agent("ada"), await here.browser("ada")
    memory_id = (await agent.store("The office is in Porto", speaker="Bea"))["id"]
    path = f"{LIST}/{memory_id}"
    page = await browser.get(path)
    await agent.call("update_memory", memory_id=memory_id, speaker="Cay")
    late = await browser.send(page, f"{path}/edit", thread="t2")
    assert (late.status, "speaker changed since" in late.text) == (409, True)
    assert late.form(f"{path}/edit").fields["speaker"] == "Cay"
    unnamed = await browser.send(page, f"{path}/edit", thread="t2", seen="")
    assert unnamed.status == 400
    assert "changed" in (await browser.send(late, f"{path}/edit", thread="t2")).text
    memory = (await agent.call("get_memory", memory_id=memory_id, detail="full"))["memory"]
    assert (memory["speaker"], memory["thread"]) == ("Cay", "t2")


async def test_fields_for_a_project_offer_those_that_there_are(here: Served) -> None:
    browser = await here.browser("ada")
    await (await here.agent("ada")).store("of the rover", project='ro"ver')
    await (await here.agent("researcher")).store("of the zebra", project="zebra")
    options = await browser.get("/ui/projects")
    assert [given["value"] for tag, given in options.reader.elements if tag == "option"] == ['ro"ver', "zebra"]
    for path in (LIST, NEW, "/ui/inbox", "/ui/tokens"):
        elements = (await browser.get(path)).reader.elements
        lists = [given for tag, given in elements if tag == "datalist"]
        assert [given["hx-get"] for given in lists] == ["/ui/projects"], path
        fields = [given for tag, given in elements if tag == "input" and given.get("name") == "project"]
        assert {given.get("list") for given in fields} == {lists[0]["id"]}, path
