"""`engramq up`: everything until Ctrl-C, or with --detach until `engramq down`; `engramq stdio` shares it."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import click

from engramq.deploy.cli.options import address_options, address_variables, named_as_options
from engramq.deploy.cli.status import health_line
from engramq.deploy.connect.catalogue import CLIENTS, NAME, how_started
from engramq.deploy.local import settings
from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.holding import Left, become, end_by_signals, release, role_of, say, stay
from engramq.deploy.local.home import Home, home_from
from engramq.deploy.local.ownership import DETACHED_UP, read_ownership, register_up
from engramq.deploy.local.stack_hold import DETACHED, READY_BOUND_S, UP, StackHold, hold_stack
from engramq.deploy.local.stdio import serve
from engramq.deploy.local.supervisor.state import shut_down
from engramq.deploy.local.supervisor.supervise import health
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.setting_values import name, namespace, principal
from engramq.schemas.settings import Auth, read_settings

CHECKS_BOUND_S = 10.0
# The command that holds a stack without a terminal. Tests put their own in its place.
HOLDER_COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "engramq", "up", "--held")
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
    end_by_signals()
    kind = DETACHED if held else UP
    holds: list[StackHold] = []
    try:
        click.echo(f"Starting engramq in {home.path} ...")
        if not held:
            require_fit(environment)
        holds.append(hold_stack(home, kind, environment, READY_BOUND_S))
        unanswered = _unanswered(holds[0])
        if detach:
            _detach(home, environment)
        end = "It stays until engramq down." if detach else "Ctrl-C stops it."
        say("Holding it." if held else _banner(home, holds[0], environment, end))
        if unanswered:
            click.echo(f"But calls are not answered: {unanswered} See: engramq doctor", err=True)
        if detach:
            holds[0].close()
            return
        with register_up(home, role_of(kind)) as lock:
            become(kind, environment, holds[0], lock)
            stay(home, kind, environment, holds)
    except Left:
        # It may come at any moment, also before there is a hold.
        if not holds:
            raise click.Abort from None
        release(holds[0])


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
