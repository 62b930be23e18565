"""`engramq status`: what runs in the home."""

from __future__ import annotations

import json
import os

import click

from engramq.deploy.client import Channel, connect
from engramq.deploy.home import DeployError, home_from
from engramq.deploy.settings import DATABASE_URL
from engramq.schemas.command_line import ExitCode


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(*, as_json: bool) -> ExitCode:
    """Show what runs: processes, memory, clients, addresses.

    The exit code is 3 when nothing does.
    """
    home = home_from(os.environ)
    channel = connect(home)
    answer = _ask_status(channel) if channel is not None else None
    if answer is None:
        click.echo(
            json.dumps({"running": False, "home": str(home.path)})
            if as_json
            else f"engramq is not running in {home.path}."
        )
        return ExitCode.NOT_RUNNING
    answer.pop("ok")
    answer |= _under_way(str(_dictionary(answer["addresses"]).get("database_url", "")))
    click.echo(json.dumps({"running": True, **answer}) if as_json else _table(answer))
    return ExitCode.DONE


def _ask_status(channel: Channel) -> dict[str, object] | None:
    try:
        channel.send({"op": "status"})
        return channel.receive(10.0)
    except OSError as error:
        raise DeployError("not_answering", "The supervisor does not answer.", "engramq down ends it.") from error
    finally:
        channel.close()


def _under_way(told: str) -> dict[str, object]:
    """Return what is under way in the database: `reembedding` is None and `rebuilding` 0 when nothing is.

    URLs are told without passwords.
    """
    database_url = os.environ.get(DATABASE_URL) or told
    if not database_url:
        return {"reembedding": None, "rebuilding": 0}
    from engramq.workers.cli import status_command  # noqa: PLC0415 - psycopg, wasted where nothing runs

    reembedding, rebuilding = status_command.reembedding(database_url), status_command.rebuilding(database_url)
    return {"reembedding": reembedding, "rebuilding": rebuilding}


def _told(change: dict[str, object]) -> str:
    problem = f": {change['problem']}" if change["problem"] else ""
    if change["state"] == "unknown":
        return f"  embedding anew: unknown{problem}"
    rate = f", {change['per_s']}/s" if change["per_s"] is not None else ""
    far = f"{change['done']:,} of {change['total']:,} memories{rate}"
    return f"  embedding anew for {change['model']}: {far}, {change['state']}{problem}"


def _table(answer: dict[str, object]) -> str:
    lines = [f"engramq in {answer['home']}, supervisor {answer['pid']}, up {answer['uptime_s']} s"]
    for label, value in {"http": answer["http"], **_dictionary(answer["addresses"])}.items():
        lines.append(f"  {label:<20}{value or '-'}")
    lines.append(f"  {'health':<20}{_health(_dictionary(answer.get('health')))}")
    lines.append(f"  {'service':<12}{'state':<10}{'pid':>8}{'up s':>10}{'MB':>8}{'restarts':>10}")
    change = _dictionary(answer["reembedding"])
    complaints = [_told(change)] if change else []
    if answer["rebuilding"]:
        complaints.append(f"  words made anew for another language: {answer['rebuilding']} namespaces are left")
    for service in _dictionaries(answer["services"]):
        shown = [service[name] if service[name] is not None else "-" for name in ("pid", "uptime_s", "memory_mb")]
        figures = f"{shown[0]:>8}{shown[1]:>10}{shown[2]:>8}{service['restarts']:>10}"
        lines.append(f"  {service['name']:<12}{service['state']:<10}{figures}")
        complaints += [str(service["complaint"])] if service["complaint"] else []
    leases = [f"{lease['kind']} (pid {lease['pid']})" for lease in _dictionaries(answer["leases"])]
    lines.append(f"  used by {', '.join(leases) or 'nobody: it stops soon'}")
    return "\n".join([*lines, *complaints])


def _health(found: dict[str, object]) -> str:
    """The status, and what is missing or refused; a dash where no gateway says."""
    reasons = [f"no {name} answers" for name in _strings(found.get("missing"))] + _strings(found.get("refused"))
    return f"{found.get('status', '-')}{': ' if reasons else ''}{' '.join(reasons)}"


def _strings(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _dictionary(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _dictionaries(value: object) -> list[dict[str, object]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
