"""What was erased leaves Redis's files too: its append-only file is written anew, once for each erasure."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.workers.queue import inspection
from engramq.workers.queue.inspection import Inspection, NotRewritten
from tests.lanes import lanes_at
from tests.queue.server import Server

SECRET = "zwetschkenknoedel"


@pytest.fixture
async def view(own_server: Server, keys: Keys) -> AsyncIterator[Inspection]:
    async with Inspection(lanes_at(own_server.url, keys)) as view:
        yield view


@pytest.fixture
async def own(own_server: Server) -> AsyncIterator[Any]:
    async with Redis.from_url(own_server.url) as client:
        yield client


def is_on_disk(server: Server) -> bool:
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    return any(SECRET.encode() in path.read_bytes() for path in files)


async def pass_through(redis: Any) -> None:
    """Let the secret go through the server, as the content of a command does."""
    await redis.set("job", SECRET)
    await redis.delete("job")


@pytest.mark.promise("OV-18")
async def test_after_an_erasure_the_file_is_written_anew_once(own_server: Server, own: Any, view: Inspection) -> None:
    await pass_through(own)
    assert not await view.rewrite_log()
    assert is_on_disk(own_server)
    await view.scrub("ns", {uuid7(): SECRET})
    assert is_on_disk(own_server)
    assert await view.rewrite_log()
    assert not is_on_disk(own_server)
    assert not await view.rewrite_log()
    await pass_through(own)
    await view.scrub_namespace("ns")
    assert await view.rewrite_log()
    assert not is_on_disk(own_server)
    await pass_through(own)
    assert await view.rewrite_log(at_once=True)
    assert not is_on_disk(own_server)


async def test_what_is_erased_while_the_file_is_written_has_its_turn(
    own: Any, view: Inspection, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = inspection.rewrite

    async def erasing_too(redis: Any) -> bool:
        written = await rewrite(redis)
        await view.scrub("ns", {uuid7(): "another"})
        return written

    await view.scrub("ns", {uuid7(): SECRET})
    monkeypatch.setattr(inspection, "rewrite", erasing_too)
    assert await view.rewrite_log()
    monkeypatch.undo()
    assert await view.rewrite_log()
    assert not await view.rewrite_log()


async def test_a_writing_that_began_before_the_erasure_does_not_count(own_server: Server, own: Any) -> None:
    await own.mset({f"filler:{number}": "x" * 1000 for number in range(20_000)})
    await own.set("job", SECRET)
    await own.execute_command("BGREWRITEAOF")
    await own.delete("job")
    assert await inspection.rewrite(own)
    assert not is_on_disk(own_server)


async def test_without_the_file_there_is_nothing_to_do(own: Any, view: Inspection) -> None:
    await own.config_set("appendonly", "no")
    await view.scrub("ns", {uuid7(): SECRET})
    assert not await view.rewrite_log()
    await own.config_set("appendonly", "yes")
    assert not await view.rewrite_log()


async def test_a_server_that_refuses_is_named_and_asked_again(
    own_server: Server, own: Any, view: Inspection, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    await view.scrub("ns", {uuid7(): SECRET})
    await own.execute_command("ACL", "SETUSER", "default", "-bgrewriteaof")
    assert not await view.rewrite_log()
    assert "BGREWRITEAOF" in caplog.records[-1].__dict__["problem"]
    with pytest.raises(NotRewritten, match="refuses"):
        await view.rewrite_log(at_once=True)
    await own.execute_command("ACL", "SETUSER", "default", "+bgrewriteaof")
    assert await view.rewrite_log()


async def test_an_erasure_is_noted_in_a_full_redis_too(own: Any, view: Inspection) -> None:
    await own.config_set("maxmemory", 1)
    async with asyncio.timeout(10):
        await view.scrub("ns", {uuid7(): SECRET})
    await own.config_set("maxmemory", 0)
    assert await view.rewrite_log()
