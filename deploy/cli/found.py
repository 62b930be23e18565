"""What a call that looks for memories found, and that it did not look everywhere where it found nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from engramq.deploy.cli.door import Door, Reply
from engramq.deploy.cli.told import tell
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.vocabulary import EVERY_PROJECT


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
