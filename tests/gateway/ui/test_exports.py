"""An export that the page sends as a file: whole, or seen to be broken; and who may have all of it gets it alone."""

import asyncio
import gc
import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile, is_zipfile

import anyio.to_thread
import httpx
import pytest
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection

from engramq.deploy.exporting import opened_form
from engramq.gateway.parts import AnswerBrokenOff, PartTaker
from engramq.gateway.ui import exports
from engramq.schemas.exports import ExportFormat
from engramq.schemas.keys import Keys
from engramq.schemas.parts import AHEAD, KEPT_S, Part
from engramq.schemas.settings import Settings
from engramq.workers.admin import export_to
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.parts import PartSender
from engramq.workers.tenants import export
from engramq.workers.tenants.export import ExportChoice
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent, until

pytestmark = pytest.mark.promise("OP-12")

IMPORTS = "/ui/imports"
EXPORTS = "/ui/exports"


def progress_of(page: Shown) -> str:
    """Return where the progress of the export is told that the form of this page begins."""
    return f"{EXPORTS}/{page.form(EXPORTS).fields['export']}"


@dataclass
class Gate:
    """Lines of an export that stop after the first ones until `go_on` is set, and then fail if `fails`."""

    first: int = 1
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False

    async def lines(self, tx: Transaction, wanted: ExportChoice) -> AsyncIterator[bytes]:
        lines = export.lines(tx, wanted, "1")
        for _ in range(self.first):
            yield await anext(lines)
        await self.go_on.wait()
        if self.fails:
            raise RuntimeError("the worker fails")
        async for line in lines:
            yield line


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Send each line as a part, and hold an export after the first one."""
    found = Gate()
    monkeypatch.setattr(export, "PART_BYTES", 1)
    monkeypatch.setattr(export, "checked_lines", found.lines)
    return found


@asynccontextmanager
async def begun(browser: Browser, page: Shown, **values: str) -> AsyncIterator[AsyncIterator[bytes]]:
    """Send the form of this page with these values; the block gets what comes, as it comes."""
    form = page.form(EXPORTS)
    async with browser.client.stream(
        "POST", form.action, data={**form.fields, **values}, headers={"origin": browser.origin}
    ) as response:
        yield response.aiter_bytes()


async def test_the_file_is_that_of_the_command_and_its_progress_is_told(
    here: Served, agent: Agent, browser: Browser, settings: Settings
) -> None:
    first = (await agent.call("store_memory", content="Ada drinks tea"))["stored"]["id"]
    second = (await agent.call("store_memory", content="Ada drinks oolong, a tea"))["stored"]["id"]
    await agent.call("connect", source=first, target=second, relation="elaborates")
    await agent.call("graph_add_edge", source_name="Ada", target_name="Oslo", relation="LIVES_IN")
    page = await browser.get(IMPORTS)
    ours, theirs = [b""], [b"?"]

    async def is_same() -> bool:
        """Export by both ways; links that workers make meanwhile are in one of them alone."""
        file = (await browser.send(page, EXPORTS)).response
        assert (file.status_code, file.headers["content-type"]) == (200, "application/jsonl")
        assert re.fullmatch(r'attachment; filename="engramq-acme-[\d-]+\.jsonl"', file.headers["content-disposition"])
        written = io.BytesIO()
        await anyio.to_thread.run_sync(export_to, settings, "acme", written)
        ours[:], theirs[:] = (text.splitlines() for text in (file.content, written.getvalue()))
        return ours[1:] == theirs[1:]

    await until(is_same)
    heads = [json.loads(lines[0]) for lines in (ours, theirs)]
    assert [(head.pop("exported_at"), head.pop("active_hours")) for head in heads]  # which go on meanwhile
    assert heads[0] == heads[1]
    told = await browser.get(progress_of(page))
    assert "The file is whole." in told.text
    assert f"{len(ours) - 2} / {len(ours) - 2} ·" in told.text
    assert "The file is whole." not in (await (await here.browser("grace")).get(progress_of(page))).text
    audit = await agent.call("audit", action="export_tenant")
    assert {entry["actor"] for entry in audit["entries"]} == {"ada"}


async def test_one_project_is_sent_as_a_folder_of_notes(
    agent: Agent, browser: Browser, settings: Settings, tmp_path: Path
) -> None:
    await agent.store("# Oven\n\nBake at 230", project="bakery", tags=["howto"])
    await agent.store("The shop opens at nine", project="shop")
    old = await agent.store("Bake at 210", project="bakery")
    await agent.call("forget_memory", memory_id=old["id"])
    page = await browser.get(IMPORTS)
    file = (await browser.send(page, EXPORTS, format="markdown", project="bakery")).response
    assert (file.status_code, file.headers["content-type"]) == (200, "application/zip")
    assert re.fullmatch(r'attachment; filename="engramq-acme-bakery-[\d-]+\.zip"', file.headers["content-disposition"])
    with opened_form(ExportFormat.MARKDOWN, tmp_path / "notes") as form:
        await anyio.to_thread.run_sync(partial(export_to, settings, "acme", form, project="bakery"))
        form.close()
    with ZipFile(io.BytesIO(file.content)) as archive:
        sent = {name: archive.read(name) for name in archive.namelist()}
    written = tmp_path / "notes"
    assert sent == {str(note.relative_to(written)): note.read_bytes() for note in written.rglob("*.md")}
    assert list(sent) == ["bakery/Oven.md"]
    told = await browser.get(progress_of(page))
    assert ("The file is whole." in told.text, "archived memories (1)" in told.text) == (True, True)
    (entry,) = (await agent.call("audit", action="export_tenant"))["entries"]
    assert entry["new"] == {"project_sha256": sha256(b"bakery").hexdigest()}, "no erasure takes names out of it"


async def test_other_formats_are_sent_and_what_nobody_knows_is_refused(agent: Agent, browser: Browser) -> None:
    await agent.store("Ada drinks tea", project="house")
    page = await browser.get(IMPORTS)
    file = (await browser.send(page, EXPORTS, format="mem0")).response
    assert [each["memory"] for each in json.loads(file.content)["results"]] == ["Ada drinks tea"]
    lines = (await browser.send(page, EXPORTS, project="house")).response.content.splitlines()
    assert json.loads(lines[0])["project"] == "house"
    refused = await browser.send(page, EXPORTS, project="hous")
    assert (refused.status, "No memory is in project" in refused.text) == (400, True)
    assert (await browser.send(page, EXPORTS, format="../x")).status == 400
    audit = await agent.call("audit", action="export_tenant")
    assert len(audit["entries"]) == 2, "what was refused is no export"


async def test_a_browser_that_stops_the_download_frees_the_worker(here: Served, gate: Gate) -> None:
    browser, other = await here.browser("ada"), await here.browser("grace")
    page = await browser.get(IMPORTS)
    async with begun(browser, page):
        refused = await other.send(await other.get(IMPORTS), EXPORTS)
        assert (refused.status, "Another export is under way" in refused.text) == (503, True)
    gate.go_on.set()  # for the next one: this one is never asked for more

    async def is_free() -> bool:
        return (await other.send(await other.get(IMPORTS), EXPORTS)).status == 200

    await until(is_free)
    assert "The export broke off." in (await browser.get(progress_of(page))).text


async def test_a_file_is_not_taken_for_whole_when_its_worker_fails(browser: Browser, gate: Gate) -> None:
    page = await browser.get(IMPORTS)
    gate.fails = True
    async with begun(browser, page) as parts:
        assert b'"engramq.export"' in await anext(parts)
        gate.go_on.set()
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)
    assert "The export broke off." in (await browser.get(progress_of(page))).text


async def test_an_archive_that_breaks_off_has_no_end_and_nobody_writes_one_later(
    agent: Agent, browser: Browser, gate: Gate
) -> None:
    await agent.store("Ada drinks tea")
    page = await browser.get(IMPORTS)
    gate.first, gate.fails = 2, True
    async with begun(browser, page, format="markdown") as parts:
        begin = await anext(parts)
        gate.go_on.set()
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(parts)
    assert (begin[:2], is_zipfile(io.BytesIO(begin))) == (b"PK", False)
    assert "The export broke off." in (await browser.get(progress_of(page))).text
    gc.collect()  # what an archive raises while it is collected fails the test


async def test_the_page_names_the_command_for_more_than_it_holds(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for project in ("house", "shop"):
        await agent.store(f"The key of the {project} is blue", project=project)
    page = await browser.get(IMPORTS)
    monkeypatch.setattr(exports, "FORM_MEMORIES", 1)
    refused = await browser.send(page, EXPORTS, format="mcp-memory")
    assert (refused.status, "engramq export --format mcp-memory" in refused.text) == (400, True)
    assert (await browser.send(page, EXPORTS)).status == 200
    assert (await browser.send(page, EXPORTS, format="mcp-memory", project="shop")).status == 200
    monkeypatch.setattr(exports, "HELD_BYTES", 100)
    with pytest.raises(httpx.RemoteProtocolError):
        await browser.send(page, EXPORTS, format="mcp-memory", project="shop")
    assert "For so large a file" in (await browser.get(progress_of(page))).text


async def test_what_a_format_holds_until_its_end_comes_in_pieces(
    agent: Agent, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"The key of the {room} is blue" for room in ("hall", "shop", "yard")]
    for text in texts:
        await agent.store(text, project="house")
    monkeypatch.setattr(exports, "PART_BYTES", 1)
    async with begun(browser, await browser.get(IMPORTS), format="mcp-memory") as parts:
        pieces = [piece async for piece in parts]
    entity = json.loads(b"".join(pieces))
    assert (len(pieces), entity["name"], sorted(entity["observations"])) == (4, "house", texts)


async def test_a_worker_is_a_few_parts_ahead_and_a_lost_part_breaks_the_rest_off(
    redis_url: str, key_prefix: str
) -> None:
    keys = Keys(key_prefix)
    sent: list[int] = []

    async def ask(channel: str) -> None:
        sender = PartSender(redis, keys, channel)
        for number in (0, 1, 2, 3, 4, 5, 6, 8):
            await sender.send(Part(number, 0, 0, is_last=False, lines=b""))
            sent.append(number)

    async with Redis.from_url(redis_url) as redis, aclosing(PartTaker(redis, keys).parts(ask)) as parts:
        assert (await anext(parts)).number == 0

        async def is_ahead() -> bool:
            return len(sent) >= AHEAD

        await until(is_ahead)
        assert len(sent) == AHEAD
        assert [(await anext(parts)).number for _ in range(6)] == [1, 2, 3, 4, 5, 6]
        with pytest.raises(AnswerBrokenOff):
            await anext(parts)


@pytest.mark.promise("OV-18")
async def test_no_part_stays_whose_process_ends_as_it_is_sent(
    redis_url: str, key_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part holds what memories say; a process that ends sends nothing after it."""
    keys, send = Keys(key_prefix), AbstractConnection.send_packed_command

    async def end_after_lists(connection: AbstractConnection, command: Any, **how: Any) -> None:
        await send(connection, command, **how)
        if b"RPUSH" in b"".join(command):
            raise asyncio.CancelledError

    async with Redis.from_url(redis_url) as redis, Redis.from_url(redis_url) as taker, Redis.from_url(redis_url) as own:
        await redis.rpush(keys.room("sent"), "1")
        with monkeypatch.context() as patch:
            patch.setattr(AbstractConnection, "send_packed_command", end_after_lists)
            with pytest.raises(asyncio.CancelledError):
                await PartTaker(taker, keys)._make_room("awaited", AHEAD)
            with pytest.raises(asyncio.CancelledError):
                await PartSender(own, keys, "sent").send(Part(0, 0, 0, is_last=False, lines=b"x"))
        kept = [await redis.ttl(name) for name in (keys.parts("sent"), keys.room("awaited"))]
    assert all(0 < seconds <= KEPT_S for seconds in kept), kept


async def test_a_command_has_been_answered_before_its_last_part_is_handed_on(redis_url: str, key_prefix: str) -> None:
    keys, answered = Keys(key_prefix), asyncio.Event()

    async def ask(channel: str) -> None:
        await PartSender(redis, keys, channel).send(Part(0, 0, 0, is_last=True, lines=b""))
        await redis.ping()
        answered.set()

    async with Redis.from_url(redis_url) as redis, aclosing(PartTaker(redis, keys).parts(ask)) as parts:
        assert (await anext(parts)).is_last
        assert answered.is_set()


async def test_only_who_may_have_all_of_it_gets_it(here: Served) -> None:
    keeper, reader, grace = await here.browser("keeper"), await here.browser("reader"), await here.agent("grace")
    page = await keeper.get(IMPORTS)
    assert not (await reader.get(IMPORTS)).has_form(EXPORTS)
    forged = await keeper.send(page, EXPORTS, form_token="x")
    assert (forged.status, "not from a page" in forged.text) == (403, True)
    assert (await keeper.send(page, EXPORTS, export="../x")).status == 400
    await grace.call("store_memory", content="Grace looks for another job", visibility="private")
    refused = await keeper.send(page, EXPORTS)
    assert (refused.status, "private to others (1)" in refused.text) == (403, True)
    assert "another job" not in refused.text
    hers = await here.browser("grace")
    own = (await hers.send(await hers.get(IMPORTS), EXPORTS)).response
    assert (own.status_code, b"another job" in own.content) == (200, True)
