"""Pages of files that only loading has touched are given back, and nothing that anybody has written."""

import asyncio
import ctypes
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from engramq.telemetry import pages
from engramq.telemetry.pages import Region, give_back, giving_back_pages, unchanged_regions

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are given back on Linux")

SIZE: Final = 8 * 2**20
BOUND_S: Final = 30.0


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[mmap.mmap]:
    """A file that is mapped for this process alone, as a library is, and was read."""
    file = tmp_path / "library.so.1"
    file.write_bytes(bytes(range(256)) * (SIZE // 256))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), SIZE, flags=mmap.MAP_PRIVATE, prot=3) as private:
        assert sum(private[:: mmap.PAGESIZE]) == 0
        yield private


def protect(mapped: mmap.mmap) -> None:
    """Let nobody write to it from now on."""
    start = ctypes.addressof(ctypes.c_char.from_buffer(mapped))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start), ctypes.c_size_t(SIZE), mmap.PROT_READ) == 0


def resident_kb(path: Path) -> int:
    lines = Path("/proc/self/smaps").read_text().splitlines()
    starts = [number for number, line in enumerate(lines) if line.endswith(str(path))]
    return sum(int(next(line for line in lines[start:] if line.startswith("Rss:")).split()[1]) for start in starts)


def filter_regions(regions: frozenset[Region], path: Path) -> list[Region]:
    return [region for region in regions if region.file.endswith(str(path))]


def test_what_was_read_is_given_back_and_reads_the_same_again(mapped: mmap.mmap, tmp_path: Path) -> None:
    path = tmp_path / "library.so.1"
    protect(mapped)
    assert resident_kb(path) == SIZE // 1024
    give_back(unchanged_regions())
    assert resident_kb(path) == 0
    assert mapped[:256] == bytes(range(256))
    assert mapped[-256:] == bytes(range(256))


def test_what_somebody_has_written_stays(mapped: mmap.mmap, tmp_path: Path) -> None:
    mapped[5000:5007] = b"written"
    protect(mapped)
    give_back(unchanged_regions())
    assert mapped[5000:5007] == b"written"
    assert resident_kb(tmp_path / "library.so.1") == SIZE // 1024


def test_what_may_still_be_written_is_no_region(mapped: mmap.mmap, tmp_path: Path) -> None:
    assert filter_regions(unchanged_regions(), tmp_path / "library.so.1") == []
    protect(mapped)
    assert len(filter_regions(unchanged_regions(), tmp_path / "library.so.1")) == 1


REGION: Final = """\
7f{}00000-7f{}80000 r--p 00000000 08:01 42 /usr/lib/lib{}.so.1
Rss: 512 kB
Anonymous: {} kB
Swap: {} kB
VmFlags: rd mr mw me
"""


def test_what_was_written_and_swapped_out_is_no_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smaps = tmp_path / "smaps"
    told = (("a", 0, 0), ("b", 0, 4), ("c", 4, 0), ("d", 0, 0))
    smaps.write_text("".join(REGION.format(name, name, name, held, swapped) for name, held, swapped in told))
    monkeypatch.setattr(pages, "_SMAPS", smaps)
    assert {region.file.rpartition("/")[2] for region in unchanged_regions()} == {"liba.so.1", "libd.so.1"}


def test_a_region_of_which_not_all_is_said_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(REGION.format("a", "a", "a", 0, 0).replace("Swap: 0 kB\n", ""))
    monkeypatch.setattr(pages, "_SMAPS", smaps)
    assert unchanged_regions() == frozenset()


def test_a_file_that_may_be_unmapped_is_no_region(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_bytes(bytes(SIZE))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), SIZE, prot=mmap.PROT_READ) as shown:
        assert sum(shown[:: mmap.PAGESIZE]) == 0
        assert filter_regions(unchanged_regions(), file) == []


def test_what_was_not_there_before_stays(mapped: mmap.mmap, tmp_path: Path) -> None:
    before = unchanged_regions()
    protect(mapped)
    give_back(before)
    assert resident_kb(tmp_path / "library.so.1") == SIZE // 1024


async def test_a_process_gives_back_what_it_holds_and_looks_at_nothing_until_more_comes(
    mapped: mmap.mmap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, looks = asyncio.Event(), []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(pages, "USED_S", 0.0)

    def note(before: frozenset[Region]) -> None:
        give_back(before)
        looks.append(resident_kb(tmp_path / "library.so.1"))
        loop.call_soon_threadsafe(given.set)

    monkeypatch.setattr(pages, "give_back", note)
    protect(mapped)
    async with asyncio.timeout(BOUND_S), giving_back_pages(look_s=0.001):
        await given.wait()
    assert looks[0] == 0


async def test_where_the_system_says_nothing_of_its_memory_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_SMAPS", tmp_path / "none")
    monkeypatch.setattr(pages, "_STATM", tmp_path / "none")
    assert (unchanged_regions(), pages.file_bytes()) == (frozenset(), 0)
    tasks = asyncio.all_tasks()
    async with giving_back_pages():
        assert asyncio.all_tasks() == tasks
