"""`engramq up`: everything until Ctrl-C, or with --detach until `engramq down`; `engramq stdio` shares it."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from engramq.deploy.cli.options import address_options, address_variables, named_as_options
from engramq.deploy.cli.status import health_line
from engramq.deploy.connect.catalogue import CLIENTS, NAME, how_started
from engramq.deploy.local import settings
from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.ownership import DETACHED_UP, FOREGROUND_UP, read_ownership, register_up
from engramq.deploy.local.servers_for import READY_BOUND_S
from engramq.deploy.local.stack_hold import StackHold, hold_stack
from engramq.deploy.local.stdio import serve
from engramq.deploy.local.supervisor.stack import DETACHED, UP
from engramq.deploy.local.supervisor.state import shut_down
from engramq.deploy.local.supervisor.supervise import health
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.setting_values import name, namespace, principal
from engramq.schemas.settings import Auth, read_settings

STOP_BOUND_S = 120.0
CHECKS_BOUND_S = 10.0
# The command that holds a stack without a terminal. Tests put their own in its place.
HOLDER_COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "engramq", "up", "--held")
# Between two starts that failed, each twice as long as the one before.
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
ANSWERED_BOUND_S = 10.0  # in which a worker that lives has opened its connections


@click.command("up")
@address_options
@click.option("--detach", is_flag=True, help="Return once it runs. It stays until engramq down.")
@click.option("--held", is_flag=True, hidden=True, help="Be what stays.")
def command(host: str | None, port: int | None, *, detach: bool, held: bool) -> None:
    """Run everything, HTTP too, until Ctrl-C; with --detach until engramq down."""
    given = address_variables(host, port)
    environment = {**os.environ, **given}
    with named_as_options(given):
        read_settings(environment)
    home = home_from(environment)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    holds: list[StackHold] = []
    try:
        click.echo(f"Starting engramq in {home.path} ...")
        if not held:
            require_fit(environment)
        holds.append(hold_stack(home, DETACHED if held else UP, environment, READY_BOUND_S))
        unanswered = _unanswered(holds[0])
        if detach:
            _detach(home, environment)
        end = "It stays until engramq down." if detach else "Ctrl-C stops it."
        _say("Holding it." if held else _banner(home, holds[0], environment, end))
        if unanswered:
            click.echo(f"But calls are not answered: {unanswered} See: engramq doctor", err=True)
        if detach:
            holds[0].close()
            return
        _stay(home, DETACHED if held else UP, environment, holds)
    except _Left:
        # It may come at any moment, also before there is a hold.
        if not holds:
            raise click.Abort from None
        _release(holds[0])


def _stay(home: Home, kind: str, environment: dict[str, str], holds: list[StackHold]) -> None:
    """Hold the stack until it is stopped on purpose, and start it again whenever that is lost."""
    with register_up(home, DETACHED_UP if kind == DETACHED else FOREGROUND_UP):
        while _was_lost(holds[0]):
            _say("The supervisor was killed. Starting it again ...")
            holds[0].close()
            try:
                holds[0] = _regain(home, kind, environment)
            except _Left:
                _say("Stopped.")
                return
            _say("Running again.")


def _regain(home: Home, kind: str, environment: dict[str, str]) -> StackHold:
    """Start the stack again, as often as it takes, until `engramq down` or Ctrl-C ends this process."""
    pause_s, said = FIRST_PAUSE_S, ""
    while True:
        if not home.path.is_dir():  # it was removed, and is not to come back as an empty one
            raise _Left
        try:
            return hold_stack(home, kind, environment, READY_BOUND_S)
        except (DeployError, OSError) as problem:
            if str(problem) != said:
                said = str(problem)
                _say(f"Not started: {said} Trying again until engramq down.")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the log's disk is full: that must not end what starts the stack again
        click.echo(text)


def _detach(home: Home, environment: dict[str, str]) -> None:
    """Have a process without a terminal hold the stack, unless one does already. Raises CommandFailed, DeployError.

    The caller's own hold keeps the stack up until then.
    """
    if any(owner.role == DETACHED_UP for owner in read_ownership(home).ups.values()):
        return
    log = home.logs / "up.log"
    with log.open("ab") as out:
        holder = subprocess.Popen(
            HOLDER_COMMAND, env={**environment, settings.HOME: str(home.path)}, stdin=subprocess.DEVNULL, stdout=out,
            stderr=out, cwd="/", start_new_session=True,
        )  # fmt: skip

    def settled() -> bool:
        owners = read_ownership(home).ups.values()
        return holder.poll() is not None or any(owner.process.pid == holder.pid for owner in owners)

    if not wait_until(settled, READY_BOUND_S) or holder.returncode is not None:
        raise CommandFailed(f"It does not stay without this terminal. See {log}.")


@click.command("down")
def down() -> None:
    """Stop the home's stack, also while clients use it."""
    home = home_from(os.environ)
    done = shut_down(home)
    if done.copied_from:
        click.echo(f"{home.path} is a copy of {done.copied_from}, whose processes are left alone.", err=True)
    click.echo(f"Stopped engramq in {home.path}." if done.was_running else f"engramq is not running in {home.path}.")


def require_fit(environment: dict[str, str]) -> None:
    """Raise CommandFailed naming each thing that is missing for a start, within CHECKS_BOUND_S.

    Each look has a bound of its own: when all together take longer, the machine is busy, as when it has just booted.
    Then the start goes on, which names what it lacks by itself.
    A process of its own looks: the drivers and models that it loads would stay in this one for as long as it runs.
    """
    doctor = (sys.executable, "-P", "-m", "engramq", "doctor", "--before-start", "--json")
    try:
        done = subprocess.run(
            doctor, env=environment, capture_output=True, text=True, check=False, timeout=CHECKS_BOUND_S
        )
    except subprocess.TimeoutExpired:
        told = f"The checks before a start have not ended within {CHECKS_BOUND_S:.0f} s; it goes on without them."
        click.echo(f"{told} See: engramq doctor", err=True)
        return
    try:
        checks = json.loads(done.stdout)["checks"]
    except (ValueError, KeyError):
        raise CommandFailed(f"The checks before a start broke off: {done.stderr.strip()[-500:]}") from None
    missing = [f"{check['told']} {check['mend']}" for check in checks if check.get("state") == "failed"]
    if missing:
        raise CommandFailed("\n  ".join(["not started.", *missing]) if len(missing) > 1 else missing[0])


def _unanswered(hold: StackHold) -> str:
    """Return nothing as soon as the gateway says that calls are answered, else after a while what it lacks."""
    found: dict[str, object] | None = None

    def answered() -> bool:
        nonlocal found
        found = health(Path(hold.addresses["gateway_socket"]))
        return found is not None and found["status"] != "unavailable"

    if "gateway_socket" not in hold.addresses or wait_until(answered, ANSWERED_BOUND_S):
        return ""
    return f"{health_line(found or {})}."


class _Left(BaseException):
    """The user wants `engramq up` to end."""


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Left


def _was_lost(hold: StackHold) -> bool:
    """Wait for the end of the stack; False when somebody stopped it on purpose."""
    stopping = False
    while True:
        try:
            event = hold.receive(3600.0)
        except TimeoutError:
            continue
        if event is None:
            if stopping:
                _say("Stopped by engramq down.")
            return not stopping
        stopping = stopping or event.get("event") == "stopping"


def _release(hold: StackHold) -> None:
    """Give the hold back without lingering and wait for the end, if ours was the last."""
    click.echo("Stopping ...")
    try:
        hold.channel.send({"op": "release"})
        answer = hold.receive(STOP_BOUND_S)
        while answer is not None and "stopping" not in answer:
            answer = hold.receive(STOP_BOUND_S)
        if answer is not None and not answer["stopping"]:
            click.echo("Other clients still use this stack: it stays until the last has left (engramq down stops it).")
            return
        while hold.receive(STOP_BOUND_S) is not None:
            pass
        click.echo("Stopped.")
    except (OSError, _Left):
        # Gone, or told twice to hurry: the connection's end releases the hold just as well.
        click.echo("Left.")
    finally:
        hold.close()


def _auth_of(environment: dict[str, str]) -> str:
    return environment.get(settings.AUTH) or settings.DEFAULT_AUTH


def _principal(home: Home, environment: dict[str, str]) -> str:
    """Return who stores what comes in over HTTP, or what says it."""
    match _auth_of(environment):
        case Auth.TOKEN:
            return "  principal       by token; engramq token create --principal NAME makes one"
        case Auth.JWT:
            return f"  principal       by a token of {read_settings(environment).jwt.issuer}"
    return f"  principal       {settings.principal_of(home, environment)}"


def _banner(home: Home, hold: StackHold, environment: dict[str, str], end: str) -> str:
    # A client starts the command with an environment of its own, so a home that is not the default must be in it.
    start, client = how_started(environment), CLIENTS["gemini"]
    options = "".join(f" --env {shlex.quote(f'{name}={value}')}" for name, value in start.variables.items())
    http = hold.addresses.get("http", "")
    add = f"  claude mcp add --transport http engramq {http}/mcp --header 'Authorization: Bearer TOKEN'"
    with_token = (
        [] if _auth_of(environment) == Auth.NONE else ["Connect a client over HTTP with a token of its own:", add, ""]
    )
    lines = [
        "",
        "engramq is running.",
        f"  MCP over HTTP   {http}/mcp",
        f"  page            {http}/ui",
        f"  data and logs   {home.path}",
        _principal(home, environment),
        "",
        *with_token,
        "Connect an MCP client of this machine (it shares this stack): engramq connect CLIENT, or",
        f"  claude mcp add engramq{options} -- {shlex.join(start.command('stdio'))}",
        "or in an mcp.json:",
        "  " + json.dumps({client.servers: {NAME: client.entry(start)}}),
        "",
        end,
    ]
    if hold.other_values:
        lines.append(f"Note: {hold.other_values}")
    return "\n".join(lines)


@click.command("stdio")
@click.option("--namespace", metavar="NAME", type=namespace, help="The tenant. Default: ENGRAMQ_NAMESPACE.")
@click.option("--principal", metavar="NAME", type=principal, help="Who the client is. Default: ENGRAMQ_PRINCIPAL.")
@click.option(
    "--tools",
    metavar="everyday|graph|full|core|NAME,...",
    type=name,
    help="Which tools there are. Default: ENGRAMQ_TOOLS.",
)
@click.option(
    "--project", metavar="NAME", type=name,
    help="The project; * sees all. Default: ENGRAMQ_PROJECT, else that of the folder's repository.",
)  # fmt: skip
@click.option("--folder", metavar="PATH", help="Where the client works. Default: where it starts this.")
def stdio(
    namespace: str | None,
    principal: str | None,
    tools: str | None,
    project: str | None,
    folder: str | None,
) -> int:
    """Serve MCP on standard input and output, sharing the home's stack.

    The stack of ENGRAMQ_HOME is started when it is not running, and shared with every other client.
    """
    given = {
        settings.NAMESPACE: namespace,
        settings.PRINCIPAL: principal,
        settings.TOOLS: tools,
        settings.PROJECT: project,
    }
    return serve({**os.environ, **{variable: value for variable, value in given.items() if value}}, folder or "")
