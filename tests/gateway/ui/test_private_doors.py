"""What is private to somebody is in no answer of REST and on no page to anybody else of the namespace (PV-1)."""

import json
import re
from urllib.parse import urlsplit

import httpx
import pytest

from engramq.schemas.commands import TOOLS
from engramq.schemas.ids import uuid7
from engramq.workers.db.privacy import change_privacy
from tests.gateway.rest.requests import Rest
from tests.gateway.ui.conftest import Served
from tests.workers.tenants import doors

MARKER = re.compile(r"marker\d{4}")
OTHERS = ("grace", "keeper", "reader", "researcher")
PAGES = 60  # that are followed from the first one
KINDS = frozenset(
    {doors.MEMORY, doors.COMMAND, doors.EXTERNAL_ID, doors.CONTENT, doors.THREAD, doors.TAG, doors.PROJECT, doors.MINE}
    | {doors.KEY, doors.SESSION}
)


async def kept_to_author(here: Served) -> dict[str, str]:
    """Let ada keep something private of each kind, and act on it; return how it is named."""
    ada = await here.agent("ada")
    first = await ada.call(
        "store_memory", content="The heron saw marker0000", visibility="private", external_id="marker0001",
        thread="marker0002", tags=["marker0003"], project="marker0004", idempotency_key="marker0005", standing=True,
        speaker="marker0006",
    )  # fmt: skip
    kept = {"visibility": "private", "source_type": "research"}  # what would stand in the inbox
    other = (await ada.store("The heron is grey, says marker0007", **kept))["id"]
    await ada.store("The heron has 3 eggs, says marker0008", visibility="private")
    await ada.store("The heron has 4 eggs, says marker0009", visibility="private")  # which disagrees
    memory_id = first["stored"]["id"]
    shared = await ada.store("The pond has a heron")
    await ada.call("connect", source=memory_id, target=shared["id"], note="marker0010")
    await ada.call("update_memory", memory_id=memory_id, metadata={"marker0011": "marker0012"})
    await ada.call("verify_memory", memory_id=other, verification="verified", reason="marker0013")
    await ada.call("record_outcome", memory_ids=[memory_id], signal=1.0, reason="marker0014")
    await ada.call("search_memories", query="heron")
    return {
        doors.MEMORY: memory_id, doors.COMMAND: first["command_id"], doors.EXTERNAL_ID: "marker0001",
        doors.CONTENT: "The heron saw marker0000", doors.THREAD: "marker0002", doors.TAG: "marker0003",
        doors.PROJECT: "marker0004", doors.KEY: "marker0005", doors.SESSION: "marker0015", doors.MINE: shared["id"],
        "other": other, "shared": shared["id"],
    }  # fmt: skip


def leaked(told: str, asked: str, ids: set[str]) -> set[str]:
    """Return what of it is in an answer and was not in the question: markers, and ids of private memories."""
    return {word for word in {*MARKER.findall(told), *ids} if word in told and word not in asked}


@pytest.mark.promise("PV-1")
async def test_nothing_private_comes_by_rest(here: Served) -> None:
    things = await kept_to_author(here)
    ids = {things[doors.MEMORY], things["other"]}
    seen = []
    for name in OTHERS:
        rest = Rest(here.port, authorization=f"Bearer {here.secrets[name]}")
        async with rest.http:
            for tool in TOOLS:
                for probe in doors.probes_of(TOOLS[tool]):
                    if TOOLS[tool].write or not doors.kinds_in(probe) <= KINDS:
                        continue
                    arguments = doors.filled(probe, things | {doors.CONTENT: "heron"})
                    answer = await rest.call(tool, arguments)
                    if words := leaked(answer.text, json.dumps(arguments), ids):
                        seen.append(f"{name}: {tool} {arguments}: {words} in {answer.text[:300]}")
    assert seen == [], "\n".join(seen)


@pytest.mark.promise("PV-1")
async def test_nothing_private_is_on_a_page(here: Served) -> None:
    things = await kept_to_author(here)
    ids = {things[doors.MEMORY], things["other"]}
    named = [f"/ui/memories/{one}{more}" for one in (*ids, things["shared"]) for more in ("", "/edit")]
    named += [f"/ui/audit?target={one}" for one in ids]
    named += ["/ui/memories?q=heron", "/ui/inbox", "/ui/memories?project=*"]
    seen = []
    for name in OTHERS:
        browser = await here.browser(name)
        waiting, known = ["/ui", *named], set[str]()
        while waiting and len(known) < PAGES:
            path = waiting.pop(0)
            if path in known or path.startswith("/ui/static") or "sign" in path:
                continue
            known.add(path)
            shown = await browser.get(path)
            # The audit log counts for administrators what was done to what they do not see.
            counted = set[str]() if path.startswith(("/ui/audit", "/ui/changes")) else ids
            if words := leaked(shown.response.text, path, counted):
                seen.append(f"{name}: {path}: {words}")
            waiting += [link for link in shown.reader.links if urlsplit(link).path.startswith("/ui")]
        assert len(known) > len(named)
    assert seen == [], "\n".join(seen)
    own = await (await here.browser("ada")).get(f"/ui/memories/{things[doors.MEMORY]}")
    assert "marker0000" in own.text, "the words that are looked for are there"


@pytest.mark.promise("PV-1")
async def test_the_words_of_a_refusal_tell_nothing_of_what_is_private(here: Served) -> None:
    things = await kept_to_author(here)
    rest = Rest(here.port, authorization=f"Bearer {here.secrets['grace']}")
    async with rest.http:
        for tool in ("get_memory", "share_memory", "unshare_memory", "forget_memory"):
            told = [await _told(rest, tool, memory_id) for memory_id in (things[doors.MEMORY], uuid7())]
            assert told[0] == told[1], tool


async def _told(rest: Rest, tool: str, memory_id: str) -> tuple[int, str]:
    answer: httpx.Response = await rest.call(tool, {"memory_id": memory_id})
    body = {name: value for name, value in answer.json().items() if name != "command_id"}
    return answer.status_code, json.dumps(body).replace(memory_id, "ID")


@pytest.mark.promise("PV-1")
async def test_a_page_has_no_form_for_what_an_administrator_may_only_read(here: Served) -> None:
    await here.store.write("acme", lambda tx: change_privacy(tx, admins_read=True))
    things = await kept_to_author(here)
    own = await (await here.agent("grace")).store("The heron is mine", visibility="private")
    page = await here.browser("grace")
    assert (await page.get(f"/ui/memories/{own['id']}")).has_form(f"/ui/memories/{own['id']}/forget")
    for name in (doors.MEMORY, "other"):
        shown = await page.get(f"/ui/memories/{things[name]}")
        assert "It is private to another, who alone can change it." in shown.text
        assert not re.findall(rf'action="[^"]*{things[name]}/[^"]*"', shown.response.text)
    listed = (await page.get("/ui/memories")).response.text
    for name in ("chosen", "shown"):
        assert re.findall(rf'name="{name}"[^>]*value="([^".]*)', listed) == [own["id"], things["shared"]]
    inbox = (await page.get("/ui/inbox")).response.text
    assert things["other"] in inbox
    assert not re.findall(rf'(?:action|value)="[^"]*{things["other"]}[^"]*"', inbox)


@pytest.mark.promise("PV-2")
async def test_who_keeps_it_private_shares_it_on_the_page_and_takes_it_back(here: Served) -> None:
    ada, page = await here.agent("ada"), await here.browser("ada")
    memory_id = (await ada.store("The heron saw marker0000", visibility="private"))["id"]
    path = f"/ui/memories/{memory_id}"
    shown = await page.send(await page.get(path), f"{path}/share")
    assert "Everybody in the namespace sees the memory now." in shown.text
    theirs = await (await here.browser("grace")).get(path)
    assert "marker0000" in theirs.text
    assert not theirs.has_form(f"{path}/unshare"), "it is not grace's"
    back = await page.send(shown, f"{path}/unshare")
    assert "The memory is private now: you alone see it." in back.text
    assert (await (await here.browser("grace")).get(path)).status == 404
    reworded = await page.send(back, f"{path}/reword", content="The heron saw marker0001")
    assert reworded.status == 200, reworded.text
    assert (await ada.call("memory_stats"))["private"]["of_others"] == 0
    assert "marker" not in (await (await here.browser("grace")).get("/ui/memories")).response.text
