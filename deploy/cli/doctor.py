"""`engramq doctor`: what is wrong, and how to mend it."""

import os
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from engramq.deploy.cli import options as common
from engramq.deploy.local.doctor import examination
from engramq.deploy.local.doctor.examination import mend
from engramq.deploy.local.home import home_from
from engramq.schemas.checks import CHECKS, Check, CheckName, status_of
from engramq.schemas.command_line import ExitCode

_WORDS: Final = {"ok": "ok", "degraded": "warning", "failed": "FAILED"}


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what is safe, and say what was done.")
@common.JSON
@click.option("--before-start", is_flag=True, help="Check only what `engramq up` needs, within 10 s.")
def command(*, fix: bool, as_json: bool, before_start: bool) -> ExitCode:
    """Name what is wrong and how to mend it, whether or not anything runs.

    Looks at the home, the servers of the environment or of the home, the model, workers and mailboxes. The exit code is
    0 when all is well, else 1.
    """
    if before_start:
        checks, done = examination.before_start(os.environ), list[str]()
    else:
        found = examination.examine(os.environ)
        done = mend(home_from(os.environ), found) if fix else []
        checks = examination.examine(os.environ).checks if done else found.checks
    if as_json:
        click.echo(msgspec.json.encode(_told(checks, done)))
    else:
        click.echo(_table(checks, done))
    return ExitCode.DONE if all(check.state == "ok" for check in checks) else ExitCode.FAILED


def _told(checks: Sequence[Check], done: Sequence[str]) -> dict[str, object]:
    return {"status": status_of(checks), "checks": msgspec.to_builtins(checks), "done": list(done)}


def _table(checks: Sequence[Check], done: Sequence[str]) -> str:
    """Return what is wrong first, each with its mend, then what was looked at and is right."""
    wrong = [check for check in checks if check.state != "ok"]
    right = [check for check in checks if check.state == "ok"]
    lines = [f"Done: {mended}" for mended in done]
    for check in wrong:
        lines += [f"{_WORDS[check.state]:<9}{check.name:<14}{check.told}", f"{'':<9}{'mend':<14}{check.mend}"]
    for check in right:
        lines.append(f"{_WORDS[check.state]:<9}{check.name:<14}{check.told or CHECKS[CheckName(check.name)].looks_at}")
    lines.append(f"{len(wrong)} of {len(checks)} checks found something." if wrong else "All is well.")
    return "\n".join(lines)
