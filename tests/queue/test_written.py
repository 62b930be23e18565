"""The position of PostgreSQL's log that goes with answers, for reads by standbys: never too early."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from engramq.schemas.commands import AddNode, CommandReport, GetCommand, GetNodeByName
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import LEASE_KEY, Keys
from engramq.schemas.scripts import SETTLE
from engramq.schemas.settings import read_settings
from engramq.workers.db.database import Store
from engramq.workers.db.standbys import Position
from engramq.workers.queue.inspection import Inspection
from tests.jobs import job, repeated
from tests.running import runner

pytestmark = [pytest.mark.anyio, pytest.mark.promise("SC-5")]

EARLY, LATE = Position(1, 2**33).text, Position(1, 2**40).text
NEXT_TIMELINE = Position(2, 5).text
TOKEN = f"{uuid7()}:1"  # as workers have them


@pytest.fixture
def keys(key_prefix: str) -> Keys:
    return Keys(key_prefix)


@pytest.fixture
async def view(redis_url: str, keys: Keys) -> AsyncIterator[Inspection]:
    async with Inspection(redis_url, keys) as inspection:
        yield inspection


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Any]:
    client: Any = Redis.from_url(redis_url)
    yield client
    await client.aclose()


async def answer(redis: Any, keys: Keys, position: str) -> None:
    """Settle a command whose effect lies before a position."""
    lease = f"{LEASE_KEY}{keys.prefix}"
    await redis.set(lease, TOKEN)
    assert await redis.eval(SETTLE.text, 1, lease, TOKEN, "written", 3, keys.written("n"), position, 60) == 1


async def newest() -> str:
    return LATE


def not_asked() -> Any:
    raise AssertionError("asked")


def test_positions_are_in_the_order_of_their_texts() -> None:
    ordered = [Position(1, 0), Position(1, 9), Position(1, 2**53 + 1), Position(1, 2**63), Position(2, 0)]
    assert sorted(one.text for one in reversed(ordered)) == [one.text for one in ordered]
    assert [Position.read(one.text) for one in ordered] == ordered == sorted(ordered)
    for wrong in ("", "?0123456789abcdef", "x" * 24):
        with pytest.raises(ValueError, match="invalid literal"):
            Position.read(wrong)


async def test_a_later_position_stays_whatever_comes_after_it(redis: Any, keys: Keys, view: Inspection) -> None:
    for position, kept in ((LATE, LATE), (EARLY, LATE), (NEXT_TIMELINE, NEXT_TIMELINE), (LATE, NEXT_TIMELINE)):
        await answer(redis, keys, position)
        assert await view.written("n", not_asked) == kept


async def test_what_nobody_knows_is_asked_for_once_and_kept(redis: Any, keys: Keys, view: Inspection) -> None:
    assert await view.written("n", newest) == LATE
    assert await view.written("n", not_asked) == LATE
    await answer(redis, keys, "")  # an answer whose position could not be asked
    assert (await redis.get(keys.written("n"))).startswith(b"?!")
    assert await view.written("n", newest) == LATE
    assert await view.written("n", not_asked) == LATE


async def test_a_position_does_not_hide_that_another_one_is_unknown(redis: Any, keys: Keys, view: Inspection) -> None:
    await answer(redis, keys, "")
    await answer(redis, keys, EARLY)  # asked for before what the other one tells was written
    assert await view.written("n", newest) == LATE
    assert await view.written("n", not_asked) == LATE


async def test_a_position_that_comes_while_the_unknown_one_is_asked_for_is_not_forgotten(
    redis: Any, keys: Keys, view: Inspection
) -> None:
    await answer(redis, keys, "")

    async def newest_before_the_answer() -> str:
        await answer(redis, keys, LATE)
        return EARLY

    assert await view.written("n", newest_before_the_answer) == EARLY  # of a read that began before the answer
    assert await view.written("n", newest) == LATE


async def test_what_is_answered_while_it_is_asked_for_is_not_forgotten(
    redis: Any, keys: Keys, view: Inspection
) -> None:
    for told, kept in ((LATE, LATE), ("", f"?!{TOKEN}")):
        await redis.delete(keys.written("n"))
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(asked: asyncio.Event = asked, go_on: asyncio.Event = go_on) -> str:
            asked.set()
            await go_on.wait()
            return EARLY

        reading = asyncio.create_task(view.written("n", slow))
        await asked.wait()
        await answer(redis, keys, told)
        go_on.set()
        assert await reading == EARLY  # of a read that began before the answer
        found = await redis.get(keys.written("n"))
        assert found.decode().startswith(kept)


async def test_what_is_written_in_another_database_leaves_no_position_behind(store: Store) -> None:
    """A standby of the first database may not have heard of the move yet, so the next reader asks that database."""
    one = job(AddNode(name="Ada", label="Person"))
    with_replicas = read_settings({"ENGRAMQ_DATABASE_REPLICAS": "postgresql://h/d,postgresql://i,j/d"})
    assert len(with_replicas.database_replicas) == 2
    assert (await runner(store, settings=with_replicas).run(one)).written == ""
    assert (await runner(store).run(repeated(one))).written is None
    assert (await runner(store, settings=with_replicas).run(job(GetNodeByName(name="Ada")))).written is None


async def test_who_is_told_that_a_command_has_ended_gets_its_position(store: Store, view: Inspection) -> None:
    """Its own answer may never have been sent: its worker may have died behind the COMMIT."""
    with_replicas = read_settings({"ENGRAMQ_DATABASE_REPLICAS": "postgresql://h/d"})
    one, other = job(AddNode(name="Ada", label="Person")), job(AddNode(name="Eve", label="Person"))
    await runner(store, settings=with_replicas).run(one)
    for asked, status, written in ((one, "done", ""), (other, "unknown", None)):
        told = await runner(store, mailboxes=view, settings=with_replicas).run(
            job(GetCommand(command_id=asked.envelope.id))
        )
        assert isinstance(told.reply, CommandReport)
        assert (told.reply.status, told.written) == (status, written)
