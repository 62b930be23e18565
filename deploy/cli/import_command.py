"""`engramq import`: a file's rows brought in, and told what became of them."""

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from engramq.deploy.cli.printable import printable
from engramq.deploy.importing.detecting import format_of
from engramq.deploy.importing.dry_run import MEMORIES, REJECTED, look_through
from engramq.deploy.importing.foreign import Export, import_foreign
from engramq.deploy.importing.found import Choices, LeftOut
from engramq.deploy.importing.graph import EDGES, NODES
from engramq.deploy.importing.records import format_by_name, read_records
from engramq.deploy.importing.rejects import CannotReject
from engramq.deploy.importing.sending import Importer, Options, import_file
from engramq.deploy.importing.workers import NoWorker
from engramq.gateway.operator import run
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.faults import EngramqError
from engramq.schemas.packed_lines import Source, UnusableFile
from engramq.schemas.phrases import count_of
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Absence, ForeignFormat, OnDuplicate, ReceiptStatus, RowFormat

SAMPLE_CHARS: Final = 160
CONVERSATIONS: Final = (ForeignFormat.CLAUDE, ForeignFormat.CHATGPT)


def import_memories(
    path: Path | None,
    settings: Settings,
    options: Options,
    *,
    rejects: Path | None,
) -> ExitCode:
    """Import a file (None: standard input) and print how many rows became what.

    Returns FAILED when rows were rejected; raises CommandFailed when the import could not go on.
    """
    if rejects is None and path is not None:
        rejects = _beside(path)
    with _told_midway(), _opened(path) as source:
        # A pipe has no size to tell.
        size = None if path is None else path.stat().st_size or None
        importer = run(partial(import_file, source, settings, options, rejects, size))
    _tell(importer)
    return _ended(importer.counts[ReceiptStatus.REJECTED], rejects)


def import_export(export: Export, settings: Settings, options: Options, *, rejects: Path | None) -> ExitCode:
    """Import what another system has exported, and print what became of it; ends as `import_memories` does."""
    if rejects is None:
        rejects = _beside(export.path)
    with _told_midway():
        done = run(partial(import_foreign, export, settings, options, rejects))
    _tell(done.importer)
    if done.graph.found:
        print("  ".join(f"{kind} {count} ({done.graph.created[kind]} new)" for kind, count in done.graph.found.items()))
    _tell_left_out(done.left_out)
    kept_apart = export.format in CONVERSATIONS and not export.choices.trusted
    if kept_apart and done.importer.counts[ReceiptStatus.STORED]:
        print(
            "What was said is kept apart, in the untrusted partition, since nobody has looked through it: "
            "`engramq search --partition untrusted` finds it. --trusted says that you have.",
            file=sys.stderr,
        )
    return _ended(done.importer.counts[ReceiptStatus.REJECTED], rejects)


def dry_run(source: Path | Export | None, settings: Settings, options: Options, *, rejects: Path | None) -> ExitCode:
    """Print what an import would do, and samples; nothing is written but the file for rejects, where one is named.

    `source`: an export of another system, a file of rows, or None: rows on standard input.
    """
    with _told_midway():
        if isinstance(source, Export):
            looked = look_through(source.found(), settings, options, rejects)
        else:
            with _opened(source) as raw:
                rows = read_records(Source(raw).lines(), options.row_format)
                looked = look_through(rows, settings, options, rejects)
    kinds = [kind for kind in (NODES, EDGES) if looked.counts[kind]]
    print("  ".join(f"{kind} {looked.counts[kind]}" for kind in (MEMORIES, *kinds, REJECTED)))
    for row in looked.samples:
        print(f"{printable(row.file or f'line {row.line}')}: {printable(row.record.content[:SAMPLE_CHARS])}")
    _tell_left_out(looked.left_out)
    _tell_secrets(looked.secrets)
    print("Nothing was written. What is in already was not looked up, and would be skipped.", file=sys.stderr)
    return _ended(looked.counts[REJECTED], rejects)


def options_of(
    path: Path | None,
    *,
    namespace: str | None,
    on_duplicate: OnDuplicate,
    batch_size: int,
    split: bool,
    row_format: RowFormat | None,
) -> Options:
    """Return how a file is imported; None is standard input."""
    return Options(
        namespace=namespace,
        on_duplicate=on_duplicate,
        batch_size=batch_size,
        split=split,
        row_format=row_format or format_by_name(path),
    )


def export_of(path: Path, given: ForeignFormat | None, *, all_messages: bool, looked_through: bool) -> Export | None:
    """Return the export that a path is, of the given format or as its content tells; None for rows.

    Raises CommandFailed where nothing is certain.
    """
    with _told_midway():
        found = given or format_of(path)
    return None if found is None else Export(path, found, Choices(all_messages=all_messages, trusted=looked_through))


def _ended(rejected: int, rejects: Path | None) -> ExitCode:
    if not rejected:
        return ExitCode.DONE
    print(f"Rejected rows, with line, field and reason: {rejects or 'above'}", file=sys.stderr)
    return ExitCode.FAILED


def _beside(path: Path) -> Path | None:
    """Return the file for rejects that is meant when none is named; None where there may be none."""
    path = path if path.is_file() else path.resolve()  # a folder may be named by a dot
    rejects = path.with_name(path.name + ".rejects.jsonl")
    is_ours = path.is_file() or path.is_dir()
    if is_ours and os.access(rejects if rejects.exists() else rejects.parent, os.W_OK):
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
    _tell_secrets(importer.secrets.found)
    if importer.degraded:
        print(
            "Some rows wait for their vectors (the embedder did not answer); they are found by text until then.",
            file=sys.stderr,
        )


def _tell_secrets(found: int) -> None:
    if found:
        told = (
            "1 secret was left out, marked in its place"
            if found == 1
            else f"{found} secrets were left out, each marked in its place"
        )
        print(f"{told}. ENGRAMQ_REDACT=off keeps them.", file=sys.stderr)


def _tell_left_out(left_out: Counter[LeftOut]) -> None:
    if left_out:
        told = ", ".join(count_of(count, kind.one, kind.what) for kind, count in left_out.items())
        print(f"Left out: {told}.", file=sys.stderr)


@contextlib.contextmanager
def _opened(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        if sys.stdin is None:
            raise CommandFailed("Standard input is closed. Nothing was imported.", ExitCode.MISUSED)
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
