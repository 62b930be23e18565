"""`engramq audit`: who did what, read from the database."""

import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec

from engramq.schemas.ids import parse_time
from engramq.schemas.setting_values import namespace
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.cli.arguments import Parser, checked, uuid_of
from engramq.workers.db.audit import Entry, Wanted, entries
from engramq.workers.db.database import Store

SHOWN: Final = 100
SHOWN_MAX: Final = 100_000
_ID_CHARS: Final = 36


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What was asked. `namespace` is None for the one of the settings."""

    namespace: str | None
    wanted: Wanted
    limit: int
    as_json: bool


def parse_audit(arguments: list[str]) -> Question:
    """Return which entries to show; raises UsageEnd."""
    parser = Parser(prog="engramq audit", description="Show who did what, newest last.")
    parser.add_argument("--namespace", metavar="N", type=checked(namespace), help="default: ENGRAMQ_NAMESPACE")
    parser.add_argument("--action", metavar="A", type=checked(_action), help=", ".join(AuditAction))
    parser.add_argument("--actor", metavar="P", help="the principal who did it")
    parser.add_argument("--target", metavar="ID", type=checked(uuid_of), help="a memory, an edge or a node")
    parser.add_argument("--command", metavar="ID", type=checked(uuid_of), help="all that one command did")
    parser.add_argument("--since", metavar="T", type=checked(parse_time), help="a date, or a time with a zone")
    until = partial(parse_time, end_of_day=True)
    parser.add_argument("--until", metavar="T", type=checked(until), help="the same; included")
    parser.add_argument(
        "--limit", metavar="N", type=checked(_limit), default=SHOWN, help=f"the newest so many (default {SHOWN})"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parsed = parser.parse_args(arguments)
    wanted = Wanted(
        action=parsed.action,
        actor=parsed.actor,
        target_id=parsed.target,
        command_id=parsed.command,
        since=parsed.since,
        until=parsed.until,
    )
    return Question(namespace=parsed.namespace, wanted=wanted, limit=parsed.limit, as_json=parsed.json)


async def show_audit(question: Question, settings: Settings) -> None:
    """Print the newest entries that were asked for, newest last. Raises NotReady, EngramqError with `unavailable`."""
    where = question.namespace or settings.namespace
    async with await Store.open(settings.database_url, pool_size=1) as store:
        found = await store.read(where, lambda tx: entries(tx, question.wanted, question.limit))
    for entry in found:
        print(msgspec.json.encode(entry).decode() if question.as_json else _line(entry))
    if not found:
        print(f"engramq audit: nothing of that kind in namespace {where!r}", file=sys.stderr)


def _line(entry: Entry) -> str:
    """Return an entry on one line. What callers chose is quoted: it may hold line ends and control characters."""
    parts = [
        entry.at,
        f"{entry.action:<12}",
        f"{entry.target_id or '-':<{_ID_CHARS}}",
        f"by {_quoted(entry.actor)}",
        _change(entry.old or {}, entry.new or {}),
        "" if entry.reason is None else f"because {_quoted(entry.reason)}",
        "" if entry.command_id is None else f"command {entry.command_id}",
    ]
    return "  ".join(part for part in parts if part)


def _change(old: dict[str, Any], new: dict[str, Any]) -> str:
    changed = [name for name in new if name in old and old[name] != new[name]]
    told = [f"{name} {_quoted(old[name])} -> {_quoted(new[name])}" for name in changed]
    told += [f"{name} {_quoted(new[name])}" for name in new if name not in changed]
    told += [f"{name} was {_quoted(old[name])}" for name in old if name not in new]
    return ", ".join(told)


def _quoted(value: Any) -> str:
    """Return a value as JSON, a plain word without its quotes."""
    if isinstance(value, str) and value.isascii() and value.replace("_", "").replace("-", "").isalnum():
        return value
    text = msgspec.json.encode(value).decode()
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text)


def _action(text: str) -> AuditAction:
    if text not in set(AuditAction):
        raise ValueError(f"there is no action {text!r}; there are {', '.join(AuditAction)}")
    return AuditAction(text)


def _limit(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= SHOWN_MAX:
        raise ValueError(f"must be from 1 to {SHOWN_MAX}")
    return int(text)
