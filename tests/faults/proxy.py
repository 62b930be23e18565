"""A TCP port in front of a server's socket that can behave as bad networks do."""

import asyncio
import contextlib
from enum import StrEnum, auto
from pathlib import Path

CHUNK = 65_536


class Weather(StrEnum):
    """How the network is."""

    FAIR = auto()
    HALF_OPEN = auto()  # what clients send arrives, nothing comes back
    BLACK = auto()  # nothing arrives either way, and nobody is told
    SLOW = auto()  # everything arrives DELAY_S later


DELAY_S = 0.3


class Proxy:
    """Listens on a port of the loopback address and passes everything on to a socket; use as `async with`."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._weather = Weather.FAIR
        self._fair = asyncio.Event()
        self._fair.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.become(Weather.FAIR)
        self.cut()
        await asyncio.gather(*self._tasks)

    def become(self, weather: Weather) -> None:
        """Change the weather, for connections that are open too."""
        self._weather = weather
        if weather in (Weather.FAIR, Weather.SLOW):
            self._fair.set()
        else:
            self._fair.clear()

    def cut(self) -> None:
        """Break every connection off."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._writers.add(writer)
        there: asyncio.StreamWriter | None = None
        try:
            back, there = await asyncio.open_unix_connection(self._target, limit=CHUNK)
            self._writers.add(there)
            await asyncio.gather(
                self._pass_on(reader, there, Weather.BLACK),
                self._pass_on(back, writer, Weather.BLACK, Weather.HALF_OPEN),
            )
        except OSError:
            pass  # the server has gone, or one side has hung up: so does the other
        finally:
            for end in (writer, there):
                if end is not None:
                    self._writers.discard(end)
                    end.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *holding: Weather) -> None:
        while data := await source.read(CHUNK):
            while self._weather in holding:
                await self._fair.wait()
            if self._weather is Weather.SLOW:
                await asyncio.sleep(DELAY_S)
            target.write(data)
            await target.drain()
        with contextlib.suppress(OSError):
            target.write_eof()
