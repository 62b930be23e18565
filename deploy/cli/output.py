"""What a command prints of a reply: JSON as it came, a text for people, or a refusal in one line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from engramq.deploy.cli.door import Door, Reply
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.vocabulary import EVERY_PROJECT


def printable(text: str | None) -> str:
    """Return a text for a terminal: whoever wrote it may have put control characters into it."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text or "")


def quoted(text: str) -> str:
    """Return a chosen name so that it stays on its line whatever it holds."""
    return text if text.isprintable() and text.strip() == text and '"' not in text else ascii(text)


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


def find(
    gateway: Door, tool: str, arguments: Mapping[str, Any], draw: Callable[[Reply], None], *, as_json: bool
) -> ExitCode:
    """Call a tool that answers with memories, and print them as `tell` does; raises what it and the call raise.

    Where nothing was found and no project was named it says that other projects were not looked at.
    """
    reply = gateway.call(tool, arguments)
    code = tell(reply, draw, as_json=as_json)
    if "project" not in arguments and not reply.get("memories", True) and not _sees_all(gateway):
        click.echo("Other projects were not looked at: --project '*' does; engramq projects lists them.", err=True)
    return code


def _sees_all(gateway: Door) -> bool:
    """Say whether a call that names no project is of all: the environment says that, or the token, or the gateway."""
    try:
        return gateway.call("memory_stats", {}).get("project") == EVERY_PROJECT
    except CommandFailed:  # a gateway elsewhere may offer fewer tools: the hint is harmless, and what was asked is told
        return False
