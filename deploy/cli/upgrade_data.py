"""The options of `engramq upgrade-data`."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click

from engramq.deploy.home import DeployError, home_from
from engramq.deploy.settings import DATABASE_URL
from engramq.schemas.settings import read_settings


@click.command("upgrade-data")
@click.option(
    "--old-binaries",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Programs of the former PostgreSQL, such as /usr/lib/postgresql/16/bin.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(old_binaries: Path | None, *, as_json: bool) -> None:
    """Move the home's database to the PostgreSQL of this release.

    The stack must not run. The old files are kept beside the new ones; remove them when you need them no more. Broken
    off, the same command begins anew. See docs/operations.md.
    """
    read_settings(os.environ)
    if os.environ.get(DATABASE_URL):
        raise DeployError(
            "own_database",
            f"{DATABASE_URL} names a server of your own, which engramq does not upgrade.",
            "Use pg_upgrade or a dump, as docs/operations.md says.",
        )
    from engramq.deploy.upgrade.moving import move  # noqa: PLC0415 - psycopg, wasted on wrong options

    home = home_from(os.environ)
    moved = move(home, lambda sentence: click.echo(sentence, err=True), old_binaries)
    if as_json:
        told = None if moved is None else {**asdict(moved), "kept": str(moved.kept)}
        click.echo(json.dumps({"home": str(home.path), "moved": told}))
    elif moved is None:
        click.echo("Nothing to move.")
    else:
        click.echo(
            f"Moved {moved.rows:,} rows of {moved.tables} tables from PostgreSQL {moved.before} to {moved.after}.\n"
            f"The old files are in {moved.kept}; remove them when you need them no more."
        )
