"""A process of a home that hangs is replaced, and nothing is lost: finding 5 of faults."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from engramq.deploy.local.embedded import process
from engramq.deploy.local.supervisor.silence import HUNG_S
from engramq.schemas.ids import uuid7
from tests.scenarios.stage import LEGACY, Agent
from tests.stack.test_whole_stack import Installation, installed

pytestmark = [pytest.mark.timeout(300), pytest.mark.promise("OP-3")]

BOUND_S = 90.0


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    with installed() as made:
        yield made


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """SIGSTOP processes and their descendants; wake at the end what is still there."""
    everything = [member for pid in pids for member in process.tree(pid)]
    for member in everything:
        with suppress(ProcessLookupError):  # a server process that came and went
            os.kill(member, signal.SIGSTOP)
    try:
        yield
    finally:
        for member in everything:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGCONT)


def restarts(installation: Installation) -> Counter[str]:
    return Counter({name: service["restarts"] for name, service in services(installation).items()})


def services(installation: Installation) -> dict[str, dict[str, Any]]:
    return {service["name"]: service for service in installation.status()["services"]}


def log_of_supervisor(installation: Installation) -> str:
    return (Path(installation.environment["ENGRAMQ_HOME"]) / "logs" / "supervisor.log").read_text()


async def answered(agent: Agent, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, again and again while gateways and servers come back."""
    with anyio.fail_after(BOUND_S):
        while True:
            with suppress(MCPError):
                body = await agent.call(tool, **arguments)
                if body["status"] in {"success", "stored"}:
                    return body
    raise AssertionError


async def stored(agent: Agent) -> str:
    body = await answered(agent, "store_memory", content="The alarm code is 4711", idempotency_key=uuid7())
    memory_id: str = body["stored"]["id"]
    return memory_id


async def is_kept(agent: Agent, memory_id: str) -> bool:
    body = await answered(agent, "get_memory", memory_id=memory_id)
    return bool(body["memory"]["content"] == "The alarm code is 4711")


@pytest.mark.parametrize("name", ["worker", "gateway", "redis", "postgres"])
async def test_a_process_that_hangs_is_replaced_and_nothing_is_lost(installation: Installation, name: str) -> None:
    async with installation.client(LEGACY) as client:
        agent = Agent(client)
        kept = await stored(agent)
        before, counted = services(installation), restarts(installation)
        with stopped([before[name]["pid"]]), anyio.fail_after(BOUND_S):
            while (await anyio.to_thread.run_sync(restarts, installation))[name] == counted[name]:
                pass
            assert await is_kept(agent, kept)
        # While the client holds the stack: it may stop before a busy machine has asked.
        assert (restarts(installation) - counted).keys() == {name}
        assert services(installation)[name]["pid"] != before[name]["pid"]
    assert f'"Service hangs: it is replaced", "service": "{name}"' in log_of_supervisor(installation)


async def test_a_machine_that_slept_is_no_hang(installation: Installation) -> None:
    async with installation.client(LEGACY) as client:
        kept = await stored(Agent(client))
        status, counted, said = installation.status(), restarts(installation), log_of_supervisor(installation)
        with ExitStack() as held, anyio.fail_after(BOUND_S):
            # The services wake after the supervisor, which thus sees them silent for a while.
            held.enter_context(stopped([each["pid"] for each in status["services"] if each["pid"]]))
            os.kill(status["pid"], signal.SIGSTOP)
            held.callback(os.kill, status["pid"], signal.SIGCONT)
            slept_at = time.monotonic()
            await anyio.to_thread.run_sync(
                process.wait_until, lambda: time.monotonic() - slept_at > HUNG_S + 3, BOUND_S
            )
        assert await is_kept(Agent(client), kept)
        assert restarts(installation) == counted
    assert "Service hangs" not in log_of_supervisor(installation).removeprefix(said)
