"""What a reply means to the shell: a refusal is said in one line, the rest is drawn, or printed as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

import click

from engramq.deploy.cli.door import Reply
from engramq.deploy.cli.printable import printable
from engramq.schemas.command_line import CommandFailed, ExitCode


def tell(reply: Reply, draw: Callable[[Reply], None], *, as_json: bool) -> ExitCode:
    """Print a reply as JSON, just as it came, or by `draw`; returns how the command ends.

    Raises CommandFailed for a refusal, unless it is printed.
    """
    code = exit_code(reply)
    if as_json:
        click.echo(json.dumps(reply, ensure_ascii=False))
        return code
    refuse(reply)
    draw(reply)
    for name in ("notice", "hint"):
        if reply.get(name):
            click.echo(printable(str(reply[name])), err=True)
    if reply.get("degraded"):
        click.echo("The embedder did not answer: this is by words only.", err=True)
    return code


def exit_code(reply: Reply) -> ExitCode:
    """Return how a command ends that got this reply."""
    match reply["status"]:
        case "invalid_parameter":
            return ExitCode.MISUSED
        case "error" | "not_found":
            return ExitCode.FAILED
        case "pending":
            return ExitCode.MIDWAY
        case _:
            return ExitCode.DONE


def refuse(reply: Reply) -> None:
    """Raise CommandFailed for a refusal, and for a write that is not done yet."""
    if reply["status"] in ("invalid_parameter", "error"):
        told = " ".join(printable(str(reply[name])) for name in ("error", "recovery") if reply.get(name))
        raise CommandFailed(told, exit_code(reply))
    if reply["status"] == "pending":
        told = f"It is taken, and not done yet (command {printable(str(reply['command_id']))}). See engramq status."
        raise CommandFailed(told, ExitCode.MIDWAY)
