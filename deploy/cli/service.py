"""`engramq service`: have the system start the home's stack when its user logs in: systemd's user units, or launchd."""

import os
import plistlib
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from engramq.deploy.connect.catalogue import how_started
from engramq.deploy.connect.files import read_text, replace_text
from engramq.deploy.local import settings
from engramq.deploy.local.home import home_from
from engramq.schemas.command_line import CommandFailed
from engramq.schemas.settings import read_settings

UNIT: Final = "engramq.service"
LABEL: Final = "io.github.engramq"
MARK: Final = "Written by engramq service install"
STOP_S: Final = 150  # PostgreSQL and Redis end in order
COMMAND_S: Final = 300.0  # which starts the stack, and may make its database
# Not kept: what the home keeps, and what is a client's.
_NOT_KEPT: Final = frozenset({settings.EMBEDDER, settings.EMBEDDER_URL, settings.URL, *settings.SECRETS})


@dataclass(frozen=True, slots=True)
class SystemService:
    """A file that a service manager reads, and the commands that have it do so."""

    path: Path
    text: str
    begin: tuple[tuple[str, ...], ...]
    end: tuple[tuple[str, ...], ...]
    after_end: tuple[tuple[str, ...], ...] = ()


@click.group("service", subcommand_metavar="install|remove", no_args_is_help=False)
def command() -> None:
    """Have the system start the stack when you log in, and keep it up."""


@command.command("install")
@click.option("--print", "show", is_flag=True, help="Print the file and where it belongs; write nothing.")
def install(*, show: bool) -> None:
    """Write a user unit of systemd, or an agent of launchd on macOS, and start it.

    It runs engramq up with the ENGRAMQ_ variables that are set now, without secrets. The file is shown.
    """
    read_settings(os.environ)
    service = service_of(sys.platform, os.environ, Path.home())
    click.echo(f"{service.path}:", err=show)
    click.echo(service.text, nl=False)
    if left_out := [name for name in settings.SECRETS if os.environ.get(name)]:
        click.echo(f"Left out, being secret: {', '.join(left_out)}. Name a file instead: {left_out[0]}_FILE.", err=True)
    if show:
        return
    if _own(service.path):
        _run_all(service.end, is_tried=True)
    home_from(os.environ).ensure()  # the log's folder has to be there
    if read_text(service.path) != service.text:
        service.path.unlink(missing_ok=True)  # of its own, as it was found to be: nothing to be kept beside
        replace_text(service.path, service.text)
    _run_all(service.begin)
    click.echo("It runs, and starts when you log in. See: engramq status. To end this: engramq service remove")


@command.command("remove")
def remove() -> None:
    """Stop the stack, and take away what install has written."""
    service = service_of(sys.platform, os.environ, Path.home())
    if not _own(service.path):
        click.echo(f"There is no {service.path}.")
        return
    _run_all(service.end, is_tried=True)
    service.path.unlink()
    _run_all(service.after_end)
    click.echo(f"Removed {service.path}. Clients start the stack again as they need it.")


def service_of(platform: str, environment: Mapping[str, str], user: Path) -> SystemService:
    """Return the service of a system: of launchd on macOS, else of systemd."""
    start = how_started(environment)
    kept = {
        name: value
        for name, value in sorted(environment.items())
        if name.startswith(settings.PREFIX) and value and name not in _NOT_KEPT
    } | dict(start.variables)
    if platform == "darwin":
        return _agent(start.command("up"), kept, user, home_from(dict(environment)).logs / "up.log")
    folder = Path(environment.get("XDG_CONFIG_HOME") or user / ".config")
    systemctl = ("systemctl", "--user")
    return SystemService(
        folder / "systemd" / "user" / UNIT,
        _unit(start.command("up"), start.command("down"), kept),
        begin=((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", UNIT)),
        end=((*systemctl, "disable", "--now", UNIT),),
        after_end=((*systemctl, "daemon-reload"),),
    )


def _unit(up: tuple[str, ...], down: tuple[str, ...], variables: Mapping[str, str]) -> str:
    lines = [
        f"# {MARK}; engramq service remove takes it away.",
        "[Unit]",
        "Description=engramq, the long-term memory of this user's agents",
        "",
        "[Service]",
        *(f"Environment={_quote(f'{name}={value}')}" for name, value in variables.items()),
        f"ExecStart={_words(up)}",
        "# In order, also while it is used: PostgreSQL would be killed else, as one process of many.",
        f"ExecStop={_words(down)}",
        "KillMode=mixed",
        f"TimeoutStopSec={STOP_S}",
        "Restart=on-failure",
        "RestartSec=5",
        "",
        "[Install]",
        "WantedBy=default.target",
    ]
    return "\n".join(lines) + "\n"


def _words(words: tuple[str, ...]) -> str:
    return " ".join(_quote(word).replace("$", "$$") for word in words)


def _quote(text: str) -> str:
    """Return a text as one word of systemd's, which reads percent signs as specifiers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("\n", "\\n")
    return f'"{escaped}"'


def _agent(up: tuple[str, ...], variables: Mapping[str, str], user: Path, log: Path) -> SystemService:
    path = user / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    domain = f"gui/{os.getuid()}"
    content = {
        "Label": LABEL,
        "ProgramArguments": list(up),
        "EnvironmentVariables": dict(variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},  # engramq down ends it
        "ExitTimeOut": STOP_S,
        "StandardOutPath": str(log),
        "StandardErrorPath": str(log),
    }
    head, _, rest = plistlib.dumps(content, sort_keys=False).decode().partition("<plist")
    text = f"{head}<!-- {MARK}; engramq service remove takes it away. -->\n<plist{rest}"
    return SystemService(
        path,
        text,
        begin=(("launchctl", "bootstrap", domain, str(path)),),
        end=(("launchctl", "bootout", f"{domain}/{LABEL}"),),
    )


def _own(path: Path) -> str:
    """Return what is in the file, "" if it is not there; raises CommandFailed for one that somebody else wrote."""
    text = read_text(path)
    if text and MARK not in text:
        raise CommandFailed(f"{path} was not written by engramq service install. It is as it was.")
    return text


def _run_all(commands: tuple[tuple[str, ...], ...], *, is_tried: bool = False) -> None:
    """Run commands of the service manager, and show them.

    Raises CommandFailed for the first that fails; those that are only tried, as to end what may not run, say so.
    """
    for words in commands:
        shown = " ".join(words)
        click.echo(f"$ {shown}")
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=COMMAND_S)
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise CommandFailed(f"{words[0]}: {problem}. The rest is to be done by hand.") from None
        if done.returncode:
            failure = f"{shown} failed: {(done.stderr or done.stdout).strip()}"
            if not is_tried:
                raise CommandFailed(failure)
            click.echo(failure, err=True)
