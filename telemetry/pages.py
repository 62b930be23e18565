"""Give back the pages of files that only the loading of libraries has touched. Linux only; elsewhere nothing is done.

Around each page that is read the kernel maps its neighbours, so a process that has loaded a library holds most of it:
of 59 MB in a home's worker, searches and stores use 17. A page that is read again comes from the system's cache.
"""

import asyncio
import ctypes
import mmap
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from anyio import to_thread

LOOK_S: Final = 5.0  # between two looks
USED_S: Final = 60.0  # until what is in use is there again
WORTH_BYTES: Final = 4 * 2**20  # of pages more than are in use
MUCH_KB: Final = 128  # in one region
# Python never unloads an extension. Another file may be unmapped at any moment; what takes its place is written to.
_LIBRARY: Final = re.compile(r"/.*\.so(\.\d+)*$")
_STATM: Final = Path("/proc/self/statm")
_SMAPS: Final = Path("/proc/self/smaps")
_DONTNEED: Final = 4  # MADV_DONTNEED of Linux: the pages are read from the file again


class Region(NamedTuple):
    """A part of the memory that shows a part of a library, to be read only, and that nobody has changed."""

    start: int
    end: int
    file: str  # with offset, device and inode


@asynccontextmanager
async def giving_back_pages(look_s: float = LOOK_S) -> AsyncIterator[None]:
    """Look for as long as the block lasts, and give pages back where enough have come."""
    if not _SMAPS.exists():
        yield
        return
    looking = asyncio.create_task(_give_back_again(look_s))
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def _give_back_again(look_s: float) -> None:
    used = 0
    while True:
        await asyncio.sleep(look_s)
        if file_bytes() > used + WORTH_BYTES:
            before = await to_thread.run_sync(unchanged_regions)
            await asyncio.sleep(look_s)
            await to_thread.run_sync(give_back, before)
            await asyncio.sleep(USED_S)
            used = file_bytes()


def file_bytes() -> int:
    """Return how many bytes of files this process holds in memory; 0 where the system does not say so."""
    with suppress(OSError, ValueError, IndexError):
        return int(_STATM.read_text(encoding="ascii").split()[2]) * mmap.PAGESIZE
    return 0


def give_back(before: frozenset[Region]) -> None:
    """Give back the pages of regions that stand as they stood `before`, some seconds ago.

    A new region may be of a library that is being loaded. It covers memory that the library will write to.
    """
    advise = ctypes.CDLL(None).madvise
    for region in unchanged_regions() & before:
        advise(ctypes.c_void_p(region.start), ctypes.c_size_t(region.end - region.start), _DONTNEED)


def unchanged_regions() -> frozenset[Region]:
    """Return the regions of this process that hold much, none where the system does not say so."""
    with suppress(OSError), _SMAPS.open(encoding="utf-8", errors="replace") as lines:
        return frozenset(_unchanged(lines))
    return frozenset()


def _unchanged(lines: Iterable[str]) -> Iterator[Region]:
    head, figures = "", dict[str, int]()
    for line in lines:
        name, _, figure = line.partition(":")
        if "-" in name:  # `start-end rights offset device:inode file`, and then its figures
            yield from _region_in(head, figures)
            head, figures = line, {}
        elif name in {"Rss", "Anonymous", "Swap"}:
            figures[name] = int(figure.split()[0])
    yield from _region_in(head, figures)


def _region_in(head: str, figures: Mapping[str, int]) -> Iterator[Region]:
    # A written page is anonymous while it is in memory, and in `Swap` alone once it is not; either would be lost.
    if figures.get("Rss", 0) >= MUCH_KB and figures.get("Anonymous") == figures.get("Swap") == 0:
        place, rights, file = head.split(None, 2)
        if rights.startswith("r-") and _LIBRARY.search(file.rstrip()):
            start, end = place.split("-")
            yield Region(int(start, 16), int(end, 16), file.rstrip())
