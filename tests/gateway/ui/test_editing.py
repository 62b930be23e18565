"""People write memories on the page, and correct what is said about one; each change is audited."""

import json

import pytest

from engramq.gateway.service import Call, Service, ToolReply
from engramq.gateway.ui.request import FORM_BYTES
from engramq.schemas import limits
from engramq.schemas.codec import fault_body
from engramq.schemas.faults import FaultCode, refuse
from tests.gateway.ui.browsing import Browser
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

NEW = "/ui/memories/new"
LIST = "/ui/memories"


async def test_a_memory_is_written_once_with_all_that_is_said_of_it(agent: Agent, browser: Browser) -> None:
    assert NEW in (await browser.get(LIST)).reader.links
    page = await browser.get(NEW)
    said = {
        "sector": "procedural", "speaker": "Bea", "occurred_at": "2026-01-31", "thread": "handbook", "position": "3",
    }  # fmt: skip
    said |= {"project": "rover", "confidence": "0.5", "valid_from": "2026-01-01", "new_tags": "tea, green tea"}
    for _ in range(2):
        stored = await browser.send(page, LIST, content="Boil the water.\r\nThen wait.", **said)
        assert (stored.status, "The memory is stored." in stored.text) == (200, True)
    (memory,) = (await agent.call("list_recent_memories", project="*", detail="full"))["memories"]
    assert stored.path == f"{LIST}/{memory['id']}"
    assert memory["content"] == "Boil the water.\nThen wait."
    assert {name: memory[name] for name in ("sector", "sector_source", "source", "created_by", "partition")} == {
        "sector": "procedural", "sector_source": "manual", "source": "explicit", "created_by": "ada",
        "partition": "trusted",
    }  # fmt: skip
    assert (memory["tags"], memory["position"], memory["confidence"]) == (["tea", "green tea"], 3, 0.5)


async def test_what_is_wrong_in_a_new_memory_is_said_and_nothing_typed_is_lost(here: Served, browser: Browser) -> None:
    page = await browser.get(NEW)
    refused = await browser.send(page, LIST, content="Tea is green", occurred_at="some day", speaker="Bea")
    assert (refused.status, "occurred_at" in refused.text, "Tea is green" in refused.text) == (400, True, True)
    assert "named parameter" not in refused.text, "the reader of a page has no tools"
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


def refuse_calls(monkeypatch: pytest.MonkeyPatch, tool: str, code: FaultCode) -> None:
    """Refuse every call of a tool from now on, as if it could not be carried out."""
    carried_out = Service.call

    async def call(service: Service, call: Call) -> ToolReply:
        if call.tool.name != tool:
            return await carried_out(service, call)
        body = fault_body(refuse(code, "Not now.", retry_after_s=7.0).fault)
        return ToolReply(body, json.dumps(body), is_error=True)

    monkeypatch.setattr(Service, "call", call)


async def test_a_memory_may_be_as_long_as_its_field(agent: Agent, browser: Browser) -> None:
    long = "語" * limits.CONTENT_CHARS  # each is sent as nine bytes
    tags = [f"{number:02}{'語' * (limits.NAME_CHARS - 2)}" for number in range(limits.TAGS)]
    stored = await browser.send(await browser.get(NEW), LIST, content=long, new_tags=",".join(tags))
    assert (stored.status, "The memory is stored." in stored.text) == (200, True)
    memory_id = stored.path.removeprefix(f"{LIST}/")
    done = await browser.send(stored, f"{stored.path}/edit", keep_tag=tags, speaker="Bea")
    assert (done.status, "The memory is changed." in done.text) == (200, True)
    memory = (await agent.call("get_memory", memory_id=memory_id, detail="full", max_chars=200_000))["memory"]
    assert (memory["content"], sorted(memory["tags"]), memory.get("speaker")) == (long, tags, "Bea")


async def test_only_those_who_are_signed_in_send_long_forms(here: Served) -> None:
    stranger, own = await here.browser(), {"origin": "http://evil.example"}
    page = await stranger.get("/ui/sign-in")
    form = {**page.form("/ui/sign-in").fields, "content": "x" * FORM_BYTES}
    refused = await stranger.client.post(LIST, data=form, headers={"origin": stranger.origin})
    assert (refused.status_code, f"at most {FORM_BYTES} bytes" in refused.text) == (400, True)
    ada = await here.browser("ada")
    assert (await ada.send(await ada.get(NEW), LIST, own, content="x" * FORM_BYTES)).status == 403
    other = await ada.send(await ada.get("/ui/tokens"), "/ui/tokens", principal="x" * FORM_BYTES)
    assert (other.status, f"at most {FORM_BYTES} bytes" in other.text) == (400, True)


async def test_a_form_that_has_stored_other_words_is_shown_again_and_stores_these_too(
    agent: Agent, browser: Browser
) -> None:
    """Store, Back, edit, Store: the browser sends the key of the first time with other words."""
    page = await browser.get(NEW)
    assert (await browser.send(page, LIST, content="Tea is green")).status == 200
    again = await browser.send(page, LIST, content="Tea is black", speaker="Bea", new_tags="tea")
    assert (again.status, "was sent before" in again.text, "Tea is black" in again.text) == (422, True, True)
    assert (again.form(LIST).fields["speaker"], again.form(LIST).fields["new_tags"]) == ("Bea", "tea")
    assert (await browser.send(again, LIST, content="Tea is black")).status == 200
    memories = (await agent.call("list_recent_memories", detail="full"))["memories"]
    assert [(memory["content"], memory.get("speaker")) for memory in memories] == [
        ("Tea is black", "Bea"),
        ("Tea is green", None),
    ]


@pytest.mark.parametrize(
    "code",
    [FaultCode.RATE_LIMITED, FaultCode.QUOTA_EXCEEDED, FaultCode.OVERLOADED, FaultCode.UNAVAILABLE, FaultCode.INTERNAL],
)
async def test_nothing_typed_is_lost_by_any_refusal(
    browser: Browser, monkeypatch: pytest.MonkeyPatch, code: FaultCode
) -> None:
    page = await browser.get(NEW)
    with monkeypatch.context() as meanwhile:
        refuse_calls(meanwhile, "store_memory", code)
        refused = await browser.send(page, LIST, content="Tea is green", thread="t1", new_tags="tea")
    assert (refused.status, refused.response.headers["retry-after"]) == (code.http_status, "7")
    assert "Not now." in refused.text
    assert "Tea is green" in refused.text
    fields = refused.form(LIST).fields
    assert (fields["thread"], fields["new_tags"]) == ("t1", "tea")
    assert (fields["once"] == page.form(LIST).fields["once"]) == (code.http_status >= 500), "it may have been stored"
    stored = await browser.send(refused, LIST, content="Tea is green")
    assert "The memory is stored." in stored.text


async def test_what_is_said_of_a_memory_is_corrected_and_the_trail_has_it(agent: Agent, browser: Browser) -> None:
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
    assert (memory.get("speaker"), memory["thread"], memory["sector"]) == (None, "t2", "episodic")
    assert (memory["tags"], memory["confidence"]) == (["a, with comma", "new"], 0.25)
    (entry,) = (await agent.call("audit", target=memory_id, action="update"))["entries"]
    assert (entry["actor"], entry["new"]["sector"], entry["new"]["cleared"]) == ("ada", "episodic", ["speaker"])

    kept = {"keep_tag": memory["tags"], "sector": "episodic"}
    wrong = await browser.send(done, f"{path}/edit", **kept, valid_from="2026-02-01", valid_until="2025-01-01")
    assert "valid_until" in wrong.text
    assert (wrong.status, wrong.form(f"{path}/edit").fields["valid_from"]) == (400, "2026-02-01")
    empty = await browser.send(done, f"{path}/edit", **kept, confidence="")
    assert (empty.status, "confidence cannot be empty" in empty.text) == (400, True)


@pytest.mark.parametrize("tool", ["update_memory", "get_memory"])
@pytest.mark.parametrize("code", [FaultCode.RATE_LIMITED, FaultCode.FORBIDDEN, FaultCode.UNAVAILABLE])
async def test_no_refusal_loses_a_correction(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch, tool: str, code: FaultCode
) -> None:
    memory_id = (await agent.store("The office is in Porto", tags=["old", "tea"], speaker="Bea"))["id"]
    path = f"{LIST}/{memory_id}"
    page = await browser.get(path)
    with monkeypatch.context() as meanwhile:
        refuse_calls(meanwhile, tool, code)
        refused = await browser.send(page, f"{path}/edit", thread="t2", speaker="", keep_tag=["tea"], new_tags="new")
    assert (refused.status, "Not now." in refused.text) == (code.http_status, True)
    assert refused.values("keep_tag") == ["tea"]
    done = await browser.send(refused, f"{path}/edit", keep_tag=refused.values("keep_tag"))
    assert "The memory is changed." in done.text
    memory = (await agent.call("get_memory", memory_id=memory_id, detail="full"))["memory"]
    assert (memory["thread"], memory.get("speaker"), memory["tags"]) == ("t2", None, ["tea", "new"])


@pytest.mark.promise("TP-29")
async def test_a_correction_does_not_undo_what_somebody_else_has_corrected(agent: Agent, browser: Browser) -> None:
    memory_id = (await agent.store("The office is in Porto", speaker="Bea"))["id"]
    path = f"{LIST}/{memory_id}"
    page = await browser.get(path)
    await agent.call("update_memory", memory_id=memory_id, speaker="Cay")
    late = await browser.send(page, f"{path}/edit", thread="t2")
    assert (late.status, "speaker changed since" in late.text) == (409, True)
    fields = late.form(f"{path}/edit").fields
    assert (fields["speaker"], fields["thread"]) == ("Cay", "t2"), "what nobody else has changed is as it was typed"
    unnamed = await browser.send(page, f"{path}/edit", thread="t2", seen="")
    assert unnamed.status == 400
    assert "changed" in (await browser.send(late, f"{path}/edit")).text
    memory = (await agent.call("get_memory", memory_id=memory_id, detail="full"))["memory"]
    assert (memory.get("speaker"), memory["thread"]) == ("Cay", "t2")


async def test_fields_for_a_project_offer_those_that_there_are(here: Served, browser: Browser) -> None:
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


async def test_a_memory_that_another_replaces_says_so_and_can_be_restored(agent: Agent, browser: Browser) -> None:
    """From findings of newcomers: a replacement was told as new words that are stored."""
    old, new = await agent.store("The port is 8081"), await agent.store("Since May the port is 8082")
    place = f"{LIST}/{old['id']}"
    done = await browser.send(await browser.get(place), f"{place}/replace", new_memory_id=new["id"])
    assert (done.path, "One holds in the place of the other" in done.text) == (f"{LIST}/{new['id']}", True)
    await browser.send(await browser.get(place), f"{place}/restore")
    memory = (await agent.call("get_memory", memory_id=old["id"], detail="full"))["memory"]
    assert memory.get("superseded_by") is None
