"""A worker in a process of its own to kill, and callers that store meanwhile."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any, Final

from engramq.schemas.settings import Settings
from tests.scenarios.stage import Agent, Stage, agent_of, staged, until

READY_S: Final = 60.0
WORDS: Final = ("anvil", "bellows", "chisel", "dowel", "easel", "flange", "gasket", "hinge", "ingot", "joist")


class WorkerProcess:
    """`engramq worker --all` as a process of its own; all that it says is kept."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self.log = log
        self._output: IO[bytes] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._output = self.log.open("ab")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "engramq", "worker", "--all",
            env=self._environment, stdout=self._output, stderr=self._output,
        )  # fmt: skip

    async def end(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(number)
            await asyncio.wait_for(self._process.wait(), READY_S)
        if self._output is not None:
            self._output.close()
        self._process = self._output = None

    async def kill(self) -> None:
        """End it as a crash would, and start another."""
        await self.end(signal.SIGKILL)
        await self.start()


@asynccontextmanager
async def running(settings: Settings, **variables: str) -> AsyncIterator[tuple[Stage, WorkerProcess]]:
    """Run a gateway here and a worker in a process of its own, which has `variables` besides, until both serve."""
    with tempfile.TemporaryDirectory(prefix="eq-worker-") as folder:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")},
            "ENGRAMQ_HOME": folder,
            "ENGRAMQ_DATABASE_URL": settings.database_url,
            "ENGRAMQ_REDIS_URL": settings.redis_url,
            "ENGRAMQ_KEY_PREFIX": settings.key_prefix,
            "ENGRAMQ_EMBEDDER": settings.embedder,
            "ENGRAMQ_TEST_SWEEP_INTERVAL_S": str(settings.sweep_interval_s),
            **variables,
        }
        worker = WorkerProcess(environment, Path(folder) / "worker.log")
        try:
            await worker.start()
            async with staged(settings, workers=False) as stage, agent_of(await stage.gateway()) as agent:
                await until(lambda: _answers(agent), READY_S)
                yield stage, worker
        finally:
            await worker.end()


async def _answers(agent: Agent) -> bool:
    return str((await agent.call("list_recent_memories"))["status"]) == "success"


async def stored_under(
    stage: Stage, namespace: str, disturb: Callable[[], Awaitable[None]], *, callers: int = 8, least: int = 150
) -> dict[str, Any]:
    """Let callers store and search while `disturb` does its worst, and prove that nothing is lost or doubled.

    What was answered `stored` or `pending` has to be there once. Returns how it went.
    """
    service = await stage.gateway()
    over = asyncio.Event()
    acknowledged: list[str] = []
    told = {"stored": 0, "refused": 0, "missed": 0}

    async def call(number: int) -> None:
        async with agent_of(service, namespace, f"caller {number}") as agent:
            turn = 0
            while not over.is_set() or turn * callers < least:
                content = f"Caller {number} noted entry {turn} about {WORDS[(number + turn) % 10]}s"
                body = await agent.call("store_memory", content=content, idempotency_key=f"{number}.{turn}")
                turn += 1
                if body["status"] not in ("stored", "pending"):
                    told["refused"] += 1
                    continue
                acknowledged.append(content)
                told["stored"] += 1
                if body["status"] == "stored":
                    found = await agent.call("search_memories", query=content, limit=50)
                    if found["status"] == "success" and content not in [
                        memory["content"] for memory in found["memories"]
                    ]:
                        told["missed"] += 1

    async with asyncio.TaskGroup() as group:
        for number in range(callers):
            group.create_task(call(number))
        await disturb()
        over.set()

    async with agent_of(service, namespace) as agent:
        await until(lambda: _holds(agent, len(acknowledged)), READY_S)
    return {**told, "acknowledged": acknowledged}


async def _holds(agent: Agent, memories: int) -> bool:
    """Say whether a namespace holds at least so many memories, all of them with vectors."""
    counts = await agent.call("memory_stats")
    return counts["status"] == "success" and int(counts["by_state"].get("active", 0)) >= memories
