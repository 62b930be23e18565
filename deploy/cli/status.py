"""`engramq status`: what runs, and how it is."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from typing import Final, Literal

import click
import msgspec

from engramq.deploy.cli.status_table import table
from engramq.deploy.local.doctor.local import stack_checks, with_pids
from engramq.deploy.local.home import home_from
from engramq.deploy.local.lease import ask_status
from engramq.deploy.local.settings import DATABASE_POOLER, DATABASE_URL, REDIS_URL
from engramq.deploy.local.supervisor.default import POSTGRES, REDIS
from engramq.schemas.checks import Check, CheckName, at_home, status_of
from engramq.schemas.command_line import ExitCode
from engramq.schemas.setting_values import can_be_used, without_password
from engramq.schemas.settings import Pooler, parse_setting, read_settings

WATCH_S: Final = 2.0  # between two looks
_CLEARED: Final = "\x1b[H\x1b[2J"  # ANSI: to the upper left corner of a terminal, which is erased
_STATES: Final[dict[object, Literal["ok", "degraded", "failed"]]] = {
    "ready": "ok",
    "degraded": "degraded",
    "unavailable": "failed",
}
_CODES: Final = {"ready": ExitCode.DONE, "degraded": ExitCode.DEGRADED, "unavailable": ExitCode.FAILED}


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (with --watch: one a line).")
@click.option("--watch", is_flag=True, help=f"Look again every {WATCH_S:.0f} s, until Ctrl-C.")
def command(*, as_json: bool, watch: bool) -> ExitCode:
    """Show what runs and how it is: health, mailboxes, processes, memory, clients, addresses.

    Of the home's stack, or of the servers that the environment names. The exit code is 0 when all is ready, 4 when
    reads are answered but something has to be mended, 1 when nothing is answered, 3 when nothing runs.
    """
    while True:
        found, code = look(os.environ)
        shown = json.dumps(found) if as_json else table(found)
        if watch and not as_json and sys.stdout.isatty():
            shown = _CLEARED + shown
        click.echo(shown)
        if not watch:
            return code
        time.sleep(WATCH_S)


def look(environment: Mapping[str, str]) -> tuple[dict[str, object], ExitCode]:
    """Return what is told of the home's stack, else of the servers of the environment, and the exit code."""
    home = home_from(dict(environment))
    answer = ask_status(home)
    if answer is not None:
        return _of_stack(answer, environment)
    if environment.get(REDIS_URL):
        return _of_servers(environment)
    return {"running": False, "home": str(home.path)}, ExitCode.NOT_RUNNING


def _of_stack(answer: dict[str, object], environment: Mapping[str, str]) -> tuple[dict[str, object], ExitCode]:
    answer.pop("ok")
    addresses, health = answer["addresses"], answer.get("health")
    told = str(addresses.get("database_url", "")) if isinstance(addresses, dict) else ""
    wrong = [check for check in stack_checks(answer) if check.state != "ok"]
    gateways = [check for check in wrong if check.name == CheckName.GATEWAY]
    if isinstance(health, dict):  # as the gateway finds it
        wrong.append(Check(name="worker", state=_STATES[health["status"]]))
        checks = [*gateways, *_at_home(health.get("checks", []), answer)]
    else:
        health, checks = {"status": "unavailable", "missing": ["gateway"]}, gateways
    answer["health"] = {**health, "checks": msgspec.to_builtins(checks)}
    status = status_of(wrong)
    database_url = environment.get(DATABASE_URL) or (told if can_be_used(told) else "")
    found = {"running": True, "status": status, **answer, **_under_way(database_url, environment)}
    return found, _CODES[status]


def _at_home(checks: list[object], answer: Mapping[str, object]) -> list[Check]:
    """Return the checks of a home's gateway, which does not know which servers the home runs, with its mends."""
    services = answer.get("services")
    names = {one["name"] for one in services} if isinstance(services, list) else set()
    found = at_home(msgspec.convert(checks, list[Check]), redis=REDIS in names, database=POSTGRES in names)
    return with_pids(found, answer)


def _of_servers(environment: Mapping[str, str]) -> tuple[dict[str, object], ExitCode]:
    from engramq.gateway import operator  # noqa: PLC0415 - redis, wasted where a supervisor tells all

    health = operator.whole_health(read_settings(environment))
    urls = {"redis_url": environment[REDIS_URL], "database_url": environment.get(DATABASE_URL, "")}
    found: dict[str, object] = {
        "running": True,
        "status": health.status,
        "addresses": {name: without_password(url) for name, url in urls.items() if url},
        "health": msgspec.to_builtins(health),
        **_under_way(urls["database_url"], environment),
    }
    return found, _CODES[health.status]


def _under_way(database_url: str, environment: Mapping[str, str]) -> dict[str, object]:
    """Return what is under way in the database: `reembedding` is None and `rebuilding` 0 when nothing is."""
    if not database_url:
        return {"reembedding": None, "rebuilding": 0, "unfinished": None, "webhooks": None}
    from engramq.workers import admin  # noqa: PLC0415 - psycopg, wasted where nothing runs

    # Of the shell's settings this one alone: what else is wrong with them is no matter of a stack that runs.
    pooler = parse_setting("database_pooler", environment.get(DATABASE_POOLER) or Pooler.AUTO)
    return admin.under_way(database_url, pooler)
