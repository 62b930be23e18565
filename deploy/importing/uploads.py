"""Import a file that was uploaded to a gateway, as `engramq import` does, by calls of the one who has uploaded it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio
import anyio.from_thread
import anyio.to_thread

from engramq.deploy.cli.output import ReplyBody
from engramq.deploy.cli.progress import Readable
from engramq.deploy.cli.tool_client import ToolClient
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.foreign import ChangedMeanwhile, Export, import_foreign
from engramq.deploy.importing.formats import choose_format
from engramq.deploy.importing.records import FILE, Rejection, is_export
from engramq.deploy.importing.sending import Importer, Options, find_first_error, import_file, new_secrets
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.uploads import REJECTED_SHOWN, CallTool, GraphCount, RejectedRow, Upload, UploadReport
from engramq.schemas.vocabulary import OnDuplicate

ROWS_AT_ONCE: Final = 64  # so that progress shows within a second or two
OWN_EXPORT: Final = "This is an export of engramq. Only the command brings it back, on the machine of the servers."


@dataclass(frozen=True, slots=True)
class _CallerClient(ToolClient):
    """Calls tools as the caller of the gateway, from the threads in which batches are waited for."""

    ask: CallTool

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return the reply of the gateway's own service."""
        return anyio.from_thread.run(self.ask, tool, arguments)


@dataclass(frozen=True, slots=True)
class _Reporting:
    """Takes rejected rows and progress for a report."""

    report: UploadReport

    def write(self, rejection: Rejection) -> None:
        """Keep the first rejected rows."""
        if len(self.report.rejected) < REJECTED_SHOWN:
            row = RejectedRow(rejection.line, rejection.field, rejection.reason, rejection.file)
            self.report.rejected.append(row)

    def show(self, rows: int, read: int = 0) -> None:
        """Keep how many rows were read; the counts are the report's own."""
        self.report.read = max(read, rows)
        self.report.is_late = False

    def say(self, _text: str) -> None:
        """Keep that nothing has gone in for long; the page has its own words for it."""
        self.report.is_late = True


async def import_upload(upload: Upload, call: CallTool, report: UploadReport) -> None:
    """Import a file; see ImportUpload."""
    problem: BaseException | None = None
    try:
        await _import(upload, call, report)
    except* (EngramqError, ChangedMeanwhile, UnusableFile) as group:
        problem = find_first_error(group)
    if isinstance(problem, EngramqError):
        raise problem
    if problem is not None:
        raise invalid(FILE, str(problem))


async def _import(upload: Upload, call: CallTool, report: UploadReport) -> None:
    if await anyio.to_thread.run_sync(is_export, upload.path):
        raise invalid(FILE, OWN_EXPORT)
    kind, row_format = await anyio.to_thread.run_sync(choose_format, upload.path, upload.format)
    options = Options(
        namespace=None, on_duplicate=OnDuplicate.SKIP, batch_size=ROWS_AT_ONCE, split=False, row_format=row_format
    )
    opener = partial(_open_importer, upload, call, report)
    if kind is None:
        with upload.path.open("rb") as raw:
            importer = await import_file(raw, upload.settings, options, opener, upload.path.stat().st_size)
        left_out = importer.left_out
    else:
        export = Export(upload.path, kind, Choices())
        done = await import_foreign(export, upload.settings, options, opener)
        importer, left_out = done.importer, done.left_out + done.importer.left_out
        report.graph = [GraphCount(kind, count, done.graph.created[kind]) for kind, count in done.graph.found.items()]
        report.kept_apart = export.reader.are_turns and importer.sample is not None
    report.read = max(importer.read, importer.counts.total())
    report.left_out = [(kind.one if count == 1 else kind.what, count) for kind, count in left_out.items()]
    report.absent = [(status, absence, rows) for (status, absence), rows in importer.absent.items()]
    report.secrets = importer.secrets.found
    report.kept_to_author = importer.kept_to_author
    report.waits_for_vectors = importer.degraded


@asynccontextmanager
async def _open_importer(
    upload: Upload, call: CallTool, report: UploadReport, _source: Readable, _total: int | None
) -> AsyncIterator[Importer]:
    reporting, client = _Reporting(report), _CallerClient(call)
    yield Importer(
        client,
        upload.settings.namespace,
        OnDuplicate.SKIP,
        reporting,
        reporting,
        report.counts,
        secrets=new_secrets(upload.settings),
    )
