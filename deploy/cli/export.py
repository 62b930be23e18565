"""`engramq export`: everything of a namespace in a file that `engramq import` restores."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.local.new_file import Unwritable, new_file
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.command_line import CommandFailed, count_of
from engramq.schemas.setting_values import name
from engramq.schemas.vocabulary import EVERY_PROJECT
from engramq.workers.admin import export_to

PIPE: Final = "-"


def _project(text: str) -> str:
    if text == EVERY_PROJECT:
        raise ValueError("stands for all projects: leave --project out to export everything")
    return name(text)


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@common.NAMESPACE
@click.option("--project", metavar="NAME", type=_project, help="Its memories and their links alone, without the graph.")
@click.option("--audit", is_flag=True, help="With the audit log.")
@click.option("--embeddings", is_flag=True, help="With the vectors of memories.")
def command(file: str, namespace: str | None, project: str | None, *, audit: bool, embeddings: bool) -> None:
    """Write everything of a namespace to a file, which engramq import restores.

    The file has JSON lines. FILE - is standard output; a file must not be there yet. See docs/export.md for the format.
    """
    if project is not None and audit:
        raise click.UsageError("--audit is of a whole namespace: leave out --project, or it.")
    target = None if file == PIPE else Path(file)
    if target is not None:
        common.require_folder(target, "FILE")
    with servers_for("export") as settings, _open_output(target) as out:
        place = namespace or settings.namespace
        count = export_to(settings, place, out, audit=audit, embeddings=embeddings, project=project)
    print(f"{count_of(count - 2, 'record')} of namespace {place!r} exported.", file=sys.stderr)


@contextmanager
def _open_output(target: Path | None) -> Iterator[IO[bytes]]:
    """Open what an export goes to. A file has its name once it is whole; only its owner may read it."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with new_file(target) as out:
            yield out
    except Unwritable as problem:
        raise CommandFailed(str(problem)) from None
