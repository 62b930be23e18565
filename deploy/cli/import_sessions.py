"""`engramq import` of coding agents' past sessions: those that are named, or all that lie on this disk."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli import import_report as report
from engramq.deploy.cli.connect import surroundings
from engramq.deploy.cli.options import can_ask
from engramq.deploy.cli.output import printable
from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.foreign import MEMORIES, REJECTED, look_through
from engramq.deploy.importing.records import Rejection
from engramq.deploy.importing.sending import Options, import_servers
from engramq.deploy.importing.sessions import Group, ImportedSessions, Projects, SessionRows, Transcripts, groups_of
from engramq.deploy.importing.sessions import import_sessions as bring_in
from engramq.deploy.importing.transcripts import READERS, transcript_format
from engramq.deploy.local.home import home_from
from engramq.gateway.operator import run
from engramq.schemas.command_line import ExitCode, count_of
from engramq.schemas.settings import Settings, read_settings
from engramq.schemas.vocabulary import ReceiptStatus, TranscriptFormat

SHOWN_FOLDERS: Final = 3
_YEAR_9999: Final = 253_370_764_800  # in seconds since 1970: where dates end


def sessions_format(paths: Sequence[Path], named: str | None) -> TranscriptFormat | None:
    """Return the client whose sessions are meant: the one that is named, else the one that has written all files."""
    if named is not None:
        return TranscriptFormat(named) if named in set(TranscriptFormat) else None
    kinds = {path: transcript_format(path) for path in paths}
    if len(paths) > 1 and any(kinds.values()) and (odd := [path for path, kind in kinds.items() if kind is None]):
        raise click.UsageError(f"{printable(str(odd[0]))} is no session: its first lines say nothing of a client.")
    return next(iter(kinds.values())) if len(set(kinds.values())) == 1 else None


def import_named(
    paths: Sequence[Path], client: TranscriptFormat, options: Options, rejects: Path | None, *, dry_run: bool
) -> ExitCode:
    """Import the sessions of these files and folders."""
    if not paths:
        raise click.UsageError(f"Name files or folders, or say --found: that finds the sessions of {client}.")
    there = Transcripts(client, tuple(path.absolute() for path in paths))
    return _import((there,), options, rejects, dry_run=dry_run)


def import_found(
    paths: Sequence[Path], client: TranscriptFormat | None, options: Options, rejects: Path | None, *,
    yes: bool, dry_run: bool,
) -> ExitCode:  # fmt: skip
    """List the sessions that lie where clients keep them, and import them if that is wanted."""
    if paths:
        raise click.UsageError("--found looks where clients keep their sessions: name no file.")
    clients = [client] if client else list(READERS)
    there = tuple(_places(each) for each in clients)
    if not yes or dry_run:
        rows = _list_sessions(there, read_settings(os.environ), options, note=False)
        groups, problems = groups_of(rows)
        _print_groups(groups, [*rows.problems, *problems], rows.left_out)
        if not groups:
            return ExitCode.FAILED
        if dry_run:
            return _look_only(rows, read_settings(os.environ), options, rejects)
        if not can_ask():
            print("Nothing was imported. To import them: engramq import --found --yes", file=sys.stderr)
            return ExitCode.DONE
        if not click.confirm("Import all of them?", err=True):
            return ExitCode.DONE
    return _import(there, options, rejects, dry_run=False)


def _places(client: TranscriptFormat) -> Transcripts:
    return Transcripts(client, tuple(place for place in READERS[client].places(surroundings()) if place.exists()))


def _list_sessions(several: Sequence[Transcripts], settings: Settings, options: Options, *, note: bool) -> SessionRows:
    namespace = options.namespace or settings.namespace
    rows = SessionRows(Projects(home_from(os.environ), namespace, settings.project or "", note=note))
    rows.list_all(several)
    return rows


def _import(several: Sequence[Transcripts], options: Options, rejects: Path | None, *, dry_run: bool) -> ExitCode:
    if dry_run:
        settings = read_settings(os.environ)
        rows = _list_sessions(several, settings, options, note=False)
        return _look_only(rows, settings, options, rejects) if rows.sessions else _nothing(several)
    counts: Counter[ReceiptStatus] = Counter()
    with import_servers(options.namespace) as settings:
        rows = _list_sessions(several, settings, options, note=True)
        with report.interruptible(lambda: f" after {_sessions(rows.read)}. So far: {report.format_counts(counts)}."):
            done = run(partial(bring_in, rows, settings, options, rejects, counts))
        _print_done(rows, done, settings)
    return _nothing(several) if not rows.sessions else report.exit_code_for(counts[ReceiptStatus.REJECTED], rejects)


def _nothing(several: Sequence[Transcripts]) -> ExitCode:
    """Say that there is no session where one was looked for."""
    where = ", ".join(printable(str(path)) for each in several for path in each.paths) or "where clients keep them"
    print(f"No sessions of {' or '.join(each.format for each in several)} were found: {where}.", file=sys.stderr)
    return ExitCode.FAILED


def _print_done(rows: SessionRows, done: ImportedSessions, settings: Settings) -> None:
    report.print_counts(done.importer)
    rate = rows.read / max(done.seconds, 1e-6)
    print(f"{_sessions(rows.read)} with {count_of(rows.turns, 'turn')}, {done.seconds:.1f} s, {rate:.1f} sessions/s")
    _print_gone(rows.projects.gone)
    report.print_left_out(rows.left_out)
    report.print_kept_apart(done.importer, settings)


def _look_only(rows: SessionRows, settings: Settings, options: Options, rejects: Path | None) -> ExitCode:
    with report.refusals():
        looked = look_through(rows.rows(), settings, options, rejects, foreign=True)
    print(f"{_sessions(rows.read)}  {MEMORIES} {looked.counts[MEMORIES]}  {REJECTED} {looked.counts[REJECTED]}")
    _print_gone(rows.projects.gone)
    looked.left_out += rows.left_out
    return report.print_looked(looked, rejects)


def _print_groups(groups: Sequence[Group], problems: Sequence[Rejection], left_out: Counter[LeftOut]) -> None:
    """Print a line for each client and project, and what could not be looked at."""
    if not groups:
        print("No sessions of coding agents were found.")
    for group in groups:
        since = datetime.fromtimestamp(group.since, UTC).date() if 0 < group.since < _YEAR_9999 else "-"
        project, size = printable(group.project) or "(no project)", f"{group.size / 2**20:,.1f} MB"
        note = "  folder is gone" if group.is_gone else ""
        print(f"{group.client:<12} {project:<28} {_sessions(group.sessions):>15} {size:>10}  {since}{note}")
    for problem in problems:
        print(f"{printable(problem.file)}: {problem.reason}", file=sys.stderr)
    report.print_left_out(left_out)


def _print_gone(gone: set[str]) -> None:
    if gone:
        named = ", ".join(printable(folder) for folder in sorted(gone)[:SHOWN_FOLDERS])
        more = f" and {len(gone) - SHOWN_FOLDERS} more" if len(gone) > SHOWN_FOLDERS else ""
        print(f"Folders that are gone: {named}{more}. Their project is called as the folder was.", file=sys.stderr)


def _sessions(number: int) -> str:
    return count_of(number, "session")
