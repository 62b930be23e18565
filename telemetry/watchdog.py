"""systemd's watchdog: where the unit of a process asks for it, the event loop says that it turns.

One that stands still says nothing, and systemd starts the process anew. It is the protocol of sd_notify(3): a datagram
to the socket that NOTIFY_SOCKET names.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

log = logging.getLogger(__name__)

TURNS: Final = b"WATCHDOG=1"
OFTEN: Final = 3  # times in the time that systemd waits


@asynccontextmanager
async def telling_watchdog(environ: Mapping[str, str] | None = None) -> AsyncIterator[None]:
    """Say it for as long as the block lasts; nothing where nobody asks this process."""
    environ = os.environ if environ is None else environ
    address, microseconds = environ.get("NOTIFY_SOCKET", ""), environ.get("WATCHDOG_USEC", "")
    is_for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    if not (is_for_us and address and microseconds.isdigit()):
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifier:
        notifier.setblocking(False)
        telling = asyncio.create_task(_tell(notifier, address, int(microseconds) / 1_000_000 / OFTEN))
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.wait([telling])


async def _tell(notifier: socket.socket, address: str, every_s: float) -> None:
    place = "\0" + address[1:] if address.startswith("@") else address
    while True:
        try:
            notifier.sendto(TURNS, place)
        except OSError as problem:  # systemd is busy, or begins anew: it waits for the next one
            log.warning("The watchdog cannot be told", extra={"error": type(problem).__name__})
        await asyncio.sleep(every_s)
