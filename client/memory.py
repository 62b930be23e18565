"""The client for code that waits."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from engramq.client import calls
from engramq.client.address import heard, http_options, sent
from engramq.client.call import Call, ReplyT, takes_what
from engramq.client.exchange import Heard, Lost, Pause, carry_out
from engramq.client.methods import Calls
from engramq.client.policy import Policy
from engramq.schemas import records


class Memory(Calls):
    """A connection to engramq. It may be shared by threads; close it, or use it in a `with` block.

    `url` and `token` are else read from ENGRAMQ_URL and ENGRAMQ_TOKEN; without either it is the server that
    `engramq up` runs on this machine. Nothing is sent before the first call.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, policy: Policy | None = None) -> None:
        self._policy = policy or Policy()
        self._http = httpx.Client(**http_options(url, token, self._policy))

    def _call(self, call: Call[ReplyT]) -> ReplyT:
        conversation = carry_out(call, self._policy, time.monotonic)
        said: Heard = None
        while True:
            try:
                step = conversation.send(said)
            except StopIteration as end:
                reply: ReplyT = end.value
                return reply
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                said = None
                continue
            try:
                said = heard(self._http.request(**sent(step, self._policy)))
            except httpx.LocalProtocolError:
                raise  # a token or a key that no header can hold: it would be so again
            except httpx.TransportError as problem:
                said = Lost(str(problem) or type(problem).__name__)

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

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()
