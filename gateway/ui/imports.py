"""Show imports on the page, and import a file that is uploaded there: its progress is written as it comes.

The answer to the form is a page that ends when the import does, so no process has to know of it but the one that
answers.
"""

import asyncio
import hashlib
import re
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio
from starlette.responses import Response, StreamingResponse

from engramq.gateway.service import Call
from engramq.gateway.ui.request import PAGE_TOOLS, PageCallRefused, PageRequest, SentFile
from engramq.schemas.exports import ExportFormat
from engramq.schemas.faults import EngramqError, FaultCode, invalid, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.limits import BODY_BYTES
from engramq.schemas.settings import Settings
from engramq.schemas.uploads import Upload, UploadReport
from engramq.schemas.vocabulary import ForeignFormat, RowFormat, Scope, WorkerKind

FORMATS: Final = (*RowFormat, *ForeignFormat)
PROGRESS_S: Final = 0.5
_SPLIT: Final = "<!-- what comes of it -->"
_NAME_CHARS: Final = 100
_NO_FILE_NAME: Final = re.compile(r"[^\w .-]")
_UNBUFFERED: Final = {"x-accel-buffering": "no"}  # else a proxy shows all of it at the end


async def show_imports(page: PageRequest) -> Response:
    """Show the whole page."""
    forms = list(ExportFormat) if page.site.files else [ExportFormat.ENGRAMQ]
    return page.render(
        "imports.html", formats=FORMATS, forms=forms, most=BODY_BYTES, export=uuid7(), **await _imports(page)
    )


async def refresh_imports(page: PageRequest) -> Response:
    """Show the part that is asked for every few seconds."""
    return page.render("imports_live.html", **await _imports(page))


async def _imports(page: PageRequest) -> dict[str, Any]:
    shown, health = await asyncio.gather(page.ask("list_imports"), page.site.look())
    of_imports = next((mailbox for mailbox in health.mailboxes if mailbox.kind == WorkerKind.IMPORTS), None)
    return {"shown": shown, "mailbox": of_imports}


async def import_file(page: PageRequest) -> Response:
    """Import the file of the form, and show how far that is until it has ended."""
    if page.site.files is None or not page.may(Scope.ADMIN):
        raise refuse(FaultCode.FORBIDDEN, "To import a file takes the scope admin.")
    named = page.entry("format")
    if named and named not in FORMATS:
        raise invalid("format", "There is no such format.", f"There are {', '.join(FORMATS)}.")
    if page.file is None or not page.file.name:
        raise invalid("file", "No file was chosen.")
    whole = bytes(page.render("import_run.html", name=page.file.name, split=_SPLIT).body).decode()
    return StreamingResponse(
        _run(page.where_chosen(), page.file, named or None, whole), media_type="text/html", headers=_UNBUFFERED
    )


async def _run(page: PageRequest, file: SentFile, named: str | None, whole: str) -> AsyncIterator[str]:
    """Yield the page up to its progress, then that as it comes, what came of it, and the rest of the page."""
    head, _, tail = whole.partition(_SPLIT)
    yield head
    report = UploadReport()
    with tempfile.TemporaryDirectory(prefix="engramq-upload-") as folder:
        path = await anyio.to_thread.run_sync(_keep, file, Path(folder))
        task = asyncio.create_task(_import(page, Upload(path, named, _settings(page)), report))
        try:
            while not task.done():
                yield _part(page, "import_progress.html", report)
                await asyncio.wait({task}, timeout=PROGRESS_S)
            yield _part(page, "import_done.html", report, refusal=task.result())
        finally:
            task.cancel()  # the same file, uploaded again, goes on with the rest
            with anyio.CancelScope(shield=True), suppress(asyncio.CancelledError):
                await task
    yield tail


async def _import(page: PageRequest, upload: Upload, report: UploadReport) -> Mapping[str, Any] | None:
    """Import a file as this visitor; return the refusal where it could not go on."""

    async def call(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        asked = Call(tool=PAGE_TOOLS[tool], arguments=dict(arguments), caller=page.caller)
        return (await page.site.service.call(asked)).body

    assert page.site.files is not None
    try:
        await page.site.files.import_upload(upload, call, report)
    except EngramqError as refused:
        return PageCallRefused.of(refused).body
    return None


def _part(page: PageRequest, template: str, report: UploadReport, **values: Any) -> str:
    return bytes(page.render(template, report=report, **values).body).decode()


def _settings(page: PageRequest) -> Settings:
    return replace(page.site.settings, namespace=page.caller.namespace)


def _keep(file: SentFile, folder: Path) -> Path:
    """Write a file below a folder, under its own name, by which formats are known; return its path.

    Formats that know a row again by the file's place get one that follows from the content.
    """
    place = folder / "upload" / "page" / hashlib.sha256(file.content).hexdigest()
    place.mkdir(parents=True)
    name = _NO_FILE_NAME.sub("_", Path(file.name).name).strip(" .")[-_NAME_CHARS:] or "upload"
    (place / name).write_bytes(file.content)
    return place / name
