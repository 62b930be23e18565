"""Callers who hang up or cancel while PostgreSQL works on their read: its statement ends, at every door."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest

from engramq.gateway.run import Gateway
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.workers.db.conninfo import SESSION, WORKER_SESSION
from engramq.workers.queue import worker
from tests.conftest import Database
from tests.gateway.conftest import gateway_over
from tests.gateway.test_lines import cancellation_of, conversation
from tests.gateway.ui.conftest import listening
from tests.gateway.wire import NEWER, OLDER, call_of, encoded, headers_of
from tests.scenarios.stage import running_workers, stage_settings, until

# Sessions of databases of their own begin with the setting of this file.
pytestmark = [pytest.mark.promise("QP-11"), pytest.mark.own_database]

TOOL = "list_recent_memories"
WAITING = f"""
    select query from pg_stat_activity
    where datname = current_database() and application_name like '{WORKER_SESSION}%%' and wait_event_type = 'Lock'
"""
STATS = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "engramq://stats"}}


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/html, application/json\r\n\r\n".encode()


def post(body: bytes, headers: list[tuple[str, str]]) -> bytes:
    given = [("host", "127.0.0.1"), ("content-length", str(len(body))), *headers]
    return "\r\n".join(["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in given), "", ""]).encode() + body


DOORS = {
    "MCP": post(encoded(call_of(TOOL, {}, version=NEWER)), headers_of(NEWER, TOOL)),
    "MCP of before": post(encoded(call_of(TOOL, {}, version=OLDER)), headers_of(OLDER, TOOL)),
    "MCP by the SDK": post(encoded(STATS), headers_of(OLDER, TOOL)),
    "REST": get("/v1/memories"),
    "the page": get("/ui/memories"),
}


@pytest.fixture
def settings(database: Database, redis_url: str, key_prefix: str) -> Settings:
    """Settings of workers that read no memories by themselves."""
    return stage_settings(database, redis_url, key_prefix, test_sweep_interval_s="3600")


@pytest.fixture
async def gateway(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gateway]:
    """A gateway whose workers notice soon, and whose statements wait longer than a test."""
    monkeypatch.setattr(worker, "RENEW_S", 0.05)
    monkeypatch.setitem(SESSION, "lock_timeout", "1min")
    async with running_workers(settings), gateway_over(settings.redis_url, Keys(settings.key_prefix), 30.0) as served:
        yield served


@asynccontextmanager
async def held_up(database: Database, *, until_waiting: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Let reads of memories wait; the block begins when one does, and at its end none may."""

    async def waiting() -> bool:
        return bool(database.rows(WAITING))

    async def none() -> bool:
        return not await waiting()

    with psycopg.connect(database.owner_url) as blocker:
        blocker.execute("lock table memories in access exclusive mode")
        await until_waiting()
        await until(waiting)
        yield
        await until(none)
        blocker.rollback()


@pytest.mark.parametrize("door", DOORS)
async def test_the_statement_of_a_caller_who_hangs_up_ends(gateway: Gateway, database: Database, door: str) -> None:
    async with (
        listening(gateway) as port,
        await anyio.connect_tcp("127.0.0.1", port) as line,
        held_up(database, until_waiting=lambda: line.send(DOORS[door])),
    ):
        await line.aclose()


async def test_the_statement_of_a_call_that_is_cancelled_ends(gateway: Gateway, database: Database) -> None:
    call = {**call_of(TOOL, {}), "id": "slow"}
    async with conversation(gateway) as client:
        async with held_up(database, until_waiting=lambda: client.say(call)):
            await client.say(cancellation_of("slow"))
        await client.say({**call_of(TOOL, {}), "id": "next"})
        (answer,) = await client.answers(1)
        assert json.loads(answer)["id"] == "next", "a cancelled call is never answered"
