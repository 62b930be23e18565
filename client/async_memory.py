"""The client for asyncio and trio."""

import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

import anyio
import httpx

from engramq.client import calls
from engramq.client.address import heard, http_options, sent
from engramq.client.call import Call, ReplyT, takes_what
from engramq.client.exchange import Heard, Lost, Pause, carry_out
from engramq.client.methods import AsyncCalls
from engramq.client.policy import Policy
from engramq.schemas import records


class AsyncMemory(AsyncCalls):
    """A connection to engramq, as `Memory` is; close it with `aclose`, or use it in an `async with` block.

    A call that is cancelled may have been carried out.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._http = httpx.AsyncClient(**http_options(url, token, self._policy))

    async def _call(self, call: Call[ReplyT]) -> ReplyT:
        conversation = carry_out(call, self._policy, time.monotonic)
        said: Heard = None
        while True:
            try:
                step = conversation.send(said)
            except StopIteration as end:
                reply: ReplyT = end.value
                return reply
            if isinstance(step, Pause):
                await anyio.sleep(step.seconds)
                said = None
                continue
            try:
                said = heard(await self._http.request(**sent(step, self._policy)))
            except httpx.LocalProtocolError:
                raise  # a token or a key that no header can hold: it would be so again
            except httpx.TransportError as problem:
                said = Lost(str(problem) or type(problem).__name__)

    @takes_what(calls.recent)
    async def each_recent(self, **options: Any) -> AsyncIterator[records.Memory]:
        """Give every memory of the list, newest first, page by page as they are needed."""
        while True:
            page = await self.recent(**options)
            for memory in page.memories:
                yield memory
            if not page.next_cursor:
                return
            options["cursor"] = page.next_cursor

    async def aclose(self) -> None:
        """Close the connections to the server."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.aclose()
