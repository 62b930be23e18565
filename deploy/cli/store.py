"""`engramq store`: keep one memory, and print its id."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from engramq.deploy.cli import options as common
from engramq.deploy.cli.door import Reply, door, write
from engramq.deploy.cli.output import printable, tell
from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import Partition, Sector

PIPE = "-"
MOST_BYTES = 1024 * 1024  # of standard input: several times what one memory holds


def _properties(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ValueError(f"{text!r} is no JSON object")
    return given


def _content(words: tuple[str, ...]) -> str:
    if words and words != (PIPE,):
        return " ".join(words)
    if sys.stdin is None:
        raise click.UsageError("Standard input is closed.")
    if sys.stdin.isatty() and not words:
        raise click.UsageError("Say what is to be stored, or give it on standard input.")
    data = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise click.UsageError("That is too long for one memory: `engramq import --split` makes several of a text.")
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise click.UsageError("Standard input is no text in UTF-8.") from None


@click.command("store")
@click.argument("content", nargs=-1)
@common.TAG
@click.option("--project", metavar="NAME", help="Whose it is. Default: ENGRAMQ_PROJECT, else nobody's.")
@click.option("--partition", type=click.Choice([str(word) for word in Partition]), help="untrusted: keep it apart.")
@click.option("--sector", type=click.Choice([str(word) for word in Sector]), help="Default: told from the words.")
@click.option("--source-type", metavar="WORD", help="Where it comes from, if not from you: kept apart then.")
@click.option("--speaker", metavar="NAME", help="Who said it.")
@click.option("--occurred-at", metavar="TIME", help="When it happened: a date, or a time.")
@common.THREAD
@click.option("--external-id", metavar="ID", help="An id of your own, used once.")
@click.option("--confidence", metavar="X", type=float, help="How sure you are, from 0 to 1.")
@click.option("--valid-from", metavar="TIME", help="From when it holds.")
@click.option("--valid-until", metavar="TIME", help="Until when it holds.")
@click.option("--expires-at", metavar="TIME", help="When it is to be forgotten.")
@click.option("--metadata", metavar="JSON", type=_properties, help="An object that is kept with it.")
@common.options(common.NAMESPACE, common.JSON)
def command(
    content: tuple[str, ...],
    namespace: str | None,
    *,
    as_json: bool,
    **fields: Any,
) -> ExitCode:
    """Keep one memory, and print its id.

    The words of CONTENT need no quotation marks; without any, or as -, it is read from standard input. What is similar
    already is told of.
    """
    said = {"content": _content(content), "source": "explicit", **common.arguments(fields)}
    with door(namespace) as gateway:
        return tell(write(gateway, "store_memory", said), _draw, as_json=as_json)


def _draw(reply: Reply) -> None:
    click.echo(reply["stored"]["id"])
    for one in reply["similar_memories"]:
        preview = one.get("preview") or one.get("content") or ""
        click.echo(f"similar ({one['similarity']:.2f}): {one['id']}  {printable(preview)[:100]}", err=True)
