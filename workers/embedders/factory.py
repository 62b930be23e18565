"""Make the embedder that ENGRAMQ_EMBEDDER names, and keep its name in the home once it has made vectors.

Knows: the names that the setting accepts. Refuses to know: what workers do with vectors.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from engramq.schemas.embedder_choice import KeptEmbedder, encode_choice, endpoint_problem, kept_in
from engramq.schemas.settings import Settings
from engramq.workers.db.memory_rows import when_erased
from engramq.workers.embedders import hashing
from engramq.workers.embedders.e5 import build as e5
from engramq.workers.embedders.fastembed import FastembedEmbedder
from engramq.workers.embedders.interface import Embedder
from engramq.workers.embedders.minilm import MiniLmEmbedder
from engramq.workers.embedders.onnx_folder import OnnxEmbedder, read_folder

_ACCEPTED = "minilm, openai:<model>, openai:<model>@<dimensions>, onnx:<folder>, e5 or fastembed:<model>"
when_erased(hashing.forget_texts)


def create_embedder(name: str, url: str | None = None, *, key: str = "", home: Path | None = None) -> Embedder:
    """Return the embedder that `name` (ENGRAMQ_EMBEDDER) asks for; nothing is loaded or reached yet.

    `url` (ENGRAMQ_EMBEDDER_URL; empty: OpenAI's own) and `key` (ENGRAMQ_EMBEDDER_KEY; for OpenAI's own endpoint
    OPENAI_API_KEY serves too) matter to `openai:` only, `home` (ENGRAMQ_HOME; None: there is none) to what is built
    there. Raises ValueError naming the setting and what it accepts.
    """
    kind, separator, model = name.partition(":")
    if name == "minilm":
        return MiniLmEmbedder()
    if name == hashing.NAME:  # of tests: what accepts it says nothing of it
        return hashing.HashEmbedder()
    if name == "e5":
        return _e5(home)
    if kind == "onnx" and model:
        return _onnx(name, Path(model).expanduser())
    if kind == "fastembed" and model:
        return FastembedEmbedder(name, model, home=home)
    if kind == "openai" and separator:
        return _openai(name, model, url or "", key)
    raise ValueError(f"ENGRAMQ_EMBEDDER={name!r} is not an embedder; accepted are {_ACCEPTED}")


def _e5(home: Path | None) -> Embedder:
    if home is None or not e5.is_built(home):
        where = "" if home is None else f" in {home}"
        raise ValueError(f"ENGRAMQ_EMBEDDER='e5': the model is not built{where}; {e5.MEND}")
    return e5.e5_embedder(e5.folder_in(home))


def _onnx(name: str, folder: Path) -> Embedder:
    if not folder.is_absolute():
        raise ValueError(f"ENGRAMQ_EMBEDDER={name!r} must name an absolute folder, as onnx:/srv/models/mine")
    try:
        return OnnxEmbedder(name, read_folder(folder))
    except ValueError as problem:
        raise ValueError(f"ENGRAMQ_EMBEDDER={name!r}: {problem}") from None


def _openai(name: str, model: str, url: str, key: str) -> Embedder:
    from engramq.workers.embedders import openai  # noqa: PLC0415 - httpx: memory and start-up time that other embedders never need

    # Model names may hold colons, slashes and @ themselves: only what follows the last @ is read, as a number.
    bare, at, dimensions = model.rpartition("@")
    if not at:
        bare, dimensions = model, "0"
    if not bare or not (dimensions.isascii() and dimensions.isdigit()) or (at and int(dimensions) == 0):
        raise ValueError(f"ENGRAMQ_EMBEDDER={name!r} is not an embedder; accepted are {_ACCEPTED}")
    # A key for OpenAI is shown to nobody else: another endpoint gets what was set for it, or nothing.
    key = key or os.environ.get("ENGRAMQ_EMBEDDER_KEY") or ("" if url else os.environ.get("OPENAI_API_KEY")) or ""
    if (problem := endpoint_problem(name, url, key)) is not None:
        raise ValueError(problem)
    url = url or openai.DEFAULT_URL
    if not (url.startswith(("http://", "https://")) and urlsplit(url).netloc):
        raise ValueError("ENGRAMQ_EMBEDDER_URL must look like http://host:port/v1 or https://host/v1")
    if not (key.isascii() and key.isprintable()):
        raise ValueError("ENGRAMQ_EMBEDDER_KEY (or OPENAI_API_KEY) holds a character that no HTTP header can carry")
    return openai.OpenAiEmbedder(openai.Endpoint(model=bare, url=url, dimensions=int(dimensions)), key=key)


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
        new.write_text(encode_choice(self._kept), "utf-8")
        new.replace(self._file)
