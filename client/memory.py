"""The clients: `Memory` for code that waits, `AsyncMemory` for asyncio and trio."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

import anyio
import httpx

from engramq.client import calls
from engramq.client.call import AsyncClient, ClientCall, ReplyT, Request, SyncClient, at_once, run_through, takes_what
from engramq.client.exchange import Means, Policy, carry_out, http_arguments, http_options
from engramq.client.methods import Calls
from engramq.schemas import records


class Memory(Calls, SyncClient):
    """A connection to engramq. It may be shared by threads; close it, or use it in a `with` block.

    `url` and `token`, if not given, come from ENGRAMQ_URL and ENGRAMQ_TOKEN; without these the server is the one that
    `engramq up` runs on this machine. Nothing is sent before the first call.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._http = httpx.Client(**http_options(url, token, self._policy))

    def _call(self, call: ClientCall[ReplyT]) -> ReplyT:
        means = Means(at_once(self._send), at_once(time.sleep), time.monotonic)
        return run_through(carry_out(call, self._policy, means))

    def _send(self, request: Request, timeout_s: float) -> httpx.Response:
        return self._http.request(**http_arguments(request, timeout_s, self._policy))

    @takes_what(calls.recent)
    def each_recent(self, **options: Any) -> Iterator[records.Memory]:
        """Give every memory of the list, newest first, page by page as they are needed."""
        while True:
            page = self.recent(**options)
            yield from page.memories
            if not page.next_cursor:
                return
            options["cursor"] = page.next_cursor

    def close(self) -> None:
        """Close the connections to the server."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()


class AsyncMemory(Calls, AsyncClient):
    """A connection to engramq, as `Memory` is; close it with `aclose`, or use it in an `async with` block.

    A call that is cancelled may have been carried out.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._http = httpx.AsyncClient(**http_options(url, token, self._policy))

    async def _call(self, call: ClientCall[ReplyT]) -> ReplyT:
        return await carry_out(call, self._policy, Means(self._send, anyio.sleep, time.monotonic))

    async def _send(self, request: Request, timeout_s: float) -> httpx.Response:
        return await self._http.request(**http_arguments(request, timeout_s, self._policy))

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

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        await self.aclose()
