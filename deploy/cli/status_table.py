"""What `engramq status` found, as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from engramq.schemas.command_line import count_of, memories

NEWS_S: Final = 30.0  # by which a message of a webhook is sent where all is well


def table(found: Mapping[str, object]) -> str:
    """Return the lines for a person; see `status.look` for what was found."""
    if not found["running"]:
        return f"engramq is not running in {found['home']}."
    lines = _heading(found)
    health = _dictionary(found.get("health"))
    lines.append(f"  {'health':<20}{health_line(health)}")
    wrong = [check for check in _dictionaries(health.get("checks")) if check.get("state", "ok") != "ok"]
    lines += [f"    {check['name']}: {check['told']} {check['mend']}" for check in wrong]
    lines += _mailboxes(_dictionaries(health.get("mailboxes")))
    services, complaints = _services(_dictionaries(found.get("services")))
    lines += services
    if "leases" in found:
        leases = [f"{lease['kind']} (pid {lease['pid']})" for lease in _dictionaries(found["leases"])]
        lines.append(f"  used by {', '.join(leases) or 'nobody: it stops soon'}")
    lines += _lags(found)
    return "\n".join([*lines, *complaints])


def health_line(found: Mapping[str, object]) -> str:
    """Return the status, and what is missing or refused; a dash where no gateway says."""
    reasons = [f"no {name} answers" for name in _strings(found.get("missing"))] + _strings(found.get("refused"))
    return f"{found.get('status', '-')}{': ' if reasons else ''}{' '.join(reasons)}"


def _heading(found: Mapping[str, object]) -> list[str]:
    lines = ["engramq on servers of the environment"]
    if "pid" in found:
        lines = [f"engramq in {found['home']}, supervisor {found['pid']}, up {found['uptime_s']} s"]
        lines.append(f"  {'http':<20}{found['http'] or '-'}")
    return [*lines, *(f"  {label:<20}{value or '-'}" for label, value in _dictionary(found["addresses"]).items())]


def _mailboxes(mailboxes: list[dict[str, Any]]) -> list[str]:
    if not mailboxes:
        return []
    lines = [f"  {'mailbox':<12}{'commands':>10}{'oldest s':>10}{'per s':>8}{'workers':>9}{'dead':>6}"]
    for one in mailboxes:
        rate = "-" if one["per_s"] is None else f"{one['per_s']:.1f}"
        figures = f"{one['depth']:>10}{one['oldest_s']:>10.1f}{rate:>8}{one['workers']:>9}{one['dead']:>6}"
        lines.append(f"  {one['kind']:<12}{figures}")
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


def _lags(found: Mapping[str, object]) -> list[str]:
    """Return what is still to be done in the background."""
    lines = []
    unfinished = _dictionary(found.get("unfinished"))
    if unfinished.get("namespaces"):
        pending = f": {memories(unfinished['pending'])} without a vector" if unfinished["pending"] else ""
        lines.append(f"  left for upkeep in {count_of(unfinished['namespaces'], 'namespace')}{pending}")
    change = _dictionary(found.get("reembedding"))
    if change:
        lines.append(_reembedding(change))
    if isinstance(rebuilding := found.get("rebuilding"), int) and rebuilding:
        left = count_of(rebuilding, "namespace is", "namespaces are")
        lines.append(f"  words made anew for another language: {left} left")
    lines += _webhooks(_dictionary(found.get("webhooks")))
    return lines


def _webhooks(figures: Mapping[str, Any]) -> list[str]:
    """Return what webhooks have not taken; a message that has just come is no news."""
    told = []
    if figures.get("waiting") and figures["oldest_s"] >= NEWS_S:
        told.append(
            f"{count_of(figures['waiting'], 'message')} not taken yet, the oldest {figures['oldest_s']:,.0f} s old"
        )
    if figures.get("dead"):
        told.append(f"{count_of(figures['dead'], 'message')} given up (engramq webhook dead)")
    return [f"  webhooks: {', '.join(told)}"] if told else []


def _reembedding(change: Mapping[str, Any]) -> str:
    problem = f": {change['problem']}" if change["problem"] else ""
    if change["state"] == "unknown":
        return f"  work in the background: unknown{problem}"  # the database cannot be asked, of whatever there is
    rate = f", {change['per_s']}/s" if change["per_s"] is not None else ""
    far = f"{change['done']:,} of {memories(change['total'])}{rate}"
    return f"  embedding anew for {change['model']}: {far}, {change['state']}{problem}"


def _strings(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _dictionary(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dictionaries(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
