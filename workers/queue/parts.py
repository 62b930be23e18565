"""Send a long answer in parts, each once there is room for it; see schemas/parts.py."""

import time
from typing import Any, Final

from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.parts import KEPT_S, STALLED_S, Part, encode_part

_WAIT_S: Final = 1  # for room at a time, so that a lost connection is noticed


class PartSender:
    """Sends the parts of one channel."""

    def __init__(self, redis: Any, keys: Keys, channel: str) -> None:
        self._redis = redis
        self._parts, self._room = keys.parts(channel), keys.room(channel)

    async def send(self, part: Part) -> None:
        """Send a part when there is room for it; raises EngramqError when nobody takes any, CLIENT_ERRORS."""
        until = time.monotonic() + STALLED_S
        while await self._redis.blpop([self._room], _WAIT_S) is None:
            if time.monotonic() > until:
                raise refuse(FaultCode.UNAVAILABLE, f"Nobody has taken a part for {STALLED_S} s.")
        # In one message: a worker that ends between the two would leave what memories say there for good.
        async with self._redis.pipeline(transaction=False) as batch:
            batch.rpush(self._parts, encode_part(part))
            batch.expire(self._parts, KEPT_S)
            await batch.execute()
