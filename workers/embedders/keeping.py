"""Writes to a home's file which embedder makes its vectors, once it has made some: any name may be set."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from engramq.schemas.kept_embedder import KeptEmbedder, kept_in, text_of
from engramq.schemas.settings import Settings

log = logging.getLogger(__name__)


class EmbedderFile:
    """One per process that is the worker of a home."""

    def __init__(self, file: Path, settings: Settings) -> None:
        """`file`: the home's, which its supervisor names."""
        self._file = file
        self._kept = KeptEmbedder(settings.embedder, settings.embedder_url)
        self._made = asyncio.Event()
        self.settled = asyncio.Event()  # it is written, or cannot be

    def seen(self, _texts: int, _taken_s: float, made: bool) -> None:
        """Note one batch of texts; `made`: the model made their vectors."""
        if made:
            self._made.set()

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Write the file at the first vectors that are made while the block lasts."""
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(self._write_when_made())
            try:
                yield
            finally:
                writing.cancel()

    async def _write_when_made(self) -> None:
        await self._made.wait()
        try:
            await asyncio.to_thread(self._write)
        except OSError as problem:
            error = f"{type(problem).__name__}: {problem.strerror}"
            log.error("The home's embedder cannot be kept", extra={"file": str(self._file), "error": error})
        self.settled.set()

    def _write(self) -> None:
        if self._file.exists() and kept_in(self._file.read_text("utf-8", "replace")) == self._kept:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        new.unlink(missing_ok=True)
        new.touch(0o600, exist_ok=False)
        new.write_text(text_of(self._kept), "utf-8")
        new.replace(self._file)
