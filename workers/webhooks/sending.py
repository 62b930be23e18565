"""One try to tell one message: a POST to the address that was judged, within a bound, without following anybody."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID

import anyio
import httpx
import msgspec

from engramq.schemas.ids import format_time
from engramq.workers.webhooks.addresses import LookUp, NotAllowed, address_for, look_up
from engramq.workers.webhooks.signing import SigningKey

TRY_S: Final = 10.0  # for the name, the connection and the answer
_RECEIVED: Final = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is told to one webhook."""

    id: UUID
    webhook_id: UUID
    url: str
    event: str
    at: datetime
    told: Mapping[str, Any]

    def body(self) -> bytes:
        """Return the message as it is sent and signed."""
        return msgspec.json.encode({"type": self.event, "timestamp": format_time(self.at), "data": self.told})


class Sender:
    """Tells messages; used as `async with`."""

    def __init__(self, key: SigningKey, *, private: bool, look: LookUp = look_up, try_s: float = TRY_S) -> None:
        self._key = key
        self._private = private
        self._look = look
        self._try_s = try_s
        self._http = httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=try_s)

    async def __aenter__(self) -> Self:
        """Return the sender."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def tell(self, message: Message) -> str | None:
        """Return None when the receiver took the message, else in words why not."""
        try:
            with anyio.fail_after(self._try_s):
                status = await self._posted(message)
        except TimeoutError:
            return f"no answer within {self._try_s:g} s"
        except NotAllowed as refused:
            return str(refused)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as problem:
            return f"{type(problem).__name__}: {problem}"[:200]
        return None if status in _RECEIVED else f"answered {status}"

    async def _posted(self, message: Message) -> int:
        parts = urlsplit(message.url)
        address = await address_for(message.url, private=self._private, look=self._look)
        body = message.body()
        headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "user-agent": "engramq-webhooks/1",
            **self._key.headers(message.webhook_id, message.id, int(time.time()), body),
        }
        url = httpx.URL(message.url).copy_with(host=address)
        # The certificate is checked against the name, though the connection goes to the address.
        named = {"sni_hostname": parts.hostname}
        async with self._http.stream("POST", url, content=body, headers=headers, extensions=named) as answer:
            return answer.status_code  # of the body nothing is read
