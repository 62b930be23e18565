"""`engramq up`: everything in the foreground, until Ctrl-C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from engramq.deploy import settings
from engramq.deploy.client import Lease, take_lease
from engramq.deploy.commands.option_types import address_options, address_variables, named_as_options
from engramq.deploy.home import Home, home_from
from engramq.deploy.servers_for import READY_BOUND_S
from engramq.schemas.settings import read_settings

STOP_BOUND_S = 120.0


@click.command("up")
@address_options
@click.pass_obj
def command(supervisor: tuple[str, ...], host: str | None, port: int | None) -> None:
    """Run everything in the foreground, HTTP too, until Ctrl-C."""
    given = address_variables(host, port)
    environment = {**os.environ, **given}
    with named_as_options(given):
        read_settings(environment)
    home = home_from(environment)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    held: list[Lease] = []
    try:
        click.echo(f"Starting engramq in {home.path} ...")
        held.append(take_lease(home, "up", environment, READY_BOUND_S, supervisor))
        click.echo(_banner(home, held[0], environment))
        while _was_lost(held[0]):
            click.echo("The supervisor was killed. Starting it again ...")
            held.pop().close()
            held.append(take_lease(home, "up", environment, READY_BOUND_S, supervisor))
            click.echo("Running again.")
    except _Left:
        # It may come at any moment, also before there is a lease.
        if not held:
            raise click.Abort from None
        _release(held[0])


class _Left(BaseException):
    """The user wants `engramq up` to end."""


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Left


def _was_lost(lease: Lease) -> bool:
    """Wait for the end of the stack; False when somebody stopped it on purpose."""
    stopping = False
    while True:
        try:
            event = lease.receive(3600.0)
        except TimeoutError:
            continue
        if event is None:
            if stopping:
                click.echo("Stopped by engramq down.")
            return not stopping
        stopping = stopping or event.get("event") == "stopping"


def _release(lease: Lease) -> None:
    """Give the lease back without lingering and wait for the end, if ours was the last."""
    click.echo("Stopping ...")
    try:
        lease.channel.send({"op": "release"})
        answer = lease.receive(STOP_BOUND_S)
        while answer is not None and "stopping" not in answer:
            answer = lease.receive(STOP_BOUND_S)
        if answer is not None and not answer["stopping"]:
            click.echo("Other clients still use this stack: it stays until the last has left (engramq down stops it).")
            return
        while lease.receive(STOP_BOUND_S) is not None:
            pass
        click.echo("Stopped.")
    except (OSError, _Left):
        # Gone, or told twice to hurry: the connection's end releases the lease just as well.
        click.echo("Left.")
    finally:
        lease.close()


def _banner(home: Home, lease: Lease, environment: dict[str, str]) -> str:
    command = shutil.which("engramq") or str(Path(sys.argv[0]).resolve())
    # A client starts the command with an environment of its own, so a home that is not the default must be in it.
    variables = {settings.HOME: str(home.path)} if environment.get(settings.HOME) else {}
    server: dict[str, object] = {"command": command, "args": ["stdio"]}
    if variables:
        server["env"] = variables
    options = "".join(f" --env {name}={value}" for name, value in variables.items())
    lines = [
        "",
        "engramq is running.",
        f"  MCP over HTTP   {lease.addresses.get('http', '')}/mcp",
        f"  data and logs   {home.path}",
        "",
        "Connect an MCP client over stdio (it shares this stack):",
        f"  claude mcp add engramq{options} -- {command} stdio",
        "or in an mcp.json:",
        "  " + json.dumps({"mcpServers": {"engramq": server}}),
        "",
        "Ctrl-C stops it.",
    ]
    if lease.differing:
        names = ", ".join(lease.differing)
        lines.append(f"Note: this stack was started with other values of {names}; engramq down lets them change.")
    return "\n".join(lines)
