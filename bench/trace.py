"""How much code a call passes: functions, files and changes of file from the tool to the reply, of one process.

`python -m bench.trace [--show]` runs gateway and workers in one event loop over embedded servers, warms each call up,
and counts every function of ours that Python calls until the reply is there. Comprehensions are no functions here; the
MCP SDK, SQL and Lua are not counted.
"""

import argparse
import asyncio
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

from mcp.client import Client

from bench.common import emit
from engramq.deploy.embedded.servers import Servers, running_servers
from engramq.gateway.cursors import CursorSecret
from engramq.gateway.identity.authorization import local_caller
from engramq.gateway.mcp.listing import profile_of
from engramq.gateway.mcp.server import build_server
from engramq.gateway.queue.bus import Bus
from engramq.gateway.run import open_redis
from engramq.gateway.service import Service
from engramq.gateway.sessions import Breadcrumbs
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.app import run
from engramq.workers.db.migrate import migrate

ROOT: Final = Path(__file__).resolve().parents[1] / "engramq"
QUIET_S: Final = 4.0  # what follows a store is over by then
NO_FUNCTIONS: Final = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>", "<module>")
KINDS: Final = (WorkerKind.EMBEDDING, WorkerKind.EDGES, WorkerKind.RECALL)  # the others' sweeps are no part of a call


class Calls:
    """The functions of ours that were called, in their order, as (file, name)."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Note a call; the profiler of the interpreter calls this."""
        code = frame.f_code
        if event == "call" and str(ROOT) in code.co_filename and not code.co_qualname.endswith(NO_FUNCTIONS):
            self.made.append((code.co_filename.partition(f"{ROOT}/")[2], code.co_qualname))

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
async def client_of(settings: Settings) -> AsyncIterator[Client]:
    """Run workers and a gateway in this loop, and connect a client to it."""
    keys, stop, ready = Keys(settings.key_prefix), asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(run(KINDS, settings, stop=stop, ready=ready, handle_signals=False))
        await ready.wait()
        bus = Bus(settings.redis_url, keys, mailbox_bound=100, reply_timeout_s=30.0)
        redis = open_redis(settings.redis_url)
        async with bus, redis:
            caller = local_caller(settings.namespace, settings.principal)
            service = Service(bus, Breadcrumbs(redis, keys), CursorSecret(redis, keys))
            server = build_server(service, profile_of("full"), lambda _: caller)
            async with Client(server) as client:
                yield client
        stop.set()


async def measure(servers: Servers, *, show: bool) -> None:
    """Trace one call of each tool that matters, each of which has been made before."""
    await migrate(servers.database_url_owner)
    variables = {
        "DATABASE_URL": servers.database_url_owner,
        "REDIS_URL": servers.redis_url,
        "KEY_PREFIX": uuid.uuid4().hex,
    }
    settings = read_settings({f"ENGRAMQ_{name}": value for name, value in variables.items()})
    async with client_of(settings) as client:

        async def ask(tool: str, **arguments: Any) -> dict[str, Any]:
            reply = await client.call_tool(tool, arguments)
            assert not reply.is_error, reply
            body: dict[str, Any] = reply.structured_content or {}
            return body

        texts = ("Ada drinks green tea", "The deploy key is in the vault", "Lions live in Africa", "It rains in May")
        ids = [(await ask("store_memory", content=text))["stored"]["id"] for text in texts]
        calls = {
            "store_memory": ({"content": "Bob drinks coffee"}, {"content": "Cleo drinks water"}),
            "search_memories": ({"query": "who drinks tea?"}, {"query": "who drinks what in the morning?"}),
            "connect": (
                {"source": ids[0], "target": ids[1]},
                {"source": ids[2], "target": ids[3], "relation": "supports"},
            ),
        }
        for tool, (warm, measured) in calls.items():
            await ask(tool, **warm)
            await asyncio.sleep(QUIET_S)
            with traced() as found:
                await ask(tool, **measured)
            emit("trace", tool, digits=None, **found.figures())
            if show:
                found.show()


def main() -> None:
    """Measure, and print one JSON line for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print the functions too")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eq-", dir="/tmp") as folder, running_servers(Path(folder)) as servers:
        asyncio.run(measure(servers, show=chosen.show))


if __name__ == "__main__":
    main()
