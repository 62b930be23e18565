"""The lanes of an installation: queues beside each other, whose number is chosen once, at the installation.

A lane is a whole queue (mailboxes, replies, sessions, dead letters, leases) under one hash tag, so that all its keys
are at one master of a Redis Cluster. A namespace is on one lane, by a hash of its name. With one lane, and no cluster,
no key has a tag. The number changes only while nothing waits in any lane and nobody uses one: see `require_number`.
"""

import hashlib
import itertools
import time
from functools import cache
from typing import Any, Final

from redis.crc import key_slot
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import RedisClusterException

from engramq.schemas.jobs import ALIVE_S, REGISTER_S
from engramq.schemas.keys import Keys
from engramq.schemas.servers import ClusterServer, Server, UnsupportedServer, server_of
from engramq.schemas.settings import Settings

SLOTS: Final = 16_384
_GOLDEN: Final = (5**0.5 - 1) / 2
_FIRST: Final = 0.11  # so that two lanes are on two of two masters, three on three of three
_NEAR: Final = 128  # slots
_NUMBER_S: Final = 5.0  # for each answer about the number of lanes


class Lanes:
    """Where Redis is, and the keys of every lane there; shared by all parts of a process."""

    def __init__(self, redis: str | Server, key_prefix: str, count: int = 1) -> None:
        self.server = server_of(redis)
        tagged = count > 1 or isinstance(self.server, ClusterServer)
        self.all = _keys_of(key_prefix, count, tagged=tagged)
        self._prefix = key_prefix
        self._number_key = f"{key_prefix}:lanes"  # string: how many lanes there are; without it one
        self.number_is_right = False  # it is known to be the installation's

    @property
    def first(self) -> Keys:
        """The lane that has what belongs to no namespace."""
        return self.all[0]

    def of(self, namespace: str) -> Keys:
        """Return the lane of a namespace."""
        return self.all[lane_of(namespace, len(self.all))]

    async def require_number(self) -> None:
        """Take the number of lanes for the installation's.

        Raises UnsupportedServer when another number is in use: processes of that number live, or something waits in
        their lanes. Raises RedisError, OSError.
        """
        if self.number_is_right:
            return
        client: Any = self.server.client(timeout_s=_NUMBER_S)
        try:
            known = int(await client.get(self._number_key) or 1)
            if known != len(self.all):
                await self._change_number(client, known)
        except RedisClusterException as problem:
            raise NotConnected(str(problem)) from problem
        finally:
            await client.aclose()
        self.number_is_right = True

    async def _change_number(self, client: Any, known: int) -> None:
        tagged = known > 1 or isinstance(self.server, ClusterServer)
        if used := await _use_of(client, _keys_of(self._prefix, known, tagged=tagged)):
            raise UnsupportedServer(
                f"ENGRAMQ_LANES is {len(self.all)}, but this Redis is used with {known}: {', '.join(used)}. Set it to "
                f"{known} until `engramq status` shows nothing that waits and no dead letter, stop all workers and "
                f"gateways, wait {REGISTER_S * 2:.0f} s, then start them with the new number."
            )
        await client.set(self._number_key, len(self.all))


def lanes_of(settings: Settings) -> Lanes:
    """Return the lanes that settings ask for."""
    return Lanes(settings.redis_url, settings.key_prefix, settings.lanes)


async def _use_of(client: Any, lanes: tuple[Keys, ...]) -> list[str]:
    """Return what is in lanes and who uses them, as parts of a sentence; nothing where they are empty."""
    jobs = dead = workers = gateways = 0
    now = time.time()
    for keys in lanes:
        gateways += await client.zcount(keys.reply_lists, now - 2 * REGISTER_S, "+inf")
        for kind in keys.of.values():
            jobs += await client.zcard(kind.mailbox)
            dead += await client.zcard(kind.dead_index)
            workers += await client.zcount(kind.alive, now - 3 * ALIVE_S, "+inf")
    counts = {"waiting jobs": jobs, "dead letters": dead, "mailboxes with workers": workers, "gateways": gateways}
    return [f"{count} {what}" for what, count in counts.items() if count]


def _keys_of(prefix: str, count: int, *, tagged: bool) -> tuple[Keys, ...]:
    if not tagged:
        return (Keys(prefix),)
    return tuple(Keys(tag_of(prefix, number), lanes=count) for number in range(count))


def slot_of(key: str) -> int:
    """Return the slot of a key, as a Redis Cluster counts it: CRC16 of its hash tag, or of all of it."""
    return int(key_slot(key.encode()))


@cache
def tag_of(prefix: str, number: int) -> str:
    """Return the hash tag of a lane: the first whose slot is near its own point of all slots.

    Points that lie a golden section apart are spread evenly, however many there are: so every master of equal ranges
    has its share of any number of lanes.
    """
    wanted = (_FIRST + number * _GOLDEN) % 1 * SLOTS
    tags = (f"{{{prefix}:{number}.{trial}}}" for trial in itertools.count())
    return next(tag for tag in tags if abs(slot_of(tag) - wanted) <= _NEAR)


def lane_of(namespace: str, count: int) -> int:
    """Return the number of the lane of a namespace."""
    if count == 1:
        return 0
    return int.from_bytes(hashlib.blake2b(namespace.encode(), digest_size=8).digest()) % count
