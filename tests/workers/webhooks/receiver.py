"""A server that is told things: answers by a script and remembers what it was told."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

SILENCE = 0  # reads the request and never answers


@dataclass(frozen=True)
class Told:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def message(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def is_signed_with(self, secret: str) -> bool:
        """Check the signature as the specification of Standard Webhooks says."""
        key = base64.b64decode(secret.removeprefix("whsec_"))
        signed = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        expected = base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
        return hmac.compare_digest(self.headers["webhook-signature"], f"v1,{expected}")


class Receiver:
    """Answers with `statuses` one after another, the last one for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses or (204,))
        self.told: list[Told] = []
        self.port = 0
        self._came = asyncio.Condition()

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def wait_for(self, count: int, bound_s: float = 20.0) -> list[Told]:
        """Return what was told when that is so much; fails when it is not within the bound."""
        async with asyncio.timeout(bound_s), self._came:
            await self._came.wait_for(lambda: len(self.told) >= count)
        return list(self.told)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.strip().split("\r\n")
                named = (line.partition(":") for line in lines)
                headers = {name.lower(): value.strip() for name, _, value in named}
                body = await reader.readexactly(int(headers["content-length"]))
                status = self.statuses[min(len(self.told), len(self.statuses) - 1)]
                async with self._came:
                    self.told.append(Told(first.split(" ")[1], headers, body))
                    self._came.notify_all()
                if status == SILENCE:
                    await reader.read()  # until the other side goes
                    break
                location = "location: http://127.0.0.1:9/elsewhere\r\n" if 300 <= status < 400 else ""
                writer.write(f"HTTP/1.1 {status} x\r\n{location}content-length: 0\r\n\r\n".encode())
                await writer.drain()
        writer.close()


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncIterator[Receiver]:
    """Run a receiver for as long as the block lasts."""
    receiver = Receiver(*statuses)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
