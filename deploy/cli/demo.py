"""`engramq demo`: a throw-away home full of engramq's own decisions, and a tour of it on the terminal and the page."""

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli.tour import Tour
from engramq.deploy.local import settings
from engramq.deploy.local.home import Home
from engramq.deploy.local.stack_hold import READY_BOUND_S, UP, hold_stack
from engramq.deploy.local.supervisor.state import shut_down
from engramq.schemas.command_line import CommandFailed

# The caller's own settings that stay: where the programs are, not what is kept or who asks.
_KEPT: Final = frozenset({"ENGRAMQ_REDIS_BINARY", "ENGRAMQ_LOG_LEVEL"})


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave the home when it ends, and say where it is.")
def command(*, keep: bool) -> None:
    """Show in a throw-away home what the memory does, with engramq's own decisions.

    On a terminal Enter goes on, and the page stays open until the last one. Elsewhere it goes through at once. Neither
    your own home nor your clients are touched.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):  # as Ctrl-C does: what was started ends
        signal.signal(number, signal.default_int_handler)
    with _throw_away(keep=keep) as home:
        environment = _environment(home)
        click.echo(f"Starting engramq in {home.path}, a home that is thrown away ...")
        with closing(hold_stack(home, UP, environment, READY_BOUND_S)) as hold:
            watched = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))
            tour = Tour(environment, hold.addresses["http"], _pause if watched else lambda _wait_for: None)
            tour.fill()
            tour.show()


def _environment(home: Home) -> dict[str, str]:
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(settings.PREFIX) or name in _KEPT
    }  # fmt: skip
    return own | {settings.HOME: str(home.path), settings.PORT: "0"}


@contextmanager
def _throw_away(*, keep: bool) -> Iterator[Home]:
    """Make a home for the block; stop what runs there at its end, however that comes, and remove it unless `keep`."""
    home = Home(Path(tempfile.mkdtemp(prefix="engramq-demo-")))
    try:
        yield home
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a second one would leave servers behind
            signal.signal(number, signal.SIG_IGN)
        _say("Stopping ...")
        shut_down(home)
        if keep:
            _say(f"The home is left. To go on: {settings.HOME}={shlex.quote(str(home.path))} engramq up")
        else:
            _remove(home)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # `engramq demo | head` has left; what runs is stopped all the same
        click.echo(text)


def _remove(home: Home) -> None:
    try:
        for folder in (home.run, home.postgres_sockets):  # elsewhere than in the home where its path is long
            shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home.path)
    except OSError as problem:
        raise CommandFailed(f"{home.path} cannot be removed: {problem.strerror}. Nothing runs there.") from None
    _say("Stopped, and removed the home.")


def _pause(_wait_for: str) -> None:
    click.prompt(click.style(_wait_for, dim=True), default="", show_default=False, prompt_suffix=" ")
