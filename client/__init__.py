"""The Python client, over REST: `Memory`, and `AsyncMemory` for asyncio and trio.

Replies are the Structs of `engramq.schemas`. A field that a reply does not have is `msgspec.UNSET`, which is false.
"""

from engramq.client.async_memory import AsyncMemory
from engramq.client.failures import EngramqFailure, Erased, NotReached, Refused, StillPending
from engramq.client.memory import Memory
from engramq.client.policy import Policy

__all__ = [
    "AsyncMemory",
    "EngramqFailure",
    "Erased",
    "Memory",
    "NotReached",
    "Policy",
    "Refused",
    "StillPending",
]
