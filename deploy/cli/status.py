"""`engramq status`: what runs, and how it is; `engramq ui`: where its page is; `engramq doctor`: how to mend it."""

import json
import os
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import click
import msgspec

from engramq.deploy.cli.options import JSON
from engramq.deploy.local.doctor import examination
from engramq.deploy.local.doctor.examination import mend
from engramq.deploy.local.doctor.machine import add_pids, ownership_notes, stack_checks
from engramq.deploy.local.home import home_from
from engramq.deploy.local.ownership import read_ownership
from engramq.deploy.local.settings import DATABASE_URL, REDIS_URL
from engramq.deploy.local.stack_hold import ask_status
from engramq.deploy.local.supervisor.stack import POSTGRES, REDIS
from engramq.schemas import limits
from engramq.schemas.checks import CHECKS, Check, CheckName, at_home, status_of
from engramq.schemas.command_line import ExitCode, count_of, memories
from engramq.schemas.passwords import can_be_used, without_password
from engramq.schemas.settings import read_settings

NEWS_S: Final = 30.0  # by which a message of a webhook is sent where all is well
WATCH_S: Final = 2.0  # between two looks
_WORDS: Final = {"ok": "ok", "degraded": "warning", "failed": "FAILED"}
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

    It shows the home's stack, or the servers that the environment names. The exit code is 0 when all is ready, 4 when
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


@click.command("ui")
@click.option("--print", "print_only", is_flag=True, help="Print the address, and open no browser.")
def ui(*, print_only: bool) -> ExitCode:
    """Open the page in a browser, and print its address."""
    answer = ask_status(home_from(dict(os.environ)))
    if answer is None or not answer.get("http"):
        click.echo("No page is served: nothing runs in this home. Start it: engramq up --detach", err=True)
        return ExitCode.NOT_RUNNING
    address = f"{answer['http']}/ui"
    click.echo(address)
    if not print_only and sys.stdout.isatty():
        webbrowser.open(address)
    return ExitCode.DONE


def look(environment: Mapping[str, str]) -> tuple[dict[str, Any], ExitCode]:
    """Return the status of the home's stack, else of the servers of the environment, and the exit code."""
    home = home_from(dict(environment))
    answer = ask_status(home)
    if answer is not None:
        return _look_at_stack(answer, environment)
    if environment.get(REDIS_URL):
        return _look_at_servers(environment)
    notes = ownership_notes(read_ownership(home))
    return {"running": False, "home": str(home.path), **({"notes": notes} if notes else {})}, ExitCode.NOT_RUNNING


def _look_at_stack(answer: dict[str, Any], environment: Mapping[str, str]) -> tuple[dict[str, Any], ExitCode]:
    answer.pop("ok")
    health, told = answer.get("health"), str(answer["addresses"].get("database_url", ""))
    wrong = [check for check in stack_checks(answer) if check.state != "ok"]
    gateways = [check for check in wrong if check.name == CheckName.GATEWAY]
    if health:  # as the gateway finds it
        wrong.append(Check(name="worker", state=_STATES[health["status"]]))
        checks = [*gateways, *_at_home(health.get("checks", []), answer)]
    else:
        health, checks = {"status": "unavailable", "missing": ["gateway"]}, gateways
    answer["health"] = {**health, "checks": msgspec.to_builtins(checks)}
    status = status_of(wrong)
    database_url = environment.get(DATABASE_URL) or (told if can_be_used(told) else "")
    found = {"running": True, "status": status, **answer, **_look_at_background(database_url)}
    return found, _CODES[status]


def _at_home(checks: list[Any], answer: Mapping[str, Any]) -> list[Check]:
    """Return the checks of a home's gateway, which does not know which servers the home runs, with its mends."""
    names = {service["name"] for service in answer.get("services") or ()}
    found = at_home(msgspec.convert(checks, list[Check]), redis=REDIS in names, database=POSTGRES in names)
    return add_pids(found, answer)


def _look_at_servers(environment: Mapping[str, str]) -> tuple[dict[str, Any], ExitCode]:
    from engramq.gateway import operator  # noqa: PLC0415 - redis, wasted where a supervisor tells all

    health = operator.overview(read_settings(environment))
    urls = {"redis_url": environment[REDIS_URL], "database_url": environment.get(DATABASE_URL, "")}
    found: dict[str, object] = {
        "running": True,
        "status": health.status,
        "addresses": {name: without_password(url) for name, url in urls.items() if url},
        "health": msgspec.to_builtins(health),
        **_look_at_background(urls["database_url"]),
    }
    return found, _CODES[health.status]


def _look_at_background(database_url: str) -> dict[str, object]:
    """Return what is under way in the database: `reembedding` is None and `rebuilding` 0 when nothing is."""
    if not database_url:
        return {"reembedding": None, "rebuilding": 0, "unfinished": None, "webhooks": None}
    from engramq.workers import admin  # noqa: PLC0415 - psycopg, wasted where nothing runs

    return admin.under_way(database_url)


def table(found: Mapping[str, Any]) -> str:
    """Return the lines for a person; see `look` for what was found."""
    if not found["running"]:
        idle = f"engramq is not running in {found['home']}. engramq up starts it; so does a client, or a command."
        return "\n".join([idle, *found.get("notes", ())])
    lines = _heading(found)
    health = found.get("health") or {}
    lines.append(f"  {'health':<20}{health_line(health)}")
    wrong = [check for check in health.get("checks", ()) if check.get("state", "ok") != "ok"]
    lines += [f"    {check['name']}: {check['told']} {check['mend']}" for check in wrong]
    lines += _mailboxes(health.get("mailboxes", []))
    services, complaints = _services(found.get("services", []))
    lines += services
    if "leases" in found:
        holds = [f"{hold['kind']} (pid {hold['pid']})" for hold in found["leases"]]
        idle = "nobody: it is being stopped" if found.get("stopping") else "nobody: it stops soon"
        lines.append(f"  used by {', '.join(holds) or idle}")
    lines += _lags(found)
    return "\n".join([*lines, *complaints])


def health_line(found: Mapping[str, Any]) -> str:
    """Return the status, and what is missing or refused; a dash where no gateway says."""
    reasons = [f"no {name} answers" for name in found.get("missing") or ()] + [*(found.get("refused") or ())]
    return f"{found.get('status', '-')}{': ' if reasons else ''}{' '.join(reasons)}"


def _heading(found: Mapping[str, Any]) -> list[str]:
    lines = ["engramq on servers of the environment"]
    if "pid" in found:
        lines = [f"engramq in {found['home']}, supervisor {found['pid']}, up {found['uptime_s']} s"]
        lines.append(f"  {'http':<20}{found['http'] or '- (engramq up --detach serves it, and the page)'}")
    return [*lines, *(f"  {label:<20}{value or '-'}" for label, value in found["addresses"].items())]


def _mailboxes(mailboxes: list[dict[str, Any]]) -> list[str]:
    if not mailboxes:
        return []
    lines = [f"  {'mailbox':<12}{'commands':>10}{'oldest s':>10}{'per s':>8}{'workers':>9}{'dead':>6}"]
    for mailbox in mailboxes:
        rate = "-" if mailbox["per_s"] is None else f"{mailbox['per_s']:.1f}"
        figures = (
            f"{mailbox['depth']:>10}{mailbox['oldest_s']:>10.1f}{rate:>8}{mailbox['workers']:>9}{mailbox['dead']:>6}"
        )
        lines.append(f"  {mailbox['kind']:<12}{figures}")
    return lines


def _services(services: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the lines of the supervisor's services, and what they complain of."""
    if not services:
        return [], []
    lines = [f"  {'service':<12}{'state':<10}{'pid':>8}{'up s':>10}{'MB':>8}{'restarts':>10}"]
    for service in services:
        shown = [service[name] if service[name] is not None else "-" for name in ("pid", "uptime_s", "memory_mb")]
        figures = f"{shown[0]:>8}{shown[1]:>10}{shown[2]:>8}{service['restarts']:>10}"
        lines.append(f"  {service['name']:<12}{service['state']:<10}{figures}")
    return lines, [str(service["complaint"]) for service in services if service["complaint"]]


def _lags(found: Mapping[str, Any]) -> list[str]:
    """Return what is still to be done in the background."""
    lines = []
    unfinished = found.get("unfinished") or {}
    if unfinished.get("namespaces"):
        more = " or more" if unfinished["pending"] >= limits.PENDING_COUNTED else ""
        pending = f": {memories(unfinished['pending'])}{more} without a vector" if unfinished["pending"] else ""
        lines.append(f"  upkeep has work left in {count_of(unfinished['namespaces'], 'namespace')}{pending}")
    if change := found.get("reembedding"):
        lines.append(_reembedding(change))
    if rebuilding := found.get("rebuilding"):
        left = count_of(rebuilding, "namespace is", "namespaces are")
        lines.append(f"  words made anew for another language: {left} left")
    lines += _webhooks(found.get("webhooks") or {})
    return lines


def _webhooks(figures: Mapping[str, Any]) -> list[str]:
    """Return what webhooks have not taken; a message that has just come is no news."""
    news = []
    if figures.get("waiting") and figures["oldest_s"] >= NEWS_S:
        waiting = count_of(figures["waiting"], "message")
        news.append(f"{waiting} not taken yet, the oldest {figures['oldest_s']:,.0f} s old")
    if figures.get("dead"):
        news.append(f"{count_of(figures['dead'], 'message')} given up (engramq webhook dead)")
    return [f"  webhooks: {', '.join(news)}"] if news else []


def _reembedding(change: Mapping[str, Any]) -> str:
    problem = f": {change['problem']}" if change["problem"] else ""
    if change["state"] == "unknown":
        return f"  work in the background: unknown{problem}"  # the database cannot be asked, of whatever there is
    rate = f", {change['per_s']}/s" if change["per_s"] is not None else ""
    far = f"{change['done']:,} of {memories(change['total'])}{rate}"
    return f"  embedding anew for {change['model']}: {far}, {change['state']}{problem}"


@click.command("doctor")
@click.option("--fix", is_flag=True, help="Mend what is safe, and say what was done.")
@JSON
@click.option("--before-start", is_flag=True, help="Check only what `engramq up` needs, within 10 s.")
def doctor(*, fix: bool, as_json: bool, before_start: bool) -> ExitCode:
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
        click.echo(msgspec.json.encode({"status": status_of(checks), "checks": checks, "done": done}))
    else:
        click.echo(_format_checks(checks, done))
    return ExitCode.DONE if all(check.state == "ok" for check in checks) else ExitCode.FAILED


def _format_checks(checks: Sequence[Check], done: Sequence[str]) -> str:
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
