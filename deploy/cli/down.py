"""`engramq down`: the end of the home's stack."""

from __future__ import annotations

import os

import click

from engramq.deploy.local.home import home_from
from engramq.deploy.local.supervisor.shutdown import shut_down


@click.command("down")
def command() -> None:
    """Stop the home's stack, whoever uses it."""
    home = home_from(os.environ)
    click.echo(f"Stopped engramq in {home.path}." if shut_down(home) else f"engramq is not running in {home.path}.")
