"""`engramq audit`: who did what."""

from datetime import datetime
from functools import partial
from typing import Any, Final

import click
import msgspec

from engramq.deploy.cli import options as common
from engramq.deploy.cli.operating import Target, operating
from engramq.deploy.cli.options import WHOLE_REPLY, end_time, identifier, limit_option
from engramq.deploy.cli.output import join_parts, json_line, print_list, printable
from engramq.gateway.operator import checked_command
from engramq.schemas.codec import reply_body
from engramq.schemas.command_line import ExitCode, count_of
from engramq.schemas.commands import AuditList, AuditVerified, ListAudit, VerifyAudit
from engramq.schemas.ids import parse_time
from engramq.schemas.limits import LIST_LIMIT
from engramq.schemas.records import AuditEntry
from engramq.schemas.setting_values import name, one_of
from engramq.schemas.vocabulary import AuditAction

SHOWN: Final = 100
SHOWN_MAX: Final = 100_000


@click.command("audit")
@common.NAMESPACE
@click.option("--action", metavar="WORD", type=one_of(AuditAction), help=f"Any of {', '.join(AuditAction)}.")
@click.option("--actor", metavar="NAME", type=name, help="The principal who did it.")
@click.option(
    "--target", metavar="ID", type=identifier, help="A memory or a node, with its links or edges; or an edge."
)
@click.option("--command", "command_id", metavar="ID", type=identifier, help="All that one command did.")
@click.option("--since", metavar="TIME", type=parse_time, help="From this date, or time with a zone, on.")
@click.option("--until", metavar="TIME", type=end_time, help="Up to this date or time, included.")
@limit_option(SHOWN_MAX, SHOWN, "How many at most, the newest.")
@click.option("--verify", is_flag=True, help="Check that nobody has changed, removed or moved an entry.")
@common.JSON
def command(namespace: str | None, limit: int, *, verify: bool, as_json: bool, **wanted: Any) -> ExitCode:
    """Show who did what, newest last. With --verify walk the chain of its entries, and name the first break."""
    if verify:
        return _verify(namespace, as_json=as_json)
    words = {field: value if isinstance(value, datetime) else str(value) for field, value in wanted.items() if value}
    listing = checked_command({**words, "limit": min(limit, LIST_LIMIT)}, ListAudit)
    with operating("audit", namespace) as place:
        entries = _entries(place, listing, limit)
    none = f"engramq audit: no entry like that in {place.name}; plain stores have none"
    print_list(entries, _format_entry, as_json=as_json, none=none, to_json=partial(json_line, **place.fields))
    return ExitCode.DONE


def _verify(namespace: str | None, *, as_json: bool) -> ExitCode:
    with operating("audit", namespace) as place:
        chain = _walk_chain(place)
    if as_json:
        click.echo(json_line(reply_body(chain), **place.fields))
    elif chain.broken is None:
        erased = f", words of {chain.erased:,} of them erased since" if chain.erased else ""
        late = f" {count_of(chain.unchained, 'entry has', 'entries have')} no place yet." if chain.unchained else ""
        click.echo(f"{count_of(chain.places, 'entry', 'entries')} as they were written{erased}.{late}")
    else:
        entry = "" if chain.broken.audit_id is None else f", entry {chain.broken.audit_id}"
        click.echo(f"Broken at place {chain.broken.place}{entry}: {chain.broken.problem}.", err=True)
    return ExitCode.DONE if chain.broken is None else ExitCode.FAILED


def _walk_chain(place: Target) -> AuditVerified:
    """Walk the whole chain; return the sums, and where it is broken."""
    places, erased, after = 0, 0, 0
    while True:
        part = place.client.reply_to(VerifyAudit(after=after), AuditVerified)
        places, erased = places + part.places, erased + part.erased
        if part.next_after is None:
            return msgspec.structs.replace(part, places=places, erased=erased)
        after = part.next_after


def _entries(place: Target, listing: ListAudit, limit: int) -> list[AuditEntry]:
    """Return the newest entries, the newest last."""
    entries: list[AuditEntry] = []
    while True:
        page = place.client.reply_to(listing, AuditList, max_chars=WHOLE_REPLY)
        entries += page.entries
        if page.next_cursor is None or len(entries) >= limit:
            return entries[:limit][::-1]
        listing = msgspec.structs.replace(listing, cursor=page.next_cursor)


def _format_entry(entry: AuditEntry) -> str:
    """Return an entry on one line. Callers' own words are quoted: they may hold line ends and control characters."""
    return join_parts(
        entry.at,
        f"{entry.action:<12}",
        f"{entry.target_id or '-':<36}",
        f"by {_quote(entry.actor)}",
        _change(entry.old or {}, entry.new or {}),
        "" if entry.reason is None else f"because {_quote(entry.reason)}",
        "" if entry.command_id is None else f"command {entry.command_id}",
        f"entry {entry.id}",
    )


def _change(old: dict[str, Any], new: dict[str, Any]) -> str:
    changed = [name for name in new if name in old and old[name] != new[name]]
    changes = [f"{name} {_quote(old[name])} -> {_quote(new[name])}" for name in changed]
    changes += [f"{name} {_quote(new[name])}" for name in new if name not in changed]
    changes += [f"{name} was {_quote(old[name])}" for name in old if name not in new]
    return ", ".join(changes)


def _quote(value: Any) -> str:
    """Return a value as JSON, a plain word without its quotes."""
    if isinstance(value, str) and value.isascii() and value.replace("_", "").replace("-", "").isalnum():
        return value
    text = msgspec.json.encode(value).decode()
    return printable(text)
