"""The lanes of an installation: which there are, where each one's server is, and which namespace is on which.

Without a cluster and with one lane there is one, whose keys have no hash tag. A lane that is no longer among those of
the settings is a former one: a worker serves it from when anything is in it until nothing has been for a while. The
`mark` is the most lanes that there have ever been.
"""

import hashlib
import itertools
from functools import cache
from typing import Final, NamedTuple

from engramq.schemas.keys import Keys
from engramq.schemas.redis_urls import is_cluster
from engramq.schemas.sentinel import server_of
from engramq.schemas.servers import SLOTS, Cluster, ClusterServer, Server, slot_of
from engramq.schemas.settings import Settings

_STEP: Final = 2862933555777941757  # of the generator in "A Fast, Minimal Memory, Consistent Hash Algorithm" (2014)
_WORD: Final = 2**64 - 1
_GOLDEN: Final = (5**0.5 - 1) / 2
_FIRST: Final = 0.11  # so that two lanes are on two of two masters, three on three of three
_NEAR: Final = 128  # slots


class Lane(NamedTuple):
    """A queue: its keys, and where the server is that has them."""

    keys: Keys
    redis: Server


class Lanes:
    """All lanes of an installation, for one process."""

    def __init__(self, redis_url: str, key_prefix: str, count: int = 1) -> None:
        self._prefix = key_prefix
        self._cluster = Cluster(redis_url) if is_cluster(redis_url) else None
        self._server = None if self._cluster else server_of(redis_url)  # that of all lanes, where there is no cluster
        self.tagged = self._cluster is not None or count > 1
        self.all = tuple(self._lane(number, count) for number in range(count)) if self.tagged else (self._plain(),)
        # Where any server has any key the mark has no tag, so that an installation without lanes uses no key with one.
        self.mark = f"{key_prefix}:lanes" if self._cluster is None else f"{tag_of(key_prefix, 0)}:lanes"
        self.mark_keys = (self.mark,) if self._cluster is None else (self.mark, *self.first.keys.guard)  # of a script

    @property
    def first(self) -> Lane:
        """The lane that has what belongs to no namespace."""
        return self.all[0]

    def of(self, namespace: str) -> Lane:
        """Return the lane of a namespace."""
        return self.all[lane_of(namespace, len(self.all))]

    def held(self, namespace: str, most: int) -> dict[str, Lane]:
        """Return by prefix, the present one first, the lanes that may hold something of a namespace.

        Those are where any number of lanes up to `most` put it, whatever number came after which.
        """
        of_now = self.of(namespace)
        found = {of_now.keys.prefix: of_now}
        for count in range(1, max(most, len(self.all)) + 1):
            plain = self._cluster is None and count == 1
            lane = self._plain() if plain else self._lane(lane_of(namespace, count), count)
            found.setdefault(lane.keys.prefix, lane)
        return found

    def former(self, most: int) -> dict[str, Lane]:
        """Return by prefix the lanes that are none of these, where there have been `most` of them."""
        lanes = [self._lane(number, max(most, len(self.all))) for number in range(most)]
        if self._cluster is None and self.tagged:
            lanes.append(self._plain())
        ours = {lane.keys.prefix for lane in self.all}
        return {lane.keys.prefix: lane for lane in lanes if lane.keys.prefix not in ours}

    def _plain(self) -> Lane:
        return Lane(Keys(self._prefix), self._server_of(self._prefix))

    def _lane(self, number: int, count: int) -> Lane:
        keys = Keys(tag_of(self._prefix, number), lanes=count)
        return Lane(keys, self._server_of(keys.prefix))

    def _server_of(self, prefix: str) -> Server:
        if self._server is not None:
            return self._server
        assert self._cluster is not None
        return ClusterServer(self._cluster, prefix)


def lanes_of(settings: Settings) -> Lanes:
    """Return the lanes that settings ask for."""
    return Lanes(settings.redis_url, settings.key_prefix, settings.lanes)


@cache
def tag_of(prefix: str, number: int) -> str:
    """Return the hash tag of a lane: the first whose slot is near its own point of all slots.

    Points that lie a golden section apart are spread evenly, however many there are: so every master of equal ranges
    has its share of any number of lanes.
    """
    wanted = (_FIRST + number * _GOLDEN) % 1 * SLOTS
    tags = (f"{{{prefix}:{number}.{trial}}}" for trial in itertools.count())
    return next(tag for tag in tags if abs(slot_of(tag) - wanted) <= _NEAR)


def lane_of(namespace: str, lanes: int) -> int:
    """Return the number of the lane of a namespace; with one lane more, only its share of the namespaces moves."""
    if lanes == 1:
        return 0
    state = int.from_bytes(hashlib.blake2b(namespace.encode(), digest_size=8).digest())
    lane, following = 0, 0
    while following < lanes:
        lane = following
        state = (state * _STEP + 1) & _WORD
        following = int((lane + 1) * (2**31 / ((state >> 33) + 1)))
    return lane
