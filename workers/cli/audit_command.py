"""`engramq audit`: who did what, read from the database."""

import sys
from typing import Any, Final

import msgspec

from engramq.schemas.records import AuditEntry
from engramq.schemas.settings import Settings
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db.audit import Wanted, entries
from engramq.workers.db.database import Store

_ID_CHARS: Final = 36


def show_audit(settings: Settings, *, namespace: str, limit: int, as_json: bool, **wanted: Any) -> None:
    """Print the newest entries for which `wanted` holds (the fields of Wanted), newest last.

    Raises CommandFailed, EngramqError with `unavailable`.
    """
    require_database(settings)
    found = run(_found(settings, namespace, Wanted(**wanted), limit))
    for entry in found:
        print(_json(entry, namespace) if as_json else _line(entry))
    if not found:
        print(f"engramq audit: nothing of that kind in namespace {namespace!r}", file=sys.stderr)


async def _found(settings: Settings, namespace: str, wanted: Wanted, limit: int) -> list[AuditEntry]:
    async def read(store: Store) -> list[AuditEntry]:
        return await store.read(namespace, lambda tx: entries(tx, wanted, limit))

    return (await in_database(settings, read))[::-1]


def _json(entry: AuditEntry, namespace: str) -> str:
    return msgspec.json.encode({"namespace": namespace, **msgspec.structs.asdict(entry)}).decode()


def _line(entry: AuditEntry) -> str:
    """Return an entry on one line. What callers chose is quoted: it may hold line ends and control characters."""
    parts = [
        entry.at,
        f"{entry.action:<12}",
        f"{entry.target_id or '-':<{_ID_CHARS}}",
        f"by {_quoted(entry.actor)}",
        _change(entry.old or {}, entry.new or {}),
        "" if entry.reason is None else f"because {_quoted(entry.reason)}",
        "" if entry.command_id is None else f"command {entry.command_id}",
        f"entry {entry.id}",
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
