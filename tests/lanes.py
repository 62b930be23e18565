"""The lanes of a test that has one, by its keys."""

from engramq.schemas.connection import Lanes, Server
from engramq.schemas.keys import Keys


def lanes_at(redis: str | Server, keys: Keys) -> Lanes:
    """Return the lanes of an installation whose only lane has these keys."""
    lanes = Lanes(redis, keys.prefix.strip("{}").partition(":")[0])
    lanes.all = (keys,)
    return lanes
