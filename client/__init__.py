"""The Python client, over REST: `Memory`, and `AsyncMemory` for asyncio and trio.

Replies are the Structs of `engramq.schemas`. A field that a reply does not have is `msgspec.UNSET`, which is false.
"""

from engramq.client.call import EngramqFailure, Erased, NotReached, Refused, StillPending
from engramq.client.exchange import Policy
from engramq.client.memory import AsyncMemory, Memory
from engramq.evidence.files import NotCitable, cite

__all__ = [
    "AsyncMemory",
    "EngramqFailure",
    "Erased",
    "Memory",
    "NotCitable",
    "NotReached",
    "Policy",
    "Refused",
    "StillPending",
    "cite",
]
