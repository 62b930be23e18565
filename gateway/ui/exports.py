"""Send an export of the namespace as a file that the browser saves, and say how far it is.

One command reads one snapshot, and its worker sends the lines in parts, a few ahead of the browser (schemas/parts.py):
pages that are asked for one by one would need a transaction that waits for requests, and so its process. Whoever stops
the download ends the command, as with every read. A file that breaks off lacks its last chunk, so that the browser says
that it failed, and the line by which a reader of exports knows the end.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Final

import anyio
from starlette.responses import Response, StreamingResponse

from engramq.gateway.parts import BrokenOff, Progress
from engramq.gateway.router import while_there
from engramq.gateway.ui.request import PageRequest
from engramq.schemas.connection import CLIENT_ERRORS
from engramq.schemas.faults import FaultCode, invalid, refuse
from engramq.schemas.parts import Part
from engramq.schemas.vocabulary import Scope

_OWN_ID: Final = re.compile(r"[0-9a-f-]{36}")
_NO_FILE_NAME: Final = re.compile(r"[^\w.-]", re.ASCII)
_UNBUFFERED: Final = {"x-accel-buffering": "no"}  # else a proxy may take all of it before the browser has any


async def export_all(page: PageRequest) -> Response:
    """Send the file; what is refused before it begins is shown as on every page."""
    if not page.may(Scope.ADMIN):
        raise refuse(FaultCode.FORBIDDEN, "An export takes the scope admin.")
    export = _own_id(page.entry("export"))

    async def ask(channel: str) -> None:
        await page.call("export_tenant", {"channel": channel})

    parts = page.site.parts.parts(ask)
    try:
        await _tell(page, export, Progress("running"))
        async with while_there(page.request.receive, is_read=True):
            first = await anext(parts)
    except (BrokenOff, *CLIENT_ERRORS) as problem:
        raise refuse(FaultCode.UNAVAILABLE, "No worker sends the export.") from problem
    name = _NO_FILE_NAME.sub("_", f"engramq-{page.caller.namespace}-{datetime.now(UTC):%Y-%m-%d}.jsonl")
    headers = {**_UNBUFFERED, "content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_lines(page, export, first, parts), media_type="application/jsonl", headers=headers)


async def _lines(page: PageRequest, export: str, first: Part, rest: AsyncGenerator[Part, None]) -> AsyncIterator[bytes]:
    """Yield the lines of all parts, and keep how far they are; what `rest` raises breaks the file off."""
    part, size, state = first, 0, "broken"
    async with aclosing(rest):
        try:
            while not part.is_last:
                yield part.lines
                size += len(part.lines)
                await _tell(page, export, Progress("running", part.records, part.total, size))
                part = await anext(rest)
            yield part.lines
            size, state = size + len(part.lines), "whole"
        finally:
            with anyio.CancelScope(shield=True), suppress(*CLIENT_ERRORS):
                await _tell(page, export, Progress(state, part.records, part.total, size))


async def _tell(page: PageRequest, export: str, progress: Progress) -> None:
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
