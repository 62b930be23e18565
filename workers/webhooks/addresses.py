"""Where a webhook may go: to addresses that the whole world reaches, so that nobody asks our own network by way of us.

A name is looked up once for each try, and the connection goes to the address that was judged.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from engramq.schemas.faults import invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
LookUp = Callable[[str, int], Awaitable[Sequence[str]]]

URL_CHARS: Final = 2_000
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_PORTS: Final = {"https": 443, "http": 80}


class NotAllowed(Exception):
    """The address is none that a webhook may go to."""


async def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host. Raises OSError when it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in found]


def check_url(url: str, *, private: bool) -> str:
    """Return the URL of a webhook; raises EngramqError for one that cannot be told anything.

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


_HOW: Final = "ENGRAMQ_WEBHOOKS_PRIVATE=1 allows http and private addresses."


async def address_for(url: str, *, private: bool, look: LookUp = look_up) -> str:
    """Return the address to connect to for a URL; raises NotAllowed, or OSError when the name has none.

    A name with any private address is refused as a whole: which of them is asked would be chance.
    """
    parts = urlsplit(url)
    found = await look(parts.hostname or "", parts.port or _PORTS[parts.scheme])
    if not found:
        raise OSError("the name has no address")
    if not private and not all(is_public(ipaddress.ip_address(one.partition("%")[0])) for one in found):
        raise NotAllowed("the name has an address of a private network")
    return found[0]


def is_public(address: Address) -> bool:
    """Say whether an address, and every other that is wrapped in it, is one that the whole world reaches."""
    if isinstance(address, ipaddress.IPv6Address):
        within: list[Address | None] = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            within.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if any(one is not None and not is_public(one) for one in within):
            return False
        if address.ipv4_mapped is not None:
            return True
    return address.is_global and not address.is_multicast
