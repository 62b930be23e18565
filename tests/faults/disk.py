"""A small disk of a stack's own, to be filled; takes root."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SIZE_MB = 300


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Mount a small file system at a folder for as long as the block lasts."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@contextmanager
def made_read_only(folder: Path) -> Iterator[None]:
    """Let nobody open a file below a folder for writing while the block lasts; what is open stays so."""
    subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill the file system of a folder to the last byte for as long as the block lasts."""
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65_536)
    try:
        yield
    finally:
        filler.unlink()
