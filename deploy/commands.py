"""What people type: `engramq up`, `down`, `status`, and the list of all commands."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from engramq.deploy import settings
from engramq.deploy.client import SUPERVISOR_COMMAND, Channel, Lease, connect, take_lease
from engramq.deploy.home import DeployError, Home, home_from
from engramq.deploy.supervisor.shutdown import shut_down
from engramq.schemas.settings import SettingsError, read_settings

# A first start makes the database cluster and loads the model; slow disks take their time.
READY_BOUND_S = 180.0
STOP_BOUND_S = 90.0
NOT_RUNNING = 3

# Commands of the other packages, which are imported only when one of theirs is called.
_ELSEWHERE = {
    "stdio": "Serve MCP on stdin and stdout, sharing the home's stack.",
    "gateway": "Serve MCP over HTTP (or on a socket), with the servers of the environment.",
    "worker": "Run workers of the given kinds, or all of them.",
    "migrate": "Bring the database's schema up to date.",
    "import": "Load memories from a JSONL file.",
    "purge": "List, then erase for good, all memories of a principal, source type, thread or time.",
    "audit": "Show who did what.",
    "token": "Make, list and revoke the bearer tokens of HTTP clients.",
}


def run(arguments: list[str], supervisor: tuple[str, ...] = SUPERVISOR_COMMAND) -> int:
    """Run one of the commands here; returns the exit code, having printed what is to be said.

    `supervisor` is the command that starts a supervisor where there is none.
    """
    try:
        code = commands.main(args=arguments, prog_name="engramq", standalone_mode=False, obj=supervisor)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return 130
    except (DeployError, SettingsError) as error:
        click.echo(f"engramq: {error}", err=True)
        return 1
    # Not standalone, click returns the code of an Exit, and else what the command returned.
    return code if isinstance(code, int) else 0


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("engramq"), prog_name="engramq")
def commands() -> None:
    """Long-term memory for AI agents, over MCP.

    `engramq up` runs everything on embedded servers below ENGRAMQ_HOME (default ~/.engramq).
    """


@commands.command()
@click.pass_obj
def up(supervisor: tuple[str, ...]) -> None:
    """Run everything in the foreground, HTTP too, until Ctrl-C."""
    environment = dict(os.environ)
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


@commands.command()
def down() -> None:
    """Stop the home's stack, whoever uses it."""
    home = home_from(dict(os.environ))
    click.echo(f"Stopped engramq in {home.path}." if shut_down(home) else f"engramq is not running in {home.path}.")


@commands.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(*, as_json: bool) -> None:
    """Show what runs: processes, memory, clients, addresses. Exit code 3 when nothing does."""
    home = home_from(dict(os.environ))
    channel = connect(home)
    answer = _ask_status(channel) if channel is not None else None
    if answer is None:
        click.echo(
            json.dumps({"running": False, "home": str(home.path)})
            if as_json
            else f"engramq is not running in {home.path}."
        )
        raise click.exceptions.Exit(NOT_RUNNING)
    answer.pop("ok")
    click.echo(json.dumps({"running": True, **answer}) if as_json else _table(answer))


def _ask_status(channel: Channel) -> dict[str, object] | None:
    try:
        channel.send({"op": "status"})
        return channel.receive(10.0)
    except OSError as error:
        raise DeployError("not_answering", "The supervisor does not answer.", "engramq down ends it.") from error
    finally:
        channel.close()


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


def _table(answer: dict[str, object]) -> str:
    lines = [f"engramq in {answer['home']}, supervisor {answer['pid']}, up {answer['uptime_s']} s"]
    for label, value in {"http": answer["http"], **_dictionary(answer["addresses"])}.items():
        lines.append(f"  {label:<20}{value or '-'}")
    lines.append(f"  {'service':<12}{'state':<10}{'pid':>8}{'up s':>10}{'MB':>8}{'restarts':>10}")
    complaints = []
    for service in _dictionaries(answer["services"]):
        shown = [service[name] if service[name] is not None else "-" for name in ("pid", "uptime_s", "memory_mb")]
        figures = f"{shown[0]:>8}{shown[1]:>10}{shown[2]:>8}{service['restarts']:>10}"
        lines.append(f"  {service['name']:<12}{service['state']:<10}{figures}")
        complaints += [str(service["complaint"])] if service["complaint"] else []
    leases = [f"{lease['kind']} (pid {lease['pid']})" for lease in _dictionaries(answer["leases"])]
    lines.append(f"  used by {', '.join(leases) or 'nobody: it stops soon'}")
    return "\n".join([*lines, *complaints])


def _dictionary(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _dictionaries(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _register(name: str, meaning: str) -> None:
    # Only for the list: the dispatcher never comes here with these.
    commands.add_command(click.Command(name, help=meaning, short_help=meaning))


for _name, _meaning in _ELSEWHERE.items():
    _register(_name, _meaning)
