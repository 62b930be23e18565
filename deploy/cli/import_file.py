"""`engramq import`: bring in the rows of a file or another system's export, or restore an export of ours."""

import contextlib
import os
import select
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Final, Self

import click

from engramq.deploy.cli import import_report as report
from engramq.deploy.cli import options as common
from engramq.deploy.cli.import_sessions import import_found, import_named, sessions_format
from engramq.deploy.cli.progress import PhaseBars
from engramq.deploy.importing import foreign
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import choose_format
from engramq.deploy.importing.records import is_export, read_records
from engramq.deploy.importing.sending import Options, import_file, import_servers, importing
from engramq.deploy.local.servers_for import servers_for
from engramq.gateway.operator import run
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of, memories
from engramq.schemas.packed_lines import PackedSource
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import (
    ForeignFormat,
    OnDuplicate,
    ReceiptStatus,
    RowFormat,
    TranscriptFormat,
    Visibility,
)

PIPE: Final = "-"
LOOK_S: Final = 0.2  # between two looks at whether an import from standard input has ended
# Records whose plural is not made by an s.
NAMES: Final = {"memory": ("memory", "memories"), "audit": ("audit entry", "audit entries")}
OF_CONVERSATIONS: Final = ("all_messages", "looked_through")
NOT_OF_SESSIONS: Final = ("on_duplicate", "split", *OF_CONVERSATIONS)
FORMATS: Final = (*RowFormat, *ForeignFormat, *TranscriptFormat)
OF_ROWS: Final = ("on_duplicate", "batch", "rejects", "named_format", "split", "visibility", *OF_CONVERSATIONS)


@click.command("import")
@click.argument("files", metavar="FILE_OR_FOLDER...", nargs=-1, type=click.Path(exists=True, allow_dash=True))
@click.option(
    "--found", is_flag=True,
    help="List the sessions of coding agents that lie on this disk; import them all once you have said yes.",
)  # fmt: skip
@click.option("--yes", is_flag=True, help="With --found: import them without asking.")
@common.namespace_option(
    "Put every row, or the export, there, whatever it names. Default: what it names, else ENGRAMQ_NAMESPACE."
)
@click.option(
    "--on-duplicate", type=click.Choice([str(word) for word in OnDuplicate]), default=str(OnDuplicate.SKIP),
    show_default=True, help="The action on a row whose external_id is there already.",
)  # fmt: skip
@click.option(
    "--batch", type=click.IntRange(1, 1000), default=128, show_default=True, help="Rows that are stored together."
)
@click.option(
    "--rejects", type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write bad rows there, with what is wrong. Default: FILE.rejects.jsonl.",
)  # fmt: skip
@click.option(
    "--format", "named_format", type=click.Choice([str(word) for word in FORMATS]),
    help="How the rows are written, or what has written them. Default: as the content tells, if it does for sure.",
)  # fmt: skip
@click.option(
    "--split", is_flag=True,
    help="Make several memories of one thread, in order, of a text over 32,768 characters. Default: reject it.",
)  # fmt: skip
@click.option("--all-messages", is_flag=True, help="In conversations, messages of the system and of tools too.")
@click.option(
    "--trusted", "looked_through", is_flag=True,
    help="Trust the turns of conversations: you have looked through them.",
)  # fmt: skip
@common.PRIVATE
@click.option("--dry-run", is_flag=True, help="Tell what would be brought in and rejected; write nothing.")
@click.pass_context
def command(
    context: click.Context, /, *, files: tuple[str, ...], namespace: str | None, on_duplicate: str, batch: int,
    rejects: Path | None, named_format: str | None, split: bool, dry_run: bool, found: bool, yes: bool,
    visibility: Visibility | None, **_: bool,
) -> ExitCode:  # fmt: skip
    """Load memories from files, other systems, notes and past sessions, or restore an export.

    Rows are one JSON object per line, or a CSV with a first row of names, with the parameters of store_memory; FILE -
    is standard input. gzip, bzip2, xz and UTF-16 are recognised. Rows of an earlier import are skipped. The exit code
    is 1 when rows were rejected, 3 when the import could not go on: the same command then goes on with the rest.

    Other systems: exports, databases and folders of notes, as their programs write them; --format names each. Sessions
    of coding agents: as many files and folders as you name, or all that are --found. See docs/import.md.

    A file that engramq export has written is restored into a namespace that holds nothing: all of it, or nothing.
    """
    duplicates = OnDuplicate(on_duplicate)
    options = Options(
        namespace=namespace, on_duplicate=duplicates, batch_size=batch, split=split, row_format=None,
        visibility=visibility,
    )  # fmt: skip
    paths = tuple(map(Path, files))
    if not found:
        common.refuse_options(context, ("yes",), "--found")
    sessions = sessions_format(paths, named_format)
    if found or sessions is not None:
        common.refuse_options(context, NOT_OF_SESSIONS, "files of rows and exports, and this is about sessions")
        if rejects is not None:
            report.require_writable(rejects, None)
    if found:
        return import_found(paths, sessions, options, rejects, yes=yes, dry_run=dry_run)
    if sessions is not None:
        return import_named(paths, sessions, options, rejects, dry_run=dry_run)
    if len(files) != 1:
        raise click.UsageError(
            "Only sessions come from several files." if files else "Missing argument 'FILE_OR_FOLDER'."
        )
    return _import_file(context, files[0], options, rejects)


def _import_file(context: click.Context, file: str, options: Options, rejects: Path | None) -> ExitCode:
    """Import or restore the one file or folder that is named."""
    dry_run: bool = context.params["dry_run"]
    named_format: str | None = context.params["named_format"]
    source = None if file == PIPE else Path(file)
    if source is not None and source.is_char_device():  # as /dev/zero, whose first line never ends
        raise CommandFailed(f"{source} is a device, no file; - stands for standard input.", ExitCode.MISUSED)
    if source is not None and is_export(source):
        common.refuse_options(context, OF_ROWS, "rows, and this file is an export")
        return _restore(source, namespace=options.namespace, dry_run=dry_run)
    if rejects is not None:
        report.require_writable(rejects, source)
    with report.refusals():
        kind, row_format = choose_format(source, named_format)
    if source is None and kind is not None:
        raise click.UsageError("An export of another system is read twice: write it to a file, and import that.")
    choices = Choices(all_messages=context.params["all_messages"], trusted=context.params["looked_through"])
    export = foreign.Export(source, kind, choices) if source is not None and kind is not None else None
    if export is None or not export.reader.are_turns:
        common.refuse_options(context, OF_CONVERSATIONS, "conversations, and this is none")
    if export is None and source is not None and source.is_dir():
        raise click.UsageError(f"{named_format} is the format of a file, and {file} is a folder.")
    options = replace(options, row_format=row_format)
    if dry_run:
        return _look_only(export or source, read_settings(os.environ), options, rejects=rejects)
    with import_servers(options.namespace) as settings:
        return _import(export or source, settings, options, rejects=rejects)


def _restore(source: Path, *, namespace: str | None, dry_run: bool) -> ExitCode:
    with servers_for("import of an export") as settings, PhaseBars() as bars:
        from engramq.workers.admin import restore_export  # noqa: PLC0415 - psycopg, for exports alone

        place, counts, pending = restore_export(settings, source, namespace, bars.show, dry_run=dry_run)
    held = ", ".join(count_of(count, *NAMES.get(kind, (kind.replace("_", " "),))) for kind, count in counts.items())
    if pending is None:
        print(f"The export is whole and fits namespace {place!r}: {held}. Nothing was restored.")
        return ExitCode.DONE
    print(f"Restored {held} into namespace {place!r}.")
    click.echo("Bearer tokens and webhooks are in no export: make them anew.", err=True)
    if pending:
        print(f"{memories(pending)} will get a vector in the background, and are found by text until then.")
    return ExitCode.DONE


def _import(
    source: foreign.Export | Path | None, settings: Settings, options: Options, *, rejects: Path | None
) -> ExitCode:
    """Import an export of another system, a file of rows, or standard input (None); print what became of the rows.

    Returns FAILED when rows were rejected; raises CommandFailed when the import could not go on.
    """
    path = source.path if isinstance(source, foreign.Export) else source
    if rejects is None and path is not None:
        rejects = _beside(path)
    counts: Counter[ReceiptStatus] = Counter()
    opener = partial(importing, settings, options, rejects, counts)
    with report.interruptible(
        lambda: f". So far: {report.format_counts(counts)}; rows that were on their way may go in too."
    ):
        if isinstance(source, foreign.Export):
            done = run(partial(foreign.import_foreign, source, settings, options, opener))
            importer = done.importer
        else:
            with _open_input(path) as raw:
                size = None if path is None else path.stat().st_size or None  # a pipe has no size to tell
                importer = run(partial(import_file, raw, settings, options, opener, size))
    report.print_counts(importer)
    if isinstance(source, foreign.Export):
        _print_export(source, done, settings)
    if not (importer.counts.total() or (isinstance(source, foreign.Export) and done.graph.found)):
        return report.nothing_in(path)
    return report.exit_code_for(importer.counts[ReceiptStatus.REJECTED], rejects)


def _print_export(export: foreign.Export, done: foreign.ImportedExport, settings: Settings) -> None:
    if done.graph.found:
        print("  ".join(f"{kind} {count} ({done.graph.created[kind]} new)" for kind, count in done.graph.found.items()))
    if done.graph.only_ends:
        print(f"Edges name {done.graph.only_ends} more nodes, which are there now.")
    report.print_left_out(done.left_out)
    kept_apart = export.reader.are_turns and not export.choices.trusted
    if kept_apart:
        report.print_kept_apart(done.importer, settings)


def _look_only(
    source: Path | foreign.Export | None, settings: Settings, options: Options, *, rejects: Path | None
) -> ExitCode:
    """Print what an import would do, and samples. It writes only the file for rejects, if one is named.

    `source`: an export of another system, a file of rows, or None: rows on standard input.
    """
    with report.refusals():
        if isinstance(source, foreign.Export):
            looked = foreign.look_through(source.entries(), settings, options, rejects, foreign=True)
        else:
            with _open_input(source) as raw:
                rows = read_records(PackedSource(raw).lines(), options.row_format)
                looked = foreign.look_through(rows, settings, options, rejects, foreign=False)
    kinds = [kind for kind in (foreign.NODES, foreign.EDGES) if looked.counts[kind]]
    print("  ".join(f"{kind} {looked.counts[kind]}" for kind in (foreign.MEMORIES, *kinds, foreign.REJECTED)))
    if not looked.counts:
        return report.nothing_in(source.path if isinstance(source, foreign.Export) else source)
    return report.print_looked(looked, rejects)


def _beside(path: Path) -> Path | None:
    """Return the file for rejects when none is named, beside the import; None where that cannot be written."""
    path = path if path.is_file() else path.resolve()  # a folder may be named by a dot
    rejects = path.with_name(path.name + ".rejects.jsonl")
    is_ours = path.is_file() or path.is_dir()
    if is_ours and os.access(rejects if rejects.exists() else rejects.parent, os.W_OK):
        return rejects
    print(f"{rejects} cannot be written: rejected rows are listed here. --rejects names a file.", file=sys.stderr)
    return None


class _StandardInput:
    """Standard input, read in a thread. A read ends soon after the block, even if nothing more comes."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.ended = False

    def read1(self, size: int) -> bytes:
        """Return what is there, once there is something; nothing at the end."""
        while not self.ended:
            if select.select([self._descriptor], [], [], LOOK_S)[0]:
                return os.read(self._descriptor, size)
        return b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended = True


@contextlib.contextmanager
def _open_input(path: Path | None) -> Iterator[IO[bytes] | _StandardInput]:
    if path is None:
        if sys.stdin is None:
            raise CommandFailed("Standard input is closed. Nothing was imported.", ExitCode.MISUSED)
        with _StandardInput(sys.stdin.fileno()) as standard:
            yield standard
        return
    try:
        file = path.open("rb")
    except OSError as problem:
        raise CommandFailed(f"{path} cannot be read: {problem.strerror or problem}.") from None
    with file:
        yield file
