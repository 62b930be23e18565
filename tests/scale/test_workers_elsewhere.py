"""Workers by kind and gateways on machines of their own: each finds servers, model and limits by settings alone."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from engramq.schemas.vocabulary import WorkerKind
from tests.conftest import Database
from tests.faults.callers import HttpCaller
from tests.faults.world import ENGRAMQ, free_port, is_ready, until

pytestmark = pytest.mark.timeout(180)

BOUND_S = 30.0
NO_HOME = "/proc/self/fdinfo/home"  # where nobody can make anything, root neither


@asynccontextmanager
async def processes(*commands: tuple[dict[str, str], tuple[str, ...]]) -> AsyncIterator[list[subprocess.Popen[bytes]]]:
    """Run `engramq` commands, each with these variables alone, in a folder that cannot be written to."""
    bare = {"PATH": os.environ["PATH"], "HOME": NO_HOME}
    started = [
        subprocess.Popen([ENGRAMQ, *arguments], env=bare | given, cwd="/proc", stderr=subprocess.PIPE)
        for given, arguments in commands
    ]
    try:
        yield started
    finally:
        for item in started:
            item.send_signal(signal.SIGTERM)
        said = await asyncio.gather(*(asyncio.to_thread(item.communicate, timeout=BOUND_S) for item in started))
        # What a process that failed has said is more than that its callers were not answered.
        assert [item.returncode for item in started] == [0] * len(started), [told[1][-2000:] for told in said]


async def test_every_kind_on_its_own_finds_all_by_settings_and_keeps_no_file(
    database: Database, redis_url: str, key_prefix: str
) -> None:
    port = free_port()
    shared = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_KEY_PREFIX": key_prefix}
    worker = shared | {
        "ENGRAMQ_DATABASE_URL": database.url,
        "ENGRAMQ_QUOTA_MEMORIES": "5",  # a limit that workers know
        "ENGRAMQ_SWEEP_INTERVAL_S": "0.5",
        "ENGRAMQ_WEBHOOKS_KEY": uuid4().hex,
    }
    kinds = [(worker, ("worker", str(kind))) for kind in WorkerKind]
    async with processes(*kinds, (shared | {"ENGRAMQ_PORT": str(port)}, ("gateway",))) as started:
        await until(lambda: is_ready(port))
        caller = HttpCaller(lambda: [port], 0)
        stored = [await caller.call("store_memory", content=f"The ferry number {n} sails at dawn") for n in range(5)]
        assert {item["status"] for item in stored} == {"stored"}, stored
        refused = await caller.call("store_memory", content="The sixth ferry stays in harbour")
        assert refused["code"] == "quota_exceeded", refused
        found = await caller.call("search_memories", query="When do the boats leave?", min_relevance=0)  # by the model
        assert len(found["memories"]) == 5

        async def finished() -> bool:
            (row,) = database.rows("select count(*) as n from memories where sector_source is null")
            return bool(row["n"] == 0)

        await until(finished)
        assert [item.poll() for item in started] == [None] * len(started)
        await caller.aclose()
