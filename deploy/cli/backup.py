"""`engramq backup`: save the home in a file, while it is used."""

import os
from pathlib import Path

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.output import json_line
from engramq.deploy.cli.progress import bytes_done
from engramq.deploy.local.backup.taking import back_up
from engramq.deploy.local.home import home_from
from engramq.schemas.settings import read_settings


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@common.JSON
def command(file: Path, *, as_json: bool) -> None:
    """Save the home in a file, while it is used.

    FILE must not be there yet. It holds all that is stored, tokens too, and only its owner may read it; it lacks what
    Redis keeps, such as breadcrumbs. See docs/backup.md.
    """
    common.require_folder(file, "FILE")
    read_settings(os.environ)
    home = home_from(os.environ)
    with bytes_done("saved", hidden=as_json) as tell:
        taken = back_up(home, os.environ, file, tell)
    if as_json:
        sizes = {"file_bytes": taken.file_bytes, "bytes": taken.bytes, "files": taken.files}
        click.echo(json_line(taken.header, home=str(home.path), file=str(file), **sizes))
        return
    click.echo(
        f"Saved {home.path} in {file}: {taken.file_bytes / 2**20:,.1f} MB of {taken.bytes / 2**20:,.1f} MB, "
        f"schema {taken.header.schema}. Keep it as safe as the home."
    )
