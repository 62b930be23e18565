"""Lanes: which namespace is on which, that all keys of one are in one slot, and what settings ask for."""

import asyncio
import inspect
from collections import Counter

import pytest

from engramq.schemas.connection import CONNECTION_ERRORS, ClusterServer, Lanes, lanes_of
from engramq.schemas.envelope import PrincipalId
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, SLOTS, TRIES_KEY, Keys, lane_of, slot_of, tag_of
from engramq.schemas.redis_urls import ServerPlace, read_servers
from engramq.schemas.settings import SettingsError, read_settings
from engramq.schemas.vocabulary import WorkerKind

SERVER, CLUSTER = "redis://one:6379/0", "redis+cluster://one:7000,two:7001"
NASTY = "{other}:}{"  # a name that a user might choose
WHOSE = PrincipalId(NASTY, untrusted=True)

# What each key builder that takes arguments is called with.
ARGUMENTS = {
    "page_session": ("digest",),
    "schedule": (WorkerKind.UPKEEP, NASTY),
    "interrupt": (WorkerKind.RECALL, "worker"),
    "replies": ("gateway",),
    "note": (NASTY,),
    "session": (NASTY, WHOSE, NASTY),
    "principals": (NASTY,),
    "page_sessions": (NASTY, WHOSE),
    "page_export": (NASTY, WHOSE, "01a2"),
    "parts": (NASTY,),
    "room": (NASTY,),
    "session_keys_of": ("name",),
    "job_id": ("01a2", 3),
}


def every_key(keys: Keys) -> list[str]:
    """Return one key of each that there is, arq's of a job too."""
    found = [name for of in keys.of.values() for name in of]
    found += [
        value for name, value in vars(keys).items() if isinstance(value, str) and name not in {"prefix", "_job_tag"}
    ]
    found += keys.guard
    for name, arguments in ARGUMENTS.items():
        made = getattr(keys, name)(*arguments)
        if name == "job_id":
            made = tuple(prefix + made for prefix in (JOB_KEY, LEASE_KEY, TRIES_KEY))
        elif name == "session":
            made = made[:4]  # the fifth is the session's name
        found += [made] if isinstance(made, str) else made
    return found


def test_every_key_builder_is_known_here() -> None:
    public = {name for name, _ in inspect.getmembers(Keys, inspect.isfunction) if not name.startswith("_")}
    assert public == set(ARGUMENTS)


@pytest.mark.parametrize("lanes", [Lanes(CLUSTER, "engramq"), Lanes(CLUSTER, "engramq", 5), Lanes(SERVER, "x.y", 3)])
@pytest.mark.promise("SC-2")
def test_all_keys_of_a_lane_are_in_one_slot(lanes: Lanes) -> None:
    for number, keys in enumerate(lanes.all):
        assert len({slot_of(key) for key in every_key(keys)}) == 1
        assert keys.prefix.partition(":")[2].startswith(f"{number}.")


def test_without_lanes_no_key_has_a_tag() -> None:
    lanes = lanes_of(read_settings({"ENGRAMQ_REDIS_URL": SERVER}))
    (keys,) = lanes.all
    assert not lanes.server.moves
    assert keys.guard == ()
    assert keys.job_id("01a2", 3) == "01a2.3"
    assert all("{" not in key for key in every_key(keys))
    assert keys.of[WorkerKind.RECALL].mailbox == "engramq:mailbox:recall"


def test_a_namespace_stays_on_its_lane_and_lanes_are_used_alike() -> None:
    assert [lane_of(name, 4) for name in ("default_user", "ada", "team-b", "日本")] == [1, 3, 3, 2]
    names = [f"tenant-{number}" for number in range(4_000)]
    counts = Counter(lane_of(name, 8) for name in names)
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 1.2 * 500
    assert {lane_of(name, 1) for name in names} == {0}


def test_masters_have_their_share_of_the_lanes() -> None:
    for prefix in ["engramq", "x", "staging-2"]:
        for masters, lanes in [(2, 2), (2, 6), (3, 3), (3, 6), (3, 12), (4, 16), (5, 20), (6, 64)]:
            counts = Counter(slot_of(tag_of(prefix, lane)) * masters // SLOTS for lane in range(lanes))
            assert max(counts.values()) - lanes / masters < 2
            assert len(counts) == masters


def test_a_cluster_is_named_by_some_of_its_nodes() -> None:
    url, nodes = read_servers("rediss+cluster://ada:se%40same@one:7000,[::1]:7001,three?ssl_check_hostname=false")
    assert nodes == [ServerPlace("one", 7000), ServerPlace("::1", 7001), ServerPlace("three", 6379)]
    assert url == "rediss://ada:se%40same@one:7000?ssl_check_hostname=false"


@pytest.mark.parametrize(
    "url", ["redis+cluster://", "redis+cluster://one:7000/3", "redis+cluster://one:port", "redis+cluster://one,,two"]
)
def test_a_cluster_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    secret = url.replace("://", "://ada:sesame@")
    with pytest.raises(SettingsError, match="ENGRAMQ_REDIS_URL") as refusal:
        read_settings({"ENGRAMQ_REDIS_URL": secret})
    assert "sesame" not in str(refusal.value)


def test_the_tag_of_a_lane_stays() -> None:
    assert [tag_of("engramq", lane) for lane in range(2)] == ["{engramq:0.20}", "{engramq:1.72}"]


async def test_a_node_that_is_forgotten_while_the_map_is_read_ends_no_lane() -> None:
    """Another lane's connection forgets it meanwhile; what is not one of CONNECTION_ERRORS ends a bus for good."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.forget(ServerPlace("127.0.0.1", 1))
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        server = ClusterServer(f"redis+cluster://127.0.0.1:{port},127.0.0.1:1")
        for _ in range(2):
            with pytest.raises(CONNECTION_ERRORS):
                await server.locate("key")
