"""A connection to Redis that ends unused is noticed before anything is written to it, and so is one in a pipeline."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import not_
from pathlib import Path

import pytest
import uvloop

from engramq.schemas.connection import pack
from engramq.schemas.keys import Keys
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from tests.queue.server import Server
from tests.queue.stage import BOUND_S, Stage, an_actor, echo, payload_of, ping

# They differ in what they do at a write to a connection that is gone. Each test runs a loop of its own: the one that
# its process has for the others is of asyncio.
LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class Wire:
    """TCP connections to a Redis server that can be reset, as a network does that has forgotten them."""

    def __init__(self, server: Path) -> None:
        self._server = server
        self._writers: list[asyncio.StreamWriter] = []
        self._came: asyncio.Queue[None] = asyncio.Queue()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what one client and the server say."""
        from_server, to_server = await asyncio.open_unix_connection(self._server)
        self._writers.append(writer)
        self._came.put_nowait(None)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, to_server))
            group.create_task(_pass_on(from_server, writer))

    async def reset(self) -> None:
        """Reset every connection; return when the two that listen, a gateway's and a worker's, are back."""
        writers, self._writers, self._came = self._writers, [], asyncio.Queue()
        for writer in writers:
            if not writer.is_closing():
                at_once = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
                writer.transport.abort()
        async with asyncio.timeout(BOUND_S):
            await self._came.get()
            await self._came.get()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        # uvloop raises RuntimeError, asyncio nothing, at a write to a transport that was aborted.
        while (data := await reader.read(65_536)) and not writer.is_closing():
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def a_wire(server: Server) -> AsyncIterator[tuple[Wire, str]]:
    """Give a wire to the server, and the URL at its near end."""
    wire = Wire(server.socket)
    async with await asyncio.start_server(wire.carry, "127.0.0.1", 0) as listener:
        yield wire, f"redis://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


@LOOPS
def test_gateway_and_worker_outlive_connections_that_are_reset(new_loop: NewLoop, server: Server, keys: Keys) -> None:
    async def outlive() -> None:
        async with a_wire(server) as (wire, url), Stage(url, keys) as stage:
            await stage.workers(an_actor(echo))
            bus = await stage.bus()
            payload_of(await ping(bus, "before"))
            for number in range(3):
                await wire.reset()
                assert payload_of(await ping(bus, str(number))) == str(number)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(outlive())


@LOOPS
def test_a_call_that_connects_while_the_pipeline_ends_leaves_no_connection_open(
    new_loop: NewLoop, server: Server, keys: Keys
) -> None:
    async def connect() -> None:
        async with Stage(server.url, keys) as stage:
            pipeline = Pipeline(server.url, ())
            running = asyncio.create_task(pipeline.run())
            calling = asyncio.create_task(pipeline.call(pack("CLIENT", "ID")))
            await asyncio.sleep(0)  # both have begun; the call waits for its connection
            running.cancel()
            await asyncio.wait([running])
            assert not calling.done()
            number = await calling
            await stage.until(lambda: stage.redis.client_list(client_id=[str(number)]), not_)
            with pytest.raises(ConnectionLost):
                await pipeline.call(pack("PING"))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(connect())
