"""`engramq import`: a file's rows brought in, and told what became of them."""

import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

from engramq.gateway.cli.import_file import Importer, Options, import_file
from engramq.gateway.cli.import_records import format_by_name
from engramq.gateway.cli.import_rejects import CannotReject
from engramq.gateway.cli.import_workers import NoWorker
from engramq.gateway.cli.running import run
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.faults import EngramqError
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Absence, OnDuplicate, ReceiptStatus, RowFormat


def import_memories(
    path: Path | None,
    settings: Settings,
    *,
    namespace: str | None,
    on_duplicate: OnDuplicate,
    batch_size: int,
    rejects: Path | None,
    split: bool,
    row_format: RowFormat | None,
) -> ExitCode:
    """Import a file (None: standard input) and print how many rows became what.

    Returns FAILED when rows were rejected; raises CommandFailed when the import could not go on.
    """
    if rejects is None and path is not None:
        rejects = _beside(path)
    options = Options(
        namespace=namespace,
        on_duplicate=on_duplicate,
        batch_size=batch_size,
        split=split,
        row_format=row_format or format_by_name(path),
    )
    with _told_midway(), _opened(path) as source:
        # A pipe has no size to tell.
        size = None if path is None else path.stat().st_size or None
        importer = run(partial(import_file, source, settings, options, rejects, size))
    _tell(importer)
    if not importer.counts[ReceiptStatus.REJECTED]:
        return ExitCode.DONE
    print(f"Rejected rows, with line, field and reason: {rejects or 'above'}", file=sys.stderr)
    return ExitCode.FAILED


def _beside(path: Path) -> Path | None:
    """Return the file for rejects that is meant when none is named; None where there may be none."""
    rejects = path.with_name(path.name + ".rejects.jsonl")
    if path.is_file() and os.access(rejects if rejects.exists() else rejects.parent, os.W_OK):
        return rejects
    print(f"{rejects} cannot be written: rejected rows are told of here. --rejects names a file.", file=sys.stderr)
    return None


def _tell(importer: Importer) -> None:
    print("  ".join(f"{status} {importer.counts[status]}" for status in ReceiptStatus))
    for absence, what in (
        (Absence.FORGOTTEN, "is archived: restore_memory brings it back"),
        (Absence.EXPIRED, "is past its time: restore_memory brings it back"),
        (Absence.ERASED, "was erased, and stays so"),
        (Absence.SUPERSEDED, "is hidden behind another: get_memory names that one"),
    ):
        for status in (ReceiptStatus.SKIPPED, ReceiptStatus.UPDATED):
            if rows := importer.absent[status, absence]:
                told = f"{rows} {status} row{'s' if rows > 1 else ''} went in before"
                print(f"{told}, and the memory {what} ({absence}).", file=sys.stderr)
    if found := importer.secrets.found:
        told = (
            "1 secret was left out, marked in its place"
            if found == 1
            else f"{found} secrets were left out, each marked in its place"
        )
        print(f"{told}. ENGRAMQ_REDACT=off keeps them.", file=sys.stderr)
    if importer.degraded:
        print(
            "Some rows wait for their vectors (the embedder did not answer); they are found by text until then.",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be read: {problem.strerror or problem}.") from None
    with file:
        yield file


@contextlib.contextmanager
def _told_midway() -> Iterator[None]:
    """Raise CommandFailed for what an import could not go on after: the first of its tasks' errors."""
    problems: list[Any] = []
    try:
        yield
    except* (EngramqError, CannotReject, NoWorker, UnusableFile) as group:
        problems += _leaves(group)
    if not problems:
        return
    first = problems[0]
    if isinstance(first, UnusableFile):
        raise CommandFailed(f"{first} Nothing was imported.")
    told = f"{first.fault.error} {first.fault.recovery}" if isinstance(first, EngramqError) else str(first)
    raise CommandFailed(f"{told} What is in stays; run the same command again.", ExitCode.MIDWAY)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
