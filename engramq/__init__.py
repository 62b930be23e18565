"""Long-term memory for AI agents that a team can run in production.

`from engramq import Memory, AsyncMemory` gives the clients. They are loaded when they are first named: with httpx they
take 0.2 s, which no process of the server, and no `engramq stdio`, is to wait for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engramq.client import AsyncMemory, Memory

__all__ = ["AsyncMemory", "Memory"]


def __getattr__(name: str) -> Any:
    """Return a client by its name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from engramq import client  # noqa: PLC0415 - see above

    return getattr(client, name)
