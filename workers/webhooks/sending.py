"""Send one message to one webhook: a signed POST to an address that was judged, within a bound, without redirects.

A webhook may go only to addresses that the whole world reaches, so that nobody asks our own network by way of us. A
name is looked up once for each try, and the connection goes to the address that was judged.

Secrets and signatures are those of Standard Webhooks (standardwebhooks.com, version 1). A secret is derived, not kept:
HMAC-SHA256 of the webhook's id under the installation's key. So a dump of the database signs nothing.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self
from urllib.parse import urlsplit
from uuid import UUID

import anyio
import msgspec

from engramq.schemas.faults import invalid
from engramq.schemas.home_secrets import read_or_make_secret
from engramq.schemas.ids import format_time
from engramq.schemas.settings import Settings, SettingsError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
ResolveHost = Callable[[str, int], Awaitable[Sequence[str]]]

URL_CHARS: Final = 2_000
# Where an IPv4 address stands in the last 32 bits: NAT64, IPv4-translated, IPv4-compatible.
_WRAPPING: Final = [ipaddress.ip_network(net) for net in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96")]
_ISATAP: Final = (0x5EFE, 0x2005EFE)  # what stands before those 32 bits in an address of any network
# Not public, whatever ipaddress says: local NAT64, site-local, SRv6, documentation, 6to4 relays; and where clouds
# answer from inside: Oracle's and Azure's metadata.
_CLOSED: Final = [
    ipaddress.ip_network(net)
    for net in (
        *("64:ff9b:1::/48", "fec0::/10", "5f00::/16", "3fff::/20"),
        *("192.88.99.0/24", "192.0.0.0/24", "168.63.129.16/32"),
    )
]
_PORTS: Final = {"https": 443, "http": 80}
KEY_FILE: Final = "webhooks-key"
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - what every secret begins with
LEAST_KEY_CHARS: Final = 32
_HOW: Final = "ENGRAMQ_WEBHOOKS_PRIVATE=1 allows http and private addresses."


class NotAllowed(Exception):
    """The address is none that a webhook may go to."""


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raises OSError when it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in found]


def check_url(url: str, *, private: bool) -> str:
    """Return the URL of a webhook; raises EngramqError for one that cannot receive messages.

    Without `private` it has to be https, and no address of a private network.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    schemes = ("https", "http") if private else ("https",)
    if (
        host is None
        or parts.scheme not in schemes
        or len(url) > URL_CHARS
        or not url.isascii()
        or not url.isprintable()
    ):
        kinds = " or ".join(f"{scheme}://" for scheme in schemes)
        raise invalid("url", f"url must begin with {kinds} and name a server.", _HOW)
    if parts.username or parts.password or parts.fragment or " " in url:
        raise invalid("url", "url must hold neither a user nor a fragment.", "The signature says who calls.")
    try:
        literal = ipaddress.ip_address(host)
    except ValueError:
        return url
    if not private and not is_public(literal):
        raise invalid("url", "url names an address of a private network.", _HOW)
    return url


async def address_for(url: str, *, private: bool, look: ResolveHost = resolve_host) -> str:
    """Return the address to connect to for a URL; raises NotAllowed, or OSError when the name has none.

    A name with any private address is refused as a whole: which of them is asked would be chance.
    """
    parts = urlsplit(url)
    found = await look(parts.hostname or "", parts.port or _PORTS[parts.scheme])
    if not found:
        raise OSError("the name has no address")
    if not private and not all(is_public(ipaddress.ip_address(text.partition("%")[0])) for text in found):
        raise NotAllowed("the name has an address of a private network")
    return found[0]


def is_public(address: Address) -> bool:
    """Say whether an address, and every other that is wrapped in it, is one that the whole world reaches."""
    if isinstance(address, ipaddress.IPv6Address):
        within: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        is_isatap = int(address) >> 32 & 0xFFFFFFFF in _ISATAP
        if is_isatap or any(address in network for network in _WRAPPING):
            within.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(inner is not None and not is_public(inner) for inner in within):
            return False
        if address.ipv4_mapped is not None:
            return True
    is_closed = any(address in network for network in _CLOSED)
    return address.is_global and not address.is_multicast and not is_closed


class SigningKey:
    """The key of an installation. `id` tells it from others and says nothing of it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.id: Final = hashlib.sha256(b"engramq webhooks key id\0" + key).hexdigest()[:16]

    def secret(self, webhook_id: UUID) -> str:
        """Return what the receiver of a webhook checks signatures with."""
        return SECRET_PREFIX + base64.b64encode(self.derive(_use(webhook_id))).decode()

    def headers(self, webhook_id: UUID, message_id: UUID, at_s: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of a message: its id, the time of this try in seconds, and the signature of all three."""
        signed = f"{message_id}.{at_s}.".encode() + body
        signature = base64.b64encode(hmac.digest(self.derive(_use(webhook_id)), signed, "sha256")).decode()
        return {"webhook-id": str(message_id), "webhook-timestamp": str(at_s), "webhook-signature": f"v1,{signature}"}

    def derive(self, use: bytes) -> bytes:
        """Return the 32 bytes that follow from the key for one use, and tell nothing of those for others."""
        return hmac.digest(self._key, use, "sha256")


def _use(webhook_id: UUID) -> bytes:
    return b"engramq webhook secret\0" + webhook_id.bytes


def signing_key(settings: Settings) -> SigningKey:
    """Return the key that ENGRAMQ_WEBHOOKS_KEY names, else that of the home, made at its first use.

    Raises SettingsError for a key that is too short, or that others could have read.
    """
    if settings.webhooks_key:
        if len(settings.webhooks_key) < LEAST_KEY_CHARS:
            raise SettingsError(f"ENGRAMQ_WEBHOOKS_KEY: it has fewer than {LEAST_KEY_CHARS} characters.")
        return SigningKey(settings.webhooks_key.encode())
    try:
        return SigningKey(read_or_make_secret(settings.home / KEY_FILE))
    except OSError as problem:
        raise SettingsError(f"ENGRAMQ_WEBHOOKS_KEY: it is not set, and the home keeps no key: {problem}.") from None


TRY_S: Final = 10.0  # for the name, the connection and the answer
_RECEIVED: Final = range(200, 300)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """The message for one webhook."""

    id: UUID
    webhook_id: UUID
    url: str
    event: str
    at: datetime
    data: Mapping[str, Any]

    def body(self) -> bytes:
        """Return the message as it is sent and signed."""
        return msgspec.json.encode({"type": self.event, "timestamp": format_time(self.at), "data": self.data})


class Sender:
    """Tells messages; used as `async with`."""

    def __init__(
        self, key: SigningKey, *, private: bool, look: ResolveHost = resolve_host, try_s: float = TRY_S
    ) -> None:
        self._key = key
        self._private = private
        self._look = look
        self._try_s = try_s
        import httpx  # noqa: PLC0415 - 5 MB and 0.1 s of imports, for who has webhooks

        self._unreachable = (httpx.HTTPError, httpx.InvalidURL, OSError)
        self._url = httpx.URL
        self._http = httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=try_s)

    @classmethod
    def by_settings(cls, key: SigningKey, settings: Settings) -> Self:
        """Return a sender that goes where the settings let it."""
        return cls(key, private=settings.webhooks_private)

    async def __aenter__(self) -> Self:
        """Return the sender."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def tell(self, message: WebhookMessage) -> str | None:
        """Return None when the receiver took the message, else in words why not."""
        try:
            with anyio.fail_after(self._try_s):
                status = await self._post(message)
        except TimeoutError:
            return f"no answer within {self._try_s:g} s"
        except NotAllowed as refused:
            return str(refused)
        except self._unreachable as problem:
            why = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            return f"it cannot be reached: {why}"[:200]
        return None if status in _RECEIVED else f"answered {status}"

    async def _post(self, message: WebhookMessage) -> int:
        parts = urlsplit(message.url)
        address = await address_for(message.url, private=self._private, look=self._look)
        body = message.body()
        headers = {
            "host": parts.netloc,
            "content-type": "application/json",
            "user-agent": "engramq-webhooks/1",
            **self._key.headers(message.webhook_id, message.id, int(time.time()), body),
        }
        url = self._url(message.url).copy_with(host=address)
        # The certificate is checked against the name, though the connection goes to the address.
        named = {"sni_hostname": parts.hostname}
        async with self._http.stream("POST", url, content=body, headers=headers, extensions=named) as answer:
            return answer.status_code  # of the body nothing is read
