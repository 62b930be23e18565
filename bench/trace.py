"""How much code a call passes in production: functions, files and changes of file, from the socket to the reply.

`python -m bench.trace [--show] [--door http|stdio]` runs a gateway and workers in one event loop over embedded servers,
as their commands do, and calls tools over HTTP with a bearer token and over the socket of `engramq stdio`. Each call is
made on every connection before it is traced. A function of ours counts that Python calls until the reply is there, in
each of several calls: what runs beside one by chance does not, nor do comprehensions, the MCP SDK, SQL, Lua and other
threads. The relay of `engramq stdio` passes bytes through and is not traced. `tests/bench/test_trace.py` fails where a
call passes more than was reached.
"""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

from bench.common import ENGRAMQ, McpClient, emit, free_port
from bench.servers import Servers, running_servers
from engramq.gateway.run import run_gateway
from engramq.schemas.settings import PREFIX, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run as run_workers
from engramq.workers.db.migrate import migrate

ROOT: Final = Path(__file__).resolve().parents[1] / "engramq"
QUIET_S: Final = 2.0  # what follows a store is over by then
ENDED_S: Final = 0.1  # a read that was answered has ended by then
TIMES: Final = 3  # each call
AT_ONCE: Final = 4  # callers before that, so that each session of PostgreSQL has prepared what a call sends
READY_S: Final = 60.0
DOORS: Final = ("http", "stdio")
NO_FUNCTIONS: Final = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")
KINDS: Final = (WorkerKind.EMBEDDING, WorkerKind.EDGES, WorkerKind.RECALL)  # the others' sweeps are no part of a call
TEXTS: Final = (
    "Ada drinks green tea", "The deploy key is in the vault", "Lions live in Africa", "It rains in May",
    "The meeting is on the fifth floor", "Oslo lies by a fjord", "Invoices are due after ten days",
    "The red bus stops at the mill", "Bread is baked before six",
)  # fmt: skip
# Of those who drink: the first few are traced, the others before.
NAMES: Final = tuple(first + rest for first in "BCDFGHLMN" for rest in ("ella", "irk", "ora", "ute"))[
    : TIMES + 8 * AT_ONCE
]

Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


class Calls:
    """The functions of ours that were called, in their order, as (file, name)."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call; the profiler of the interpreter calls this."""
        code = frame.f_code
        if event == "call" and str(ROOT) in code.co_filename and not code.co_qualname.endswith(NO_FUNCTIONS):
            self.made.append((code.co_filename.partition(f"{ROOT}/")[2], code.co_qualname))

    def keep(self, others: "Sequence[Calls]") -> "Calls":
        """Return these calls without functions that some of the others did not call."""
        kept = Calls()
        kept.made = [each for each in self.made if all(each in other.made for other in others)]
        return kept

    def figures(self) -> dict[str, Any]:
        """Return how many functions, files, changes of file and calls there were."""
        files = [file for file, _ in self.made]
        return {
            "functions": len(set(self.made)),
            "files": len(set(files)),
            "changes_of_file": sum(before != after for before, after in pairwise(files)),
            "calls": len(self.made),
        }

    def show(self) -> None:
        """Print the functions by file, in the order in which they are first met."""
        by_file: dict[str, dict[str, None]] = {}
        for file, name in self.made:
            by_file.setdefault(file, {})[name] = None
        for file, names in by_file.items():
            print(f"  {file}: {', '.join(names)}")


@contextmanager
def traced() -> Iterator[Calls]:
    """Note the calls of this thread for as long as the block lasts."""
    calls = Calls()
    sys.setprofile(calls)
    try:
        yield calls
    finally:
        sys.setprofile(None)


@asynccontextmanager
async def serving(variables: dict[str, str], socket_path: Path) -> AsyncIterator[None]:
    """Run workers and a gateway in this loop, each as its command runs it."""
    settings = read_settings(variables)
    stop, ready = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run_workers(KINDS, settings, stop=stop, ready=ready, handle_signals=False))
        await ready.wait()
        group.create_task(run_gateway(settings, socket_path=socket_path, http=True))
        async with asyncio.timeout(READY_S):
            while not await is_listening(settings.port, socket_path):  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0.05)
        yield
        signal.raise_signal(signal.SIGTERM)  # the gateway's
        stop.set()


async def is_listening(port: int, socket_path: Path) -> bool:
    """Say whether the gateway takes connections at both doors."""
    try:
        for opening in (
            partial(asyncio.open_connection, "127.0.0.1", port),
            partial(asyncio.open_unix_connection, socket_path),
        ):
            _, writer = await opening()
            writer.close()
    except OSError:
        return False
    return True


@asynccontextmanager
async def over_http(port: int, token: str) -> AsyncIterator[Ask]:
    """Call tools over HTTP, all on one connection."""
    async with McpClient.connect(port, token) as client:
        yield client.call


@asynccontextmanager
async def over_stdio(socket_path: Path) -> AsyncIterator[Ask]:
    """Call tools over the socket that `engramq stdio` passes its lines to."""
    reader, writer = await asyncio.open_unix_connection(socket_path, limit=2**24)

    async def exchange(message: dict[str, Any]) -> dict[str, Any]:
        writer.write(json.dumps(message).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await reader.readline())
        return answer

    async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": tool, "arguments": arguments}
        answer = await exchange({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
        assert not answer["result"]["isError"], answer
        body: dict[str, Any] = answer["result"]["structuredContent"]
        return body

    assert (await exchange({"engramq": 1, "namespace": "default", "principal": "traced"}))["ok"]
    client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    await exchange({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
    writer.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    yield ask
    writer.close()


async def measure(door: str, asks: Sequence[Ask], *, show: bool) -> None:
    """Trace the calls that matter, after each has been made often enough on every connection."""
    ask = asks[0]
    ids = [(await ask("store_memory", content=f"{text}, says {door}"))["stored"]["id"] for text in TEXTS]
    edge = {"source_name": "Ada", "relation": "drinks", "target_name": f"tea by {door}"}
    await ask("graph_add_edge", **edge)
    pairs = list(combinations(ids, 2))
    calls: dict[str, Callable[[int], dict[str, Any]]] = {
        "store_memory": lambda number: {"content": f"{NAMES[number]} drinks coffee, says {door}"},
        "search_memories": lambda number: {"query": f"what does {NAMES[number]} drink in May?"},
        "connect": lambda number: dict(zip(("source", "target"), pairs[number], strict=True), relation="supports"),
        "get_edge": lambda _: edge,
    }
    for tool, arguments_of in calls.items():
        for first in range(TIMES, len(NAMES), len(asks)):
            async with asyncio.TaskGroup() as group:
                for number, each in enumerate(asks, first):
                    group.create_task(each(tool, **arguments_of(number)))
        runs = []
        for number in range(TIMES):
            await asyncio.sleep(QUIET_S)
            await ask("get_edge", **edge)  # which meets all that rested meanwhile
            await asyncio.sleep(ENDED_S)
            with traced() as made:
                await ask(tool, **arguments_of(number))
            runs.append(made)
        always = min(runs, key=lambda run: len(run.made)).keep(runs)
        emit("trace", tool, digits=None, door=door, **always.figures())
        if show:
            always.show()


async def trace(servers: Servers, folder: Path, doors: Sequence[str], *, show: bool) -> None:
    """Serve at both doors, and trace calls at these."""
    await migrate(servers.database_url_owner)
    port = free_port()
    given = {
        "DATABASE_URL": servers.database_url_owner,
        "REDIS_URL": servers.redis_url,
        "HOME": str(folder),
        "PORT": str(port),
        "AUTH": "token",
    }
    variables = {PREFIX + name: value for name, value in given.items()}
    making = [ENGRAMQ, "token", "create", "--principal", "traced", "--scopes", "read,write", "--json"]
    made = await asyncio.to_thread(
        subprocess.run, making, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    socket_path = folder / "sockets" / "gateway"
    async with serving(variables, socket_path):
        opened = {
            "http": partial(over_http, port, json.loads(made.stdout)["token"]),
            "stdio": partial(over_stdio, socket_path),
        }
        for door in doors:
            async with AsyncExitStack() as several:
                asks = [await several.enter_async_context(opened[door]()) for _ in range(AT_ONCE)]
                await measure(door, asks, show=show)


def main() -> None:
    """Measure, and print one JSON line for each call at each door."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print the functions too")
    parser.add_argument("--door", choices=DOORS, help="trace calls at this one alone")
    chosen = parser.parse_args()
    doors = DOORS if chosen.door is None else (chosen.door,)
    with tempfile.TemporaryDirectory(prefix="eq-", dir="/tmp") as name, running_servers(Path(name)) as servers:
        asyncio.run(trace(servers, Path(name), doors, show=chosen.show))


if __name__ == "__main__":
    main()
