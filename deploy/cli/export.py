"""`engramq export`: everything of a namespace in a file that `engramq import` restores, or a form of others."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import click

from engramq.deploy.cli import options as common
from engramq.deploy.exporting import opened_form
from engramq.deploy.local.new_file import Unwritable, new_file
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.command_line import CommandFailed, count_of
from engramq.schemas.exports import ExportFormat
from engramq.schemas.setting_values import name
from engramq.schemas.vocabulary import EVERY_PROJECT
from engramq.workers.admin import export_to

PIPE: Final = "-"


def _project(text: str) -> str | None:
    return None if text == EVERY_PROJECT else name(text)


@click.command("export")
@click.argument("file", type=click.Path(allow_dash=True))
@click.option(
    "--format", "form", type=click.Choice([str(word) for word in ExportFormat]), default=str(ExportFormat.ENGRAMQ),
    show_default=True, help="engramq: all of it, to be restored. Others: what holds now, for another program.",
)  # fmt: skip
@common.NAMESPACE
@click.option(
    "--project", metavar="NAME", type=_project, help="Its memories and links alone, without the graph; *: everything."
)
@click.option("--audit", is_flag=True, help="With the audit log.")
@click.option("--embeddings", is_flag=True, help="With the vectors of memories.")
def command(file: str, form: str, namespace: str | None, project: str | None, *, audit: bool, embeddings: bool) -> None:
    """Write everything of a namespace to a file, which engramq import restores.

    The file has JSON lines. FILE - is standard output; a file must not be there yet. With --format it is what holds now
    in the form of another program, of markdown a folder. See docs/export.md for the formats.
    """
    if project is not None and audit:
        raise click.UsageError("--audit is of a whole namespace: leave out --project, or it.")
    target = None if file == PIPE else Path(file)
    if target is not None:
        common.require_folder(target, "FILE")
    if form != ExportFormat.ENGRAMQ and (audit or embeddings or target is None):
        raise click.UsageError(f"{form} has a file or folder of its own, and neither audit log nor vectors.")
    if target is not None and target.is_dir():
        raise click.BadParameter(f"{file!r} is a directory, and there already.", param_hint="'FILE'")
    if form != ExportFormat.ENGRAMQ and target is not None:
        _write_form(ExportFormat(form), target, namespace, project)
        return
    with servers_for("export") as settings, _open_output(target) as out:
        place = namespace or settings.namespace
        count = export_to(settings, place, out, audit=audit, embeddings=embeddings, project=project)
    print(f"{count_of(count - 2, 'record')} of namespace {place!r} exported.", file=sys.stderr)


def _write_form(form: ExportFormat, target: Path, namespace: str | None, project: str | None) -> None:
    """Write what holds in the form of another program, and say what that cannot hold."""
    try:
        with servers_for("export") as settings, opened_form(form, target) as out:
            place = namespace or settings.namespace
            export_to(settings, place, out, project=project)
            count = out.close()
    except Unwritable as problem:
        raise CommandFailed(str(problem)) from None
    print(f"{count_of(count, 'record')} of namespace {place!r} written to {target}.", file=sys.stderr)
    if out.left_out:
        told = ", ".join(f"{what} ({number})" for what, number in sorted(out.left_out.items()))
        print(
            f"Left out, as {form} has no place for it: {told}. engramq export without --format keeps all.",
            file=sys.stderr,
        )


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
