"""What a session remembers, written by workers and read by gateways."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from redis.asyncio import Redis

from engramq.gateway.queue.bus import Bus
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas import limits
from engramq.schemas.commands import BreadcrumbTrail, Ping, Pong
from engramq.schemas.envelope import Answer, Principal, PrincipalId
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.keys import Keys
from engramq.schemas.scripts import LONG_SESSIONS, SESSIONS_OF_ONE, SHORT_SESSION
from engramq.workers.queue.contract import Assignment, Completion, SessionState
from tests.lanes import lanes_at
from tests.queue.server import Server
from tests.queue.stage import ADA_ID, NAMESPACE, Stage, an_actor, ping

WHOSE = (NAMESPACE, ADA_ID, "default")
NOTHING = BreadcrumbTrail(last_stored_id=None, last_recalled_ids=[], session_memory_ids=[], expires_at=None)


async def leave(assignment: Assignment) -> Completion:
    """Leave the session state that a ping names: `stored a`, `recalled a b`, `replayed a`."""
    assert isinstance(assignment.envelope.command, Ping)
    word, *ids = assignment.envelope.command.payload.decode().split()
    state = SessionState(recalled=tuple(ids)) if word == "recalled" else SessionState(stored=ids[0])
    return Completion(
        Pong(payload=assignment.envelope.command.payload), session_state=state, replayed=word == "replayed"
    )


@pytest.fixture
async def bus(stage: Stage) -> Bus:
    await stage.workers(an_actor(leave))
    return await stage.bus()


@pytest.fixture
def breadcrumbs(redis: Redis, keys: Keys) -> Breadcrumbs:
    return Breadcrumbs(redis, lanes_at("redis://unused", keys))


@pytest.fixture
async def other_gateway(server: Server, keys: Keys) -> AsyncIterator[Breadcrumbs]:
    async with Redis.from_url(server.url) as client:
        yield Breadcrumbs(client, lanes_at("redis://unused", keys))


@pytest.mark.promise("CN-39")
async def test_a_store_leaves_its_id_and_a_replayed_duplicate_does_not(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    await ping(bus, "stored a")
    replayed = await ping(bus, "replayed b")
    assert isinstance(replayed, Answer)
    assert replayed.replayed
    found = await breadcrumbs.read(*WHOSE)
    assert (found.last_stored_id, found.session_memory_ids) == ("a", ["a"])


@pytest.mark.promise("CN-41")
async def test_touched_ids_stand_in_order_each_once(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    for line in ("stored c", "recalled a c b", "stored a", "stored d"):
        await ping(bus, line)
    found = await breadcrumbs.read(*WHOSE)
    assert found.session_memory_ids == ["c", "a", "b", "d"]
    assert (found.last_stored_id, found.last_recalled_ids) == ("d", ["a", "c", "b"])


@pytest.mark.parametrize("use", ["write", "read", "begin"])
async def test_sessions_whose_breadcrumbs_are_gone_are_forgotten(
    stage: Stage, bus: Bus, breadcrumbs: Breadcrumbs, use: str
) -> None:
    await ping(bus, "stored a")
    sessions = stage.keys.session(*WHOSE).sessions
    await stage.redis.zadd(sessions, {"gone": 1})
    match use:
        case "write":
            await ping(bus, "stored b")
        case "read":
            await breadcrumbs.read(*WHOSE)
        case _:
            await breadcrumbs.begin(*WHOSE)
    assert await stage.redis.zrange(sessions, 0, -1) == [stage.keys.session(*WHOSE).name.encode()]
    assert await stage.redis.ttl(sessions) > 0


async def test_breadcrumbs_of_commands_that_end_together_are_all_written(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    await asyncio.gather(*(ping(bus, f"stored {number}", session=f"s{number % 3}") for number in range(30)))
    for session in range(3):
        found = await breadcrumbs.read(NAMESPACE, ADA_ID, f"s{session}")
        assert found.session_memory_ids == [str(number) for number in range(session, 30, 3)]


async def test_only_the_newest_touched_ids_are_kept(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    for start in range(0, limits.BREADCRUMB_TOUCHED + 50, 50):
        await ping(bus, "recalled " + " ".join(str(number) for number in range(start, start + 50)))
    kept = (await breadcrumbs.read(*WHOSE)).session_memory_ids
    assert kept == [str(number) for number in range(50, limits.BREADCRUMB_TOUCHED + 50)]


@pytest.mark.parametrize("use", ["write", "begin"])
async def test_the_session_longest_unused_goes_where_a_principal_has_too_many(
    stage: Stage, bus: Bus, breadcrumbs: Breadcrumbs, use: str
) -> None:
    """Security finding 4: each search in a new session keeps 5 KB for a day."""
    await ping(bus, "stored a", session="oldest")
    await ping(bus, "stored b", session="used again")
    await ping(bus, "stored c", session="of another", principal=Principal(name="bob"))
    keys = stage.keys.session(*WHOSE)
    others = {f"{keys.name}-{number}": 2**50 for number in range(SESSIONS_OF_ONE - 2)}
    await stage.redis.zadd(keys.sessions, others)
    await ping(bus, "stored d", session="used again")
    if use == "write":
        await ping(bus, "stored e", session="new")
    else:
        await breadcrumbs.begin(NAMESPACE, ADA_ID, "new")
    assert await stage.redis.zcard(keys.sessions) == SESSIONS_OF_ONE
    gone = stage.keys.session(NAMESPACE, ADA_ID, "oldest")
    assert await stage.redis.exists(gone.state, gone.touched) == 0
    assert (await breadcrumbs.read(NAMESPACE, ADA_ID, "oldest")) == NOTHING
    assert (await breadcrumbs.read(NAMESPACE, ADA_ID, "used again")).last_stored_id == "d"
    assert (await breadcrumbs.read(NAMESPACE, PrincipalId("bob"), "of another")).last_stored_id == "c"


async def test_only_the_sessions_used_last_keep_all_that_they_touched(
    stage: Stage, bus: Bus, breadcrumbs: Breadcrumbs
) -> None:
    many = tuple(f"{number}" for number in range(SHORT_SESSION + 10))
    for session in range(LONG_SESSIONS + 1):
        await ping(bus, "recalled " + " ".join(many), session=f"s{session}")
    kept = [
        tuple(
            id_.decode() for id_ in await stage.redis.zrange(stage.keys.session(NAMESPACE, ADA_ID, name).touched, 0, -1)
        )
        for name in ("s0", "s1", f"s{LONG_SESSIONS}")
    ]
    assert kept == [many[10:], many, many]
    found = await breadcrumbs.read(NAMESPACE, ADA_ID, "s0")
    assert found.session_memory_ids == [*many[10:]]
    assert found.last_recalled_ids == [*many], "what was recalled stays whole"


@pytest.mark.promise("CN-43")
async def test_breadcrumbs_outlive_a_gateway_and_are_shared_by_others(
    stage: Stage, bus: Bus, other_gateway: Breadcrumbs
) -> None:
    async with Bus(stage.lanes, mailbox_bound=10, reply_timeout_s=10) as gone:
        await ping(gone, "stored a")
    assert (await other_gateway.read(*WHOSE)).last_stored_id == "a"
    await ping(bus, "stored b")
    assert (await other_gateway.read(*WHOSE)).session_memory_ids == ["a", "b"]


@pytest.mark.promise("CN-43")
async def test_breadcrumbs_are_private_to_namespace_principal_and_session(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    await ping(bus, "stored a")
    await ping(bus, "stored b", principal=Principal(name="ada:default"), session="x")
    for whose in (
        ("other", ADA_ID, "default"),
        (NAMESPACE, PrincipalId("bob"), "default"),
        (NAMESPACE, PrincipalId("ada", untrusted=True), "default"),
        (NAMESPACE, PrincipalId("!ada"), "default"),
        (NAMESPACE, ADA_ID, "other"),
        (f"{NAMESPACE}:ada", PrincipalId("default"), ""),
        (NAMESPACE, ADA_ID, "default:x"),
        (f"{NAMESPACE}:ada", PrincipalId("default"), "x"),
        (NAMESPACE, PrincipalId("ad*"), "default"),
    ):
        assert await breadcrumbs.read(*whose) == NOTHING, whose
        assert await breadcrumbs.resolve("@stored", *whose) is None


@pytest.mark.promise("CN-43")
async def test_breadcrumbs_expire_a_day_after_their_last_use(
    bus: Bus, breadcrumbs: Breadcrumbs, redis: Redis, keys: Keys
) -> None:
    await ping(bus, "stored a")
    await redis.expire(keys.session(*WHOSE).state, 10)
    assert await breadcrumbs.resolve("@stored", *WHOSE) == "a"
    for key in keys.session(*WHOSE)[:4]:
        assert limits.BREADCRUMB_SECONDS - 5 <= await redis.ttl(key) <= limits.BREADCRUMB_SECONDS, "it slides"
    found = await breadcrumbs.read(*WHOSE)
    assert found.expires_at is not None
    left_s = (datetime.fromisoformat(found.expires_at) - datetime.now(UTC)).total_seconds()
    assert limits.BREADCRUMB_SECONDS - 5 <= left_s <= limits.BREADCRUMB_SECONDS
    await redis.pexpire(keys.session(*WHOSE).state, 0)
    assert await breadcrumbs.read(*WHOSE) == NOTHING


async def test_thirty_minutes_of_silence_begin_a_new_instance_and_keep_the_breadcrumbs(
    bus: Bus, breadcrumbs: Breadcrumbs, redis: Redis, keys: Keys
) -> None:
    await ping(bus, "stored a")
    key = keys.session(*WHOSE).state
    first = int(await redis.hget(key, "instance"))  # type: ignore[misc]
    await ping(bus, "stored b")
    assert int(await redis.hget(key, "instance")) == first  # type: ignore[misc]
    seen = int(await redis.hget(key, "seen"))  # type: ignore[misc]
    await redis.hset(key, "seen", str(seen - limits.SESSION_GAP_SECONDS * 1000 - 1))  # type: ignore[misc]
    await ping(bus, "stored c")
    assert int(await redis.hget(key, "instance")) > first  # type: ignore[misc]
    assert (await breadcrumbs.read(*WHOSE)).session_memory_ids == ["a", "b", "c"]


async def test_references_mean_the_last_stored_and_the_nth_recalled(bus: Bus, breadcrumbs: Breadcrumbs) -> None:
    await ping(bus, "recalled x y")
    await ping(bus, "stored z")
    expected = {
        "@stored": "z", "@recalled[0]": "x", "@recalled[1]": "y", "@recalled[2]": None, "@recalled[-1]": None,
        "@recalled[01]": None, "@recalled[٣]": None, "@recalled": None, "@recalled[0]x": None, "@recalled[0]\n": None,
        "@stored ": None, "@other": None, "an-id": "an-id", "": "",
    }  # fmt: skip
    assert {ref: await breadcrumbs.resolve(ref, *WHOSE) for ref in expected} == expected


async def test_without_redis_breadcrumbs_are_unavailable(own_server: Server, keys: Keys) -> None:
    own_server.kill()
    async with Redis.from_url(own_server.url) as client:
        with pytest.raises(EngramqError) as refusal:
            await Breadcrumbs(client, lanes_at("redis://unused", keys)).read(*WHOSE)
    assert refusal.value.fault.code is FaultCode.UNAVAILABLE


@pytest.mark.promise("CN-40")
async def test_a_search_leaves_what_it_found_and_an_empty_one_leaves_nothing_found(
    bus: Bus, breadcrumbs: Breadcrumbs
) -> None:
    await ping(bus, "recalled b a")
    assert (await breadcrumbs.read(*WHOSE)).last_recalled_ids == ["b", "a"]
    await ping(bus, "recalled")
    assert (await breadcrumbs.read(*WHOSE)).last_recalled_ids == []
