"""Words are corrected, many memories changed at once, wishes ended, and what changed since the last look is shown."""

import json

import pytest

from engramq.gateway.service import Call, Service, ToolReply
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import uuid7
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served
from tests.gateway.ui.test_editing import refuse_calls
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

LIST = "/ui/memories"
CHANGES = "/ui/changes"


async def test_new_words_supersede_with_all_that_is_said_and_audited(agent: Agent, browser: Browser) -> None:
    said = {"speaker": "Bea", "project": "rover", "tags": ["port", "a, b"], "metadata": {"from": "wiki"}, "position": 0}
    said |= {"evidence": [{"path": "deploy/proxy.conf", "lines": "3-9"}]}
    stored = await agent.call("store_memory", content="The port is 80", sector="procedural", thread="ops", **said)
    old_id = stored["stored"]["id"]
    page = await browser.get(f"{LIST}/{old_id}")
    done = await browser.send(page, f"{LIST}/{old_id}/reword", content="The port is 443.\r\nAlways.")
    assert (done.status, "supersede the old ones" in done.text) == (200, True)
    new_id = done.path.removeprefix(f"{LIST}/")
    new = (await agent.call("get_memory", memory_id=new_id, detail="full"))["memory"]
    assert new["content"] == "The port is 443.\nAlways."
    assert {name: new[name] for name in said} == said
    assert (new["sector"], new["thread"], new["supersedes"]) == ("procedural", "ops", old_id)
    entries = (await agent.call("audit", target=old_id))["entries"]
    assert [(entry["action"], entry["actor"]) for entry in entries] == [("supersede", "ada")]
    again = await browser.send(page, f"{LIST}/{old_id}/reword", content="The port is 443.\r\nAlways.")
    assert again.path == done.path, "a form that is sent twice changes once"


async def test_new_words_cite_no_memory_that_was_erased(agent: Agent, browser: Browser) -> None:
    grounds = [(await agent.store(content))["id"] for content in ("The proxy listens", "The firewall is open")]
    old = await agent.store("The port is 80", evidence=[{"memory_id": ground} for ground in grounds])
    await agent.call("forget_memory", memory_id=grounds[0], erase=True)
    page = await browser.get(f"{LIST}/{old['id']}")
    done = await browser.send(page, f"{LIST}/{old['id']}/reword", content="The port is 443")
    new = (await agent.call("get_memory", memory_id=done.path.removeprefix(f"{LIST}/"), detail="full"))["memory"]
    assert [cited["memory_id"] for cited in new["evidence"]] == grounds[1:]


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("store_memory", FaultCode.INTERNAL),
        ("supersede_memory", FaultCode.OVERLOADED),
        ("supersede_memory", FaultCode.RATE_LIMITED),
        ("supersede_memory", FaultCode.INTERNAL),
    ],
)
async def test_new_words_that_are_sent_again_after_a_refusal_are_there_once(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch, tool: str, code: FaultCode
) -> None:
    path = f"{LIST}/{(await agent.store('The port is 80'))['id']}"
    page = await browser.get(path)
    with monkeypatch.context() as meanwhile:
        refuse_calls(meanwhile, tool, code)
        refused = await browser.send(page, f"{path}/reword", content="The port is 443")
    assert (refused.status, "The port is 443" in refused.text) == (code.http_status, True)
    if code is not FaultCode.INTERNAL:  # of which nobody knows whether it was done
        kept = (await agent.call("list_recent_memories", project="*"))["memories"]
        assert [memory["content"] for memory in kept] == ["The port is 80"]
    done = await browser.send(refused, f"{path}/reword", content="The port is 443")
    assert (done.status, done.path == path) == (200, False)
    kept = (await agent.call("list_recent_memories", project="*"))["memories"]
    assert [memory["content"] for memory in kept] == ["The port is 443"]


def store_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer every store from now on as one that takes longer than its caller waits."""
    carried_out = Service.call

    async def late(service: Service, call: Call) -> ToolReply:
        reply = await carried_out(service, call)
        if call.tool.name != "store_memory":
            return reply
        body = {"status": "pending", "command_id": uuid7()}
        return ToolReply(body, json.dumps(body), is_error=False)

    monkeypatch.setattr(Service, "call", late)


async def reword_late(browser: Browser, page: Shown, path: str, monkeypatch: pytest.MonkeyPatch, words: str) -> Shown:
    """Send new words whose store takes longer than the page waits."""
    with monkeypatch.context() as meanwhile:
        store_late(meanwhile)
        return await browser.send(page, f"{path}/reword", content=words)


async def contents_of(agent: Agent) -> list[str]:
    return [memory["content"] for memory in (await agent.call("list_recent_memories", project="*"))["memories"]]


async def test_new_words_that_are_stored_late_supersede_once_they_are_sent_again(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{LIST}/{(await agent.store('The port is 80'))['id']}"
    page = await browser.get(path)
    waits = await reword_late(browser, page, path, monkeypatch, "The port is 443")
    assert (waits.status, "The old ones still stand." in waits.text) == (503, True)
    done = await browser.send(waits, f"{path}/reword", content="The port is 443")
    assert (done.status, done.path == path) == (200, False)
    assert await contents_of(agent) == ["The port is 443"]


async def test_words_that_are_corrected_while_they_are_stored_late_leave_the_last_ones_alone(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"{LIST}/{(await agent.store('The port is 80'))['id']}"
    page = await browser.get(path)
    for words in ("The port is 443", "The port is 4443"):
        page = await reword_late(browser, page, path, monkeypatch, words)
        assert (page.status, words in page.text) == (503, True)
    done = await browser.send(page, f"{path}/reword", content="The port is 8443")
    assert (done.status, done.path == path) == (200, False)
    assert await contents_of(agent) == ["The port is 8443"]


async def test_words_that_are_stored_late_are_there_once_though_the_memory_has_changed_meanwhile(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_id = (await agent.store("The port is 80"))["id"]
    path = f"{LIST}/{old_id}"
    page = await browser.get(path)
    page = await reword_late(browser, page, path, monkeypatch, "The port is 443")
    await agent.call("update_memory", memory_id=old_id, add_tags=["net"])
    told = await browser.send(page, f"{path}/reword", content="The port is 443")
    assert (told.status, "has changed since it was shown" in told.text) == (409, True)
    done = await browser.send(told, f"{path}/reword", content="The port is 443")
    assert (done.status, done.path == path) == (200, False)
    kept = (await agent.call("list_recent_memories", project="*"))["memories"]
    assert [(memory["content"], memory["tags"]) for memory in kept] == [("The port is 443", ["net"])]


async def test_words_sent_again_from_a_page_of_before_leave_those_that_replaced_them(
    agent: Agent, browser: Browser
) -> None:
    """The time at which it ends stays as it was given, so that the digest is the same once it is superseded."""
    path = f"{LIST}/{(await agent.store('The port is 80', valid_until='2100-01-01T00:00:00Z'))['id']}"
    page = await browser.get(path)
    await browser.send(page, f"{path}/reword", content="The port is 443")
    refused = await browser.send(page, f"{path}/reword", content="The port is 8443")
    assert (refused.status, "has changed since it was shown" in refused.text) == (409, True)
    assert await contents_of(agent) == ["The port is 443"]


async def test_late_words_that_have_their_place_meanwhile_are_replaced_by_the_last_ones(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_id = (await agent.store("The port is 80"))["id"]
    path = f"{LIST}/{old_id}"
    page = await browser.get(path)
    page = await reword_late(browser, page, path, monkeypatch, "The port is 443")
    (late,) = [
        memory["id"]
        for memory in (await agent.call("list_recent_memories", project="*"))["memories"]
        if memory["id"] != old_id
    ]
    carried_out = Service.call

    async def placed_before(service: Service, call: Call) -> ToolReply:
        if call.tool.name == "supersede_memory":
            monkeypatch.setattr(Service, "call", carried_out)
            await agent.call("supersede_memory", old_memory_id=old_id, new_memory_id=late)
        return await carried_out(service, call)

    monkeypatch.setattr(Service, "call", placed_before)
    done = await browser.send(page, f"{path}/reword", content="The port is 8443")
    assert (done.status, done.path == path) == (200, False)
    assert await contents_of(agent) == ["The port is 8443"]


async def test_of_two_who_edit_the_same_words_the_second_is_told_and_loses_nothing(here: Served) -> None:
    agent, ada, grace = await here.agent("ada"), await here.browser("ada"), await here.browser("grace")
    memory_id = (await agent.call("store_memory", content="The port is 80"))["stored"]["id"]
    place = f"{LIST}/{memory_id}"
    hers, other = await ada.get(place), await grace.get(place)
    assert (await ada.send(hers, f"{place}/reword", content="The port is 443")).status == 200
    late = await grace.send(other, f"{place}/reword", content="The port is 8443")
    assert late.status in (400, 409)
    kept = (await agent.call("list_recent_memories", project="*"))["memories"]
    assert [memory["content"] for memory in kept] == ["The port is 443"]
    same = await ada.get(place.replace(memory_id, kept[0]["id"]))
    unchanged = await ada.send(same, f"{same.path}/reword", content="The port is 443")
    assert (unchanged.status, "nothing was changed" in unchanged.text) == (400, True)
    long = await ada.send(same, f"{same.path}/reword", content="x" * 40_000)
    assert (long.status, "x" * 40_000 in long.text) == (400, True), "what was typed is not lost"


async def test_many_are_tagged_and_archived_and_the_filters_stay(here: Served, agent: Agent, browser: Browser) -> None:
    for number in range(3):
        await agent.call("store_memory", content=f"Fact {number}", project="rover")
    await agent.call("store_memory", content="Elsewhere")
    page = await browser.get(LIST, project="rover")
    action = f"{LIST}/many"
    tagged = await browser.send(
        page, action, verdict="tag", sure="tag", which="shown", new_tags="a, b", shown=page.values("shown")
    )
    assert (tagged.status, "3 memories are tagged." in tagged.text, "Elsewhere" in tagged.text) == (200, True, False)
    ticked = page.values("chosen")[:2]
    done = await browser.send(tagged, action, verdict="archive", sure="archive", which="chosen", chosen=ticked)
    assert "2 memories are archived." in done.text
    kept = (await agent.call("list_recent_memories", project="*", detail="full"))["memories"]
    assert [(memory["content"], memory["tags"]) for memory in kept] == [("Elsewhere", []), ("Fact 0", ["a", "b"])]
    wrong: tuple[tuple[str, list[str]], ...] = (("tag", ticked), ("archive", []), ("erase", ticked))
    for verdict, chosen in wrong:
        assert (await browser.send(done, action, verdict=verdict, chosen=chosen, new_tags="")).status == 400
    assert not (await (await here.browser("reader")).get(LIST)).has_form(action)


async def test_an_action_on_many_asks_first_and_is_taken_back_from_its_result(agent: Agent, browser: Browser) -> None:
    for content, project in (("Fact 0", "rover"), ("Fact 1", "rover"), ("Elsewhere", None)):
        await agent.store(content, project=project)
    page = await browser.get(LIST)
    action, every = f"{LIST}/many", {"which": "shown", "shown": page.values("shown")}
    asked = await browser.send(page, action, verdict="archive", **every)
    assert "Archive 3 memories?" in asked.text
    assert ("2 of project rover" in asked.text, "1 of no project" in asked.text) == (True, True)
    assert len(await agent.recent(project="*")) == 3, "nothing is done before the answer"
    done = await browser.send(
        asked, action, verdict="archive", sure="archive", which="chosen", chosen=asked.values("chosen")[:3]
    )
    assert ("3 memories are archived." in done.text, await agent.recent(project="*")) == (True, [])
    back = await browser.send(done, action, verdict="restore", sure="restore", chosen=done.values("chosen"))
    assert "3 memories are back." in back.text
    assert len(await agent.recent(project="*")) == 3


async def test_a_list_of_archived_ones_restores_many(agent: Agent, browser: Browser) -> None:
    for number in range(2):
        memory = await agent.store(f"Fact {number}")
        await agent.call("forget_memory", memory_id=memory["id"])
    page = await browser.get(LIST, state="archived")
    assert {"Restore", "Archive"}.intersection(page.text.split()) == {"Restore"}
    shown = page.values("shown")
    done = await browser.send(page, f"{LIST}/many", verdict="restore", sure="restore", which="shown", shown=shown)
    assert ("2 memories are back." in done.text, len(await agent.recent())) == (True, 2)


@pytest.mark.parametrize("had", ["a", "A"])
async def test_undo_takes_no_tag_off_what_had_it_before(agent: Agent, browser: Browser, had: str) -> None:
    await agent.store("Had it", tags=[had])
    await agent.store("Had none")
    page, action = await browser.get(LIST), f"{LIST}/many"
    sent = {"which": "shown", "shown": page.values("shown"), "new_tags": "a"}
    done = await browser.send(page, action, verdict="tag", sure="tag", **sent)
    assert "Undo: remove the tags of 1 memory" in done.text
    (undo,) = (form for form in done.reader.forms if form.fields.get("sure") == "untag")
    await browser.send(done, action, **{**undo.fields, "verdict": "untag"})
    kept = (await agent.call("list_recent_memories", detail="full"))["memories"]
    assert {memory["content"]: memory.get("tags") or [] for memory in kept} == {"Had it": [had], "Had none": []}


async def test_a_tag_in_other_letters_does_not_come_back_in_those_of_the_form(agent: Agent, browser: Browser) -> None:
    for content, tag in (("Written so", "tea"), ("Written otherwise", "Tea")):
        await agent.store(content, tags=[tag])
    page = await browser.get(LIST)
    sent = {"which": "shown", "shown": page.values("shown"), "new_tags": "tea"}
    done = await browser.send(page, f"{LIST}/many", verdict="untag", sure="untag", **sent)
    assert "2 memories are without these tags now." in done.text
    (undo,) = (form for form in done.reader.forms if form.fields.get("sure") == "tag")
    assert len(undo.fields["chosen"].split()) == 1


async def test_what_left_the_list_meanwhile_is_left_alone(agent: Agent, browser: Browser) -> None:
    ids = [(await agent.store(f"Fact {number}", project="rover"))["id"] for number in range(3)]
    page = await browser.get(LIST, project="rover")
    await agent.call("update_memory", memory_id=ids[0], project="other")
    asked = await browser.send(page, f"{LIST}/many", verdict="archive", which="shown", shown=page.values("shown"))
    assert "Archive 2 memories?" in asked.text
    assert "1 more stand in this list no longer and are left alone." in asked.text


async def test_tags_are_removed_from_many(agent: Agent, browser: Browser) -> None:
    await agent.call("store_memory", content="Fact", tags=["a", "b", "c"])
    page = await browser.get(LIST)
    action = f"{LIST}/many"
    done = await browser.send(
        page, action, verdict="untag", sure="untag", which="shown", new_tags="a, c", shown=page.values("shown")
    )
    assert "1 memory is without these tags now." in done.text
    (kept,) = (await agent.call("list_recent_memories", detail="full"))["memories"]
    assert kept["tags"] == ["b"]


@pytest.mark.promise("PV-2")
async def test_many_are_shared_as_they_were_seen(agent: Agent, browser: Browser) -> None:
    contents = ("Seen", "Changed meanwhile", "Long " + "x" * 400)
    ids = [(await agent.store(content, visibility="private"))["id"] for content in contents]
    page = await browser.get(LIST)
    await agent.call("update_memory", memory_id=ids[1], add_tags=["new"])
    done = await browser.send(
        page, f"{LIST}/many", verdict="share", sure="share", which="shown", shown=page.values("shown")
    )
    assert "1 memory is shared." in done.text
    assert "1 not: Not all of it was shown" in done.text
    kept = {memory["id"]: memory.get("visibility") for memory in (await agent.call("list_recent_memories"))["memories"]}
    assert [kept[each] for each in ids] == ["shared", "private", "private"]


async def test_many_are_promoted_from_a_list_as_they_were_seen(here: Served) -> None:
    agent, browser = await here.agent("researcher"), await here.browser("ada")
    for content in ("Seen\U000e0041", "Long " + "x" * 400):
        await agent.store(content)
    await agent.store("Short", metadata={"note": "obey me"})
    await agent.store("Said", thread="kitchen", source_type="research")
    for memory in (await agent.call("list_recent_memories", partitions=["untrusted"]))["memories"]:
        await (await here.agent("ada")).call("verify_memory", memory_id=memory["id"], verification="verified")
    page = await browser.get(LIST, partition="untrusted")
    assert "U+E0041" in page.text, "what is promoted from here hides nothing"
    done = await browser.send(
        page, f"{LIST}/many", verdict="promote", sure="promote", which="shown", shown=page.values("shown")
    )
    assert ("kitchen" in page.text, "research" in page.text) == (True, True)
    assert "2 memories are trusted now." in done.text
    assert "2 not: Not all of it was shown" in done.text


async def test_the_inbox_archives_many(here: Served) -> None:
    agent, browser = await here.agent("researcher"), await here.browser("ada")
    for number in range(2):
        await agent.call("store_memory", content=f"Rumour {number}")
    page = await browser.get("/ui/inbox")
    done = await browser.send(
        page, "/ui/inbox", verdict="archive", sure="archive", which="shown", shown=page.values("shown")
    )
    assert ("2 memories are archived." in done.text, "Nothing waits." in done.text) == (True, True)


async def test_a_standing_wish_is_ended_by_a_button(agent: Agent, browser: Browser) -> None:
    """From issue 28."""
    wish = (await agent.call("store_memory", content="Always answer in metric units", standing=True))["stored"]["id"]
    page = await browser.get("/ui/standing")
    assert "metric units" in page.text
    done = await browser.send(page, f"{LIST}/{wish}/end_wish")
    assert (done.status, done.has_form(f"{LIST}/{wish}/end_wish")) == (200, False)
    assert "metric units" not in (await browser.get("/ui/standing")).text
    assert (await agent.call("list_standing"))["count"] == 0


async def test_what_changed_since_the_last_look_is_shown_until_it_is_said_to_be_seen(
    here: Served, agent: Agent, browser: Browser
) -> None:
    first = (await agent.call("store_memory", content="First fact"))["stored"]["id"]
    await agent.call("update_memory", memory_id=first, speaker="Bea")
    for _ in range(2):
        page = await browser.get(CHANGES)
        assert ("First fact" in page.text, "updated" in page.text) == (True, True)
    await agent.call("store_memory", content="Second fact")
    after = await browser.send(page, CHANGES)
    assert ("First fact" in after.text, "Second fact" in after.text) == (False, True), "stored since that page was made"
    assert "First fact" in (await (await here.browser("reader")).get(CHANGES)).text, "each has their own"
    assert (await browser.get(CHANGES, since="whenever")).status == 400


async def test_filters_stay_over_a_sign_in(here: Served) -> None:
    stranger = await here.browser()
    asked = await stranger.get(LIST, project="rover", tags="a, b")
    signed_in = await stranger.send(asked, "/ui/sign-in", token=here.secrets["ada"])
    assert (signed_in.path, dict(signed_in.response.url.params)) == (LIST, {"project": "rover", "tags": "a, b"})
    for foreign in ("//evil.example", "/ui/../mcp", "https://evil.example/ui", "/ui?next=\r\nx: y"):
        page = await (await here.browser()).get("/ui/sign-in", next=foreign)
        assert page.form("/ui/sign-in").fields["next"] == "/ui", json.dumps(foreign)


async def _done_to_many(browser: Browser, page: Shown, verdict: str, **words: str) -> Shown:
    """Send an action on all that a list shows, and say yes to its question."""
    asked = await browser.send(
        page, f"{LIST}/many", which="shown", shown=page.values("shown"), verdict=verdict, **words
    )
    assert "data-question" in asked.response.text
    return await browser.send(asked, f"{LIST}/many", chosen=asked.values("chosen"), verdict=verdict)


@pytest.mark.parametrize(
    ("verdict", "words"), [("archive", {}), ("tag", {"new_tags": 'old; "net", port'}), ("share", {})]
)
async def test_an_action_on_many_is_one_entry_of_the_audit_and_taken_back_from_there(
    agent: Agent, browser: Browser, verdict: str, words: dict[str, str]
) -> None:
    """Finding N1 of newcomers: 25 memories were archived without a way back."""
    visibility = {"visibility": "private"} if verdict == "share" else {}
    for number in range(3):
        await agent.store(f"The port of bakery {number} is 80", project="bakery", tags=["net"], **visibility)

    async def look() -> list[tuple[str, list[str], str]]:
        listed = await agent.call("list_recent_memories", project="*", states=["active", "archived"], detail="full")
        return [(one["state"], one["tags"], one.get("visibility", "")) for one in listed["memories"]]

    before = await look()
    await _done_to_many(browser, await browser.get(LIST, project="bakery"), verdict, **words)
    changed = await look()
    assert all(now != was for now, was in zip(changed, before, strict=True))
    audit = await browser.get("/ui/audit")
    (action,) = {form.action for form in audit.reader.forms if "/ui/audit/together/" in form.action}
    assert ": 3 memories" in audit.text, audit.text[:1500]
    asked = await browser.send(audit, action)
    assert "3 memories? 3 of project bakery ." in asked.text
    assert await look() == changed, "it asks first"
    done = await browser.send(asked, action)
    assert "3 memories are as before." in done.text
    assert await look() == before


async def test_what_changed_since_is_left_alone_when_an_action_on_many_is_taken_back(
    agent: Agent, browser: Browser
) -> None:
    ids = [(await agent.store(f"The port of bakery {number} is 80"))["id"] for number in range(3)]
    await _done_to_many(browser, await browser.get(LIST), "archive")
    await agent.call("restore_memory", memory_id=ids[0])
    audit = await browser.get("/ui/audit")
    (action,) = {form.action for form in audit.reader.forms if "/ui/audit/together/" in form.action}
    asked = await browser.send(audit, action)
    assert "2 memories?" in asked.text
    assert "1 more stand" in asked.text
    assert "2 memories are as before." in (await browser.send(asked, action)).text
    audit.form(action).fields["since"] = audit.form(action).fields["until"] = "2020-01-01T00:00:00Z"
    gone = await browser.send(audit, action)
    assert (gone.status, "nothing of it that can be taken back" in gone.text) == (400, True)
    audit.form(action).fields["since"] = ""
    gone = await browser.send(audit, action)
    assert (gone.status, "does not say when it was" in gone.text) == (400, True)


async def test_a_later_verdict_stays_when_promotions_are_taken_back(agent: Agent, browser: Browser) -> None:
    ids = [(await agent.store(f"Bakery {number} is open", source_type="web"))["id"] for number in range(2)]
    await _done_to_many(browser, await browser.get(LIST, partition="untrusted"), "promote")
    await agent.call("verify_memory", memory_id=ids[0], verification="approved")
    audit = await browser.get("/ui/audit")
    (action,) = {form.action for form in audit.reader.forms if "/ui/audit/together/" in form.action}
    asked = await browser.send(audit, action)
    assert "2 memories?" in asked.text
    assert "2 memories are as before." in (await browser.send(asked, action)).text
    read = [(await agent.call("get_memory", memory_id=one))["memory"] for one in ids]
    assert [one.get("verification") for one in read] == ["approved", None]
    assert {one["state"] for one in read} == {"archived"}


async def test_the_audit_offers_no_way_back_from_what_is_back_or_erased(agent: Agent, browser: Browser) -> None:
    """From findings of newcomers: Restore stood beside memories that were restored, and erased."""
    back, erased, hidden = [(await agent.store(f"Fact {number}"))["id"] for number in range(3)]
    for memory_id in (back, erased, hidden):
        await agent.call("forget_memory", memory_id=memory_id)
        await agent.call("restore_memory", memory_id=memory_id)
    await agent.call("forget_memory", memory_id=hidden)
    await agent.call("forget_memory", memory_id=erased, erase=True)
    for address in ("/ui/audit", "/ui/changes"):
        page = await browser.get(address)
        ways = [form.action for form in page.reader.forms if form.action.endswith("/restore")]
        assert (address, ways) == (address, [f"{LIST}/{hidden}/restore"])
