"""A home tried by erasing: saved while a client stores, erased, restored, and answering as it did before."""

import json
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from anyio import to_thread

from bench.common import ENGRAMQ
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import OWNER_ROLE, Postgres
from engramq.deploy.local.home import Home
from tests.scenarios.stage import LEGACY, MODERN, Agent
from tests.stack.test_whole_stack import BOUND_S, Installation, installation

__all__ = ["installation"]
pytestmark = pytest.mark.timeout(300)

THINGS = ("kettle", "ladder", "piano", "lantern", "map of Norway")
PLACES = ("cellar", "attic", "kitchen")
QUERIES = tuple(f"Where is the {thing}?" for thing in THINGS)
STABLE = (
    *("id", "content", "partition", "thread", "tags", "metadata", "sector", "verification", "state"),
    *("supersedes", "superseded_by", "superseded_at", "created_by", "created_at", "updated_at"),
)
# What was replaced before its links were made gets none.
UNFINISHED = """
    select 1 from memories
    where (links_made_at is null or sector_source is null) and state = 'active' and superseded_by is null
"""
ACKNOWLEDGED = 5  # stores of the busy client before the backup begins


@pytest.fixture
def home(installation: Installation) -> Home:
    installation.environment["ENGRAMQ_EMBEDDER"] = "hash"
    return Home(Path(installation.environment["ENGRAMQ_HOME"]))


async def filled(agent: Agent) -> list[str]:
    """Store things with all that a memory can have, and knowledge; return the memories' ids."""
    ids = []
    for thing in THINGS:
        for place in PLACES:
            more: dict[str, Any] = {"tags": [place], "metadata": {"thing": thing}, "thread": place}
            ids.append((await agent.store(f"The {thing} is in the {place}", **more))["id"])
    await agent.call("connect", source=ids[0], target=ids[1], relation="contradicts", note="Only one of them is right")
    await agent.call("verify_memory", memory_id=ids[2], verification="verified", reason="Seen there")
    await agent.call("supersede_memory", old_memory_id=ids[3], new_memory_id=ids[4])
    await agent.call("graph_add_edge", source_name="Ada", target_name="Kettle", relation="OWNS")
    return ids


async def answers(agent: Agent, ids: list[str]) -> dict[str, Any]:
    """Return what searches, reads and lists say, without what reading itself changes in time."""
    found = {query: [memory["id"] for memory in await agent.search(query)] for query in QUERIES}
    whole = [await agent.call("get_memory", memory_id=memory_id, detail="full") for memory_id in ids]
    edges = await agent.call("graph_list_edges", node_name="Ada")
    audit = await agent.call("audit", limit=100)
    return {
        "found": found,
        "whole": [{name: body["memory"].get(name) for name in STABLE} for body in whole],
        "edges": edges,
        "audit": audit,
    }


def settled(home: Home) -> None:
    """Wait until what follows stores is done, which searches would see."""
    with psycopg.connect(Postgres(home).url(OWNER_ROLE), autocommit=True) as owner:
        assert process.wait_until(lambda: owner.execute(UNFINISHED).fetchone() is None, BOUND_S)


@asynccontextmanager
async def busy(agent: Agent) -> AsyncIterator[list[str]]:
    """Have a client store one memory after the other; yields the ids of those that were acknowledged."""
    acknowledged: list[str] = []

    async def go_on() -> None:
        while True:
            acknowledged.append((await agent.store(f"Note number {len(acknowledged)}"))["id"])

    async with anyio.create_task_group() as group:
        group.start_soon(go_on)
        yield acknowledged
        group.cancel_scope.cancel()


@contextmanager
def serving_tokens(installation: Installation) -> Iterator[str]:
    """Run `engramq up` for bearer tokens; yields its address."""
    environment = {**installation.environment, "ENGRAMQ_AUTH": "token"}
    with subprocess.Popen([ENGRAMQ, "up"], env=environment, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            yield next(found[0] for line in up.stdout if (found := re.search(r"http://\S+/mcp", line)))
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(BOUND_S)


def status_with(url: str, token: str) -> int:
    """Return how the gateway answers `initialize` to this bearer."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()
    headers = {
        "authorization": f"Bearer {token}",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=BOUND_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


@pytest.mark.promise("IM-12", "OP-9")
async def test_an_erased_home_is_restored_with_all_that_was_acknowledged_and_answers_the_same(
    installation: Installation, home: Home, tmp_path: Path
) -> None:
    file = tmp_path / "home.backup"
    made = installation.run("token", "create", "--namespace", "acme", "--principal", "ada", "--json")
    token = json.loads(made.stdout)["token"]
    async with (
        installation.client(MODERN, "--namespace", "acme", "--tools", "full") as client,
        installation.client(MODERN, "--namespace", "busy", "--tools", "full") as other,
    ):
        ids = await filled(Agent(client))
        await to_thread.run_sync(settled, home)
        async with busy(Agent(other)) as acknowledged:
            with anyio.fail_after(BOUND_S):
                while len(acknowledged) < ACKNOWLEDGED:
                    await anyio.lowlevel.checkpoint()
            before = list(acknowledged)
            saved = await to_thread.run_sync(partial(installation.run, "backup", str(file), "--json"))
            assert len(acknowledged) > len(before)
        assert saved.returncode == 0, saved.stderr
        told = json.loads(saved.stdout)
        assert (told["postgresql"], told["file_bytes"]) == (18, file.stat().st_size)
        expected = await answers(Agent(client), ids)
    assert installation.run("restore", str(file)).returncode == 1  # while it runs
    assert installation.run("down").returncode == 0
    shutil.rmtree(home.path)

    restored = installation.run("restore", str(file))

    assert restored.returncode == 0, restored.stderr
    async with (
        installation.client(LEGACY, "--namespace", "acme", "--tools", "full") as client,
        installation.client(MODERN, "--namespace", "busy", "--tools", "full") as other,
    ):
        assert await answers(Agent(client), ids) == expected
        for memory_id in before:
            assert (await Agent(other).call("get_memory", memory_id=memory_id))["status"] == "success"
    assert installation.run("down").returncode == 0
    with serving_tokens(installation) as url:
        assert status_with(url, token) == 200
        assert status_with(url, token[:-1] + "x") == 401
