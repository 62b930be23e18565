"""How many connections the HTTP door has, how many of them one address may hold, and what each may cost in time."""

import ipaddress
import resource
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from engramq.gateway.limits import network_of

_FILES_OF_OUR_OWN: Final = 256  # Redis, stdio sessions, logs, and what Python opens


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a connection may take: bytes, seconds, and a place among the others.

    A request's head, and what frames its body beside the body itself (chunk sizes, trailers), has at most
    `header_bytes`, and `header_s` from its first byte; a body has `body_s`. A client may take `write_s` to read what it
    asked for. Who is refused has `linger_s` to read why. Beyond `connections` or `share` of one address a few are still
    heard for `spare_s`, and only their question after the server's health is answered.
    """

    header_bytes: int = 64 * 1024
    headers: int = 200
    header_s: float = 10.0
    body_s: float = 30.0
    write_s: float = 60.0
    linger_s: float = 2.0
    connections: int = 2_000
    share: int = 500
    spare: int = 64
    spare_of_one: int = 8
    spare_s: float = 2.0


BOUNDS: Final = Bounds()


class Standing(Enum):
    """What a new connection gets."""

    SERVED = "served"
    SPARE = "asked for nothing but the server's health"
    REFUSED = "refused"


class Connections:
    """Counts the connections by the address at their other end; a network of IPv6 with 64 bits is one address.

    Trusted proxies have no share: many clients come by way of each.
    """

    def __init__(self, bounds: Bounds, proxies: Iterable[str] = ()) -> None:
        self._bounds = bounds
        self._proxies = [ipaddress.ip_network(proxy) for proxy in proxies]
        self._held: dict[Standing, Counter[str]] = {Standing.SERVED: Counter(), Standing.SPARE: Counter()}
        self._all = {Standing.SERVED: 0, Standing.SPARE: 0}

    def enter(self, address: str) -> Standing:
        """Count a connection and say what it gets; whoever is not refused has to `leave`."""
        bounds, one = self._bounds, network_of(address)
        room = {
            Standing.SERVED: self._all[Standing.SERVED] < bounds.connections
            and (self._held[Standing.SERVED][one] < bounds.share or self._is_proxy(address)),
            Standing.SPARE: self._all[Standing.SPARE] < bounds.spare
            and self._held[Standing.SPARE][one] < bounds.spare_of_one,
        }
        for standing, is_free in room.items():
            if is_free:
                self._held[standing][one] += 1
                self._all[standing] += 1
                return standing
        return Standing.REFUSED

    def leave(self, address: str, standing: Standing) -> None:
        """Take a connection off the count."""
        held, one = self._held[standing], network_of(address)
        self._all[standing] -= 1
        held[one] -= 1
        if not held[one]:
            del held[one]

    def _is_proxy(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        mapped = getattr(parsed, "ipv4_mapped", None)  # of an IPv6 address that stands for one of IPv4
        return any((mapped or parsed) in network for network in self._proxies)


def room_for(bounds: Bounds) -> Bounds:
    """Return the bounds as far as this process may open files; it asks for as many as it needs, if it may have them."""
    needed = bounds.connections + bounds.spare + _FILES_OF_OUR_OWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return bounds
    connections = max(16, soft - bounds.spare - _FILES_OF_OUR_OWN)
    share = max(8, bounds.share * connections // bounds.connections)
    return replace(bounds, connections=connections, share=share)
