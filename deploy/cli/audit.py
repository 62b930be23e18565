"""`engramq audit`: who did what."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import click
import msgspec

from engramq.deploy.cli import options as common
from engramq.deploy.cli.options import end_time, identifier, limit_option
from engramq.deploy.cli.output import json_line, print_list, printable
from engramq.deploy.local.servers_for import servers_for
from engramq.schemas.ids import parse_time
from engramq.schemas.records import AuditEntry
from engramq.schemas.setting_values import name, one_of
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.admin import AuditFilter, audit_entries

SHOWN: Final = 100
SHOWN_MAX: Final = 100_000


@click.command("audit")
@common.NAMESPACE
@click.option("--action", metavar="WORD", type=one_of(AuditAction), help=f"Any of {', '.join(AuditAction)}.")
@click.option("--actor", metavar="NAME", type=name, help="The principal who did it.")
@click.option(
    "--target",
    "target_id",
    metavar="ID",
    type=identifier,
    help="A memory or a node, with its links or edges; or an edge.",
)
@click.option("--command", "command_id", metavar="ID", type=identifier, help="All that one command did.")
@click.option("--since", metavar="TIME", type=parse_time, help="A date, or a time with a zone.")
@click.option("--until", metavar="TIME", type=end_time, help="The same; included.")
@limit_option(SHOWN_MAX, SHOWN, "The newest so many.")
@common.JSON
def command(namespace: str | None, limit: int, *, as_json: bool, **wanted: Any) -> None:
    """Show who did what, newest last."""
    with servers_for("audit") as settings:
        place = namespace or settings.namespace
        entries = audit_entries(settings, place, AuditFilter(**wanted), limit)
    none = f"engramq audit: no entry like that in namespace {place!r}; plain stores have none"
    print_list(entries, _line, as_json=as_json, none=none, to_json=partial(json_line, namespace=place))


def _line(entry: AuditEntry) -> str:
    """Return an entry on one line. What callers chose is quoted: it may hold line ends and control characters."""
    parts = [
        entry.at,
        f"{entry.action:<12}",
        f"{entry.target_id or '-':<36}",
        f"by {_quoted(entry.actor)}",
        _change(entry.old or {}, entry.new or {}),
        "" if entry.reason is None else f"because {_quoted(entry.reason)}",
        "" if entry.command_id is None else f"command {entry.command_id}",
        f"entry {entry.id}",
    ]
    return "  ".join(part for part in parts if part)


def _change(old: dict[str, Any], new: dict[str, Any]) -> str:
    changed = [name for name in new if name in old and old[name] != new[name]]
    changes = [f"{name} {_quoted(old[name])} -> {_quoted(new[name])}" for name in changed]
    changes += [f"{name} {_quoted(new[name])}" for name in new if name not in changed]
    changes += [f"{name} was {_quoted(old[name])}" for name in old if name not in new]
    return ", ".join(changes)


def _quoted(value: Any) -> str:
    """Return a value as JSON, a plain word without its quotes."""
    if isinstance(value, str) and value.isascii() and value.replace("_", "").replace("-", "").isalnum():
        return value
    text = msgspec.json.encode(value).decode()
    return printable(text)
