"""Report what an import did: counts, what was left out and why, and refusals that it cannot go on after."""

import contextlib
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli.options import require_folder
from engramq.deploy.cli.output import printable, refusal_text
from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.foreign import REJECTED, ChangedMeanwhile, DryRun
from engramq.deploy.importing.rows import CheckedRow
from engramq.deploy.importing.sending import CORRECTIONS, CannotReject, Importer, NoWorker, find_first_error
from engramq.schemas.command_line import CommandFailed, ExitCode, count_of
from engramq.schemas.faults import EngramqError
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Absence, Partition, ReceiptStatus

AGAIN: Final = "Imported rows stay. Run the same command again: it skips them, and goes on with the rest."
SAMPLE_WORDS: Final = 6
SAMPLE_CHARS: Final = 160


def require_writable(rejects: Path, source: Path | None) -> None:
    """Refuse a file for rejects that could not be written, before anything is imported."""
    if not rejects.exists():
        require_folder(rejects, "--rejects")
    elif source is not None and rejects.samefile(source):
        raise click.BadParameter(f"{str(rejects)!r} is the file that is to be imported.", param_hint="'--rejects'")


def print_kept_apart(importer: Importer, settings: Settings) -> None:
    """Say where turns are that nobody has looked through, and how to find one that has gone in."""
    if importer.sample is not None:
        print(
            "The turns are kept apart, in the untrusted partition, since nobody has looked through them. For example, "
            f"this finds some of it:\n{_search_for(importer.sample, settings)}\n"
            "The inbox of the page makes it trusted, or engramq verify and promote do.",
            file=sys.stderr,
        )


def _search_for(row: CheckedRow, settings: Settings) -> str:
    """Return a search that finds a row, to copy into a shell."""
    where = [] if row.namespace == settings.namespace else ["--namespace", row.namespace]
    where += ["--project", row.record.project, "--only"] if isinstance(row.record.project, str) else []
    words = re.findall(r"\w{3,}", row.record.content)[:SAMPLE_WORDS] or ["engramq"]
    return printable(shlex.join(["engramq", "search", "--partition", Partition.UNTRUSTED, *where, *words]))


@contextlib.contextmanager
def interruptible(so_far: Callable[[], str]) -> Iterator[None]:
    """Within the block an import runs: a refusal or Ctrl-C raises CommandFailed, which says what is in `so_far`."""
    try:
        with refusals():
            yield
    except KeyboardInterrupt:
        raise CommandFailed(f"Stopped by Ctrl-C{so_far()} {AGAIN}", ExitCode.INTERRUPTED) from None


def print_looked(looked: DryRun, rejects: Path | None) -> ExitCode:
    """Print samples of what an import would bring in, and what it would leave out; return the exit code."""
    for row in looked.samples:
        print(f"{printable(row.file or f'line {row.line}')}: {printable(row.record.content[:SAMPLE_CHARS])}")
    print_left_out(looked.left_out)
    print_secrets(looked.secrets)
    print("Nothing was written. Rows that are in already were not looked up, and would be skipped.", file=sys.stderr)
    return exit_code_for(looked.counts[REJECTED], rejects)


def nothing_in(path: Path | None) -> ExitCode:
    """Say that there is nothing to import in a file or folder; None: standard input."""
    place = "standard input" if path is None else printable(str(path))
    print(f"There is nothing to import in {place}.", file=sys.stderr)
    return ExitCode.FAILED


def exit_code_for(rejected: int, rejects: Path | None) -> ExitCode:
    """Return the exit code, and say where rejected rows are listed."""
    if not rejected:
        return ExitCode.DONE
    print(f"Rejected rows, with line, field and reason: {rejects or 'above'}", file=sys.stderr)
    return ExitCode.FAILED


def format_counts(counts: Counter[ReceiptStatus]) -> str:
    """Return how many rows went which way."""
    return "  ".join(f"{status} {counts[status]}" for status in ReceiptStatus)


def print_counts(importer: Importer) -> None:
    """Print what became of the rows, and why some are not to be found."""
    print(format_counts(importer.counts))
    for absence, what in (
        (Absence.FORGOTTEN, "is archived: engramq restore brings it back"),
        (Absence.EXPIRED, "is past its time: engramq restore brings it back"),
        (Absence.ERASED, "was erased, and stays so"),
        (Absence.SUPERSEDED, "is hidden behind another: engramq show names that one"),
    ):
        for status in (ReceiptStatus.SKIPPED, ReceiptStatus.UPDATED):
            if rows := importer.absent[status, absence]:
                before = f"{rows} {status} row{'s' if rows > 1 else ''} went in before"
                print(f"{before}, and the memory {what} ({absence}).", file=sys.stderr)
    print_left_out(importer.left_out)
    print_secrets(importer.secrets.found)
    if importer.kept_to_author:
        print(CORRECTIONS.format(importer.kept_to_author), file=sys.stderr)
    if importer.corrected:
        corrected = count_of(
            importer.corrected, "edited note corrects its memory", "edited notes correct their memories"
        )
        print(f"{corrected}. `engramq show` names what was there before.", file=sys.stderr)
    if importer.degraded:
        print(
            "Some rows wait for their vectors (the embedder did not answer); they are found by text until then. They "
            "get them while a stack runs: engramq up --detach, or your client's own.",
            file=sys.stderr,
        )


def print_secrets(count: int) -> None:
    """Say how many secrets were left out."""
    if count:
        left_out = "1 secret was left out, marked" if count == 1 else f"{count} secrets were left out, each marked"
        print(f"{left_out} in its place. ENGRAMQ_REDACT=off keeps them.", file=sys.stderr)


def print_left_out(left_out: Counter[LeftOut]) -> None:
    """Say what was left out by the rules of the format."""
    if left_out:
        counts = ", ".join(count_of(count, kind.one, kind.what) for kind, count in left_out.items())
        print(f"Left out: {counts}.", file=sys.stderr)


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Raise CommandFailed for what an import could not go on after: the first of its tasks' errors."""
    problem: BaseException | None = None
    try:
        yield
    except* (EngramqError, CannotReject, ChangedMeanwhile, NoWorker, UnusableFile) as group:
        problem = find_first_error(group)
    if isinstance(problem, UnusableFile):
        raise CommandFailed(f"{problem} Nothing was imported.")
    if problem is not None:
        refusal = str(problem)
        if isinstance(problem, EngramqError):
            refusal = refusal_text(problem.fault.error, problem.fault.recovery)
        raise CommandFailed(f"{refusal} {AGAIN}", ExitCode.MIDWAY)
