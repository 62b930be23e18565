"""Send an export of the namespace as a file that the browser saves, and say how far it is.

One command reads one snapshot, and its worker sends the lines in parts, a few ahead of the browser (schemas/parts.py):
pages that are asked for one by one would need a transaction that waits for requests, and so its process. A visitor that
stops the download ends the command, as with every read. A file that breaks off lacks its last chunk, so that the
browser says that it failed, and the line by which a reader of exports knows the end, or what its form ends with.
"""

import io
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

import anyio
from starlette.responses import Response, StreamingResponse

from engramq.gateway.parts import AnswerBrokenOff, AnswerProgress
from engramq.gateway.router import while_there
from engramq.gateway.ui.memories import count_memories
from engramq.gateway.ui.request import PageRequest
from engramq.schemas.connection import CLIENT_ERRORS
from engramq.schemas.exports import ExportForm, ExportFormat
from engramq.schemas.faults import FaultCode, invalid, refuse
from engramq.schemas.parts import PART_BYTES, Part
from engramq.schemas.vocabulary import Scope

# How a file is called at its end, and its type.
_FILES: Final = {
    ExportFormat.ENGRAMQ: ("jsonl", "application/jsonl"),
    ExportFormat.MARKDOWN: ("zip", "application/zip"),
    ExportFormat.MEM0: ("json", "application/json"),
    ExportFormat.MCP_MEMORY: ("jsonl", "application/jsonl"),
}
# Of an export in the form of another program, whose writer holds some of it in the process that serves everybody:
# memories that may be in one, and bytes of lines of memories, nodes and edges, of texts that are long.
FORM_MEMORIES: Final = 20_000
HELD_BYTES: Final = 64 * 1024 * 1024
_OWN_ID: Final = re.compile(r"[0-9a-f-]{36}")
_NO_FILE_NAME: Final = re.compile(r"[^\w.-]", re.ASCII)
_UNBUFFERED: Final = {"x-accel-buffering": "no"}  # else a proxy may take all of it before the browser has any


class _Outgoing(io.BytesIO):
    """Gives what was written since it last did; nobody who writes can go back, so an archive does without."""

    def tell(self) -> int:
        raise io.UnsupportedOperation

    @property
    def size(self) -> int:
        """How many bytes there are."""
        return super().tell()

    def take(self) -> bytes:
        """Return them."""
        taken = self.getvalue()
        self.seek(0)
        self.truncate(0)
        return taken


class _FormTooLarge(Exception):
    """The form holds more of the export than the gateway has room for."""


class _ExportFile:
    """The file of an export so far; the form of another program is written as the lines come."""

    def __init__(self, page: PageRequest, name: ExportFormat) -> None:
        self._taken = _Outgoing()
        files = None if name is ExportFormat.ENGRAMQ else page.site.files
        self._form = None if files is None else files.form_into(name, self._taken)
        self._rest: Iterator[None] = iter(())

    @property
    def left_out(self) -> dict[str, int]:
        """The kinds and counts that the form cannot hold."""
        return {} if self._form is None else dict(self._form.left_out)

    async def pieces(self, part: Part) -> AsyncIterator[bytes]:
        """Yield what comes into the file by these lines; raises _FormTooLarge."""
        if self._form is None:
            yield part.lines
            return
        await anyio.to_thread.run_sync(self._write, self._form, part)
        while piece := await anyio.to_thread.run_sync(self._take):
            yield piece

    def _write(self, form: ExportForm, part: Part) -> None:
        for line in part.lines.splitlines():
            form.write(line)
        if form.held > HELD_BYTES:
            raise _FormTooLarge
        if part.is_last:
            self._rest = form.finish()

    def _take(self) -> bytes:
        for _ in self._rest:
            if self._taken.size >= PART_BYTES:
                break
        return self._taken.take()

    def abort(self) -> None:
        """Leave the file without an end, unless it has one."""
        if self._form is not None:
            self._form.abort()


async def export_all(page: PageRequest) -> Response:
    """Send the file; what is refused before it begins is shown as on every page."""
    if not page.may(Scope.ADMIN):
        raise refuse(FaultCode.FORBIDDEN, "An export takes the scope admin.")
    export, form, project = _own_id(page.entry("export")), _form_of(page), page.entry("project")
    if form is not ExportFormat.ENGRAMQ and await count_memories(page, project) > FORM_MEMORIES:
        error = f"The page writes at most {FORM_MEMORIES} memories in another format than its own."
        raise invalid("format", error, f"Run engramq export --format {form}, or choose a project.")

    async def ask(channel: str) -> None:
        await page.call("export_tenant", {"channel": channel, **({"project": project} if project else {})})

    parts = page.site.parts.parts(ask)
    try:
        await _tell(page, export, AnswerProgress("running"))
        async with while_there(page.request.receive, is_read=True):
            first = await anext(parts)
    except (AnswerBrokenOff, *CLIENT_ERRORS) as problem:
        raise refuse(FaultCode.UNAVAILABLE, "No worker sends the export.") from problem
    suffix, media_type = _FILES[form]
    named = "-".join(filter(None, ("engramq", page.caller.namespace, project, f"{datetime.now(UTC):%Y-%m-%d}")))
    name = _NO_FILE_NAME.sub("_", f"{named}.{suffix}")
    headers = {**_UNBUFFERED, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_lines(page, export, first, parts, form), media_type=media_type, headers=headers)


async def _lines(
    page: PageRequest, export: str, first: Part, rest: AsyncGenerator[Part, None], form: ExportFormat
) -> AsyncIterator[bytes]:
    """Yield the file as all parts come, and keep how far they are; what `rest` raises breaks the file off."""
    part, size, state, written = first, 0, "broken", _ExportFile(page, form)

    def far(state: str) -> AnswerProgress:
        return AnswerProgress(state, part.records, part.total, size, written.left_out)

    async with aclosing(rest):
        try:
            while True:
                async for lines in written.pieces(part):
                    yield lines
                    size += len(lines)
                if part.is_last:
                    break
                await _tell(page, export, far("running"))
                part = await anext(rest)
            state = "whole"
        except _FormTooLarge:
            state = "large"
            raise
        finally:
            written.abort()
            with anyio.CancelScope(shield=True), suppress(*CLIENT_ERRORS):
                await _tell(page, export, far(state))


async def _tell(page: PageRequest, export: str, progress: AnswerProgress) -> None:
    await page.site.parts.tell(page.caller.namespace, page.caller.principal.identity, export, progress)


async def show_progress(page: PageRequest) -> Response:
    """Show how far an export is; the part asks for itself again until it has ended."""
    export = _own_id(page.request.path_params["export"])
    progress = await page.site.parts.progress(page.caller.namespace, page.caller.principal.identity, export)
    return page.render("export_progress.html", export=export, progress=progress)


def _own_id(export: str) -> str:
    if not _OWN_ID.fullmatch(export):
        raise invalid("export", "No form is known by such an id.")
    return export


def _form_of(page: PageRequest) -> ExportFormat:
    named = page.entry("format") or ExportFormat.ENGRAMQ
    if named not in tuple(ExportFormat) or (named != ExportFormat.ENGRAMQ and page.site.files is None):
        raise invalid("format", "There is no such format.", f"There are {', '.join(ExportFormat)}.")
    return ExportFormat(named)
