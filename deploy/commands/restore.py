"""The options of `engramq restore`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from engramq.deploy.commands.bytes_done import bytes_done
from engramq.deploy.home import home_from
from engramq.schemas.settings import read_settings


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Where the home holds something: move that aside within it.")
@click.option("--check", "only_check", is_flag=True, help="Only see that the file is whole and fits.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(file: Path, *, force: bool, only_check: bool, as_json: bool) -> None:
    """Make a home of a backup.

    Nothing is touched before all of the file was found to be as it was written. The stack must not run. Broken off,
    the same command begins anew, and the stack does not start before. See docs/backup.md.
    """
    if force and only_check:
        raise click.UsageError("--check touches nothing: give it without --force.")
    read_settings(os.environ)
    from engramq.deploy.backup.restoring import restore, verify  # noqa: PLC0415 - psycopg, wasted on wrong options

    home = home_from(os.environ)
    with bytes_done("done", hidden=as_json) as tell:
        done = verify(file, tell) if only_check else restore(home, os.environ, file, tell, force=force)
    moved_to = None if done.moved_to is None else str(done.moved_to)
    if as_json:
        told = {"restored": not only_check, "moved_to": moved_to, "bytes": done.bytes, "files": done.files}
        settings = {"settings": list(done.settings)}
        click.echo(json.dumps({"home": str(home.path), "file": str(file), **told, **settings, **asdict(done.header)}))
        return
    of_when = f"{done.bytes / 2**20:,.1f} MB of {done.header.made_at}, by engramq {done.header.engramq}"
    if done.settings:
        names = " and ".join(done.settings)
        click.echo(f"It has settings of PostgreSQL ({names}), which can name programs that the server runs.", err=True)
    if only_check:
        click.echo(f"{file} is whole and fits: {of_when}.")
        return
    click.echo(f"Restored {home.path}: {of_when}.")
    if moved_to is not None:
        click.echo(f"What it held is in {moved_to} now; remove that when you need it no more.")
