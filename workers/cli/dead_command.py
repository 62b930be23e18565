"""`engramq dead`: commands that were given up, listed, shown, tried again or dropped."""

import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec
from redis.exceptions import RedisError

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.lanes import lanes_of
from engramq.schemas.phrases import count_of
from engramq.schemas.servers import UnsupportedServer
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import AuditAction, WorkerKind
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.tenants import NOBODY
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.dead_letters import DeadLetter
from engramq.workers.queue.lane_views import LaneLetters


def list_letters(
    settings: Settings, *, kind: WorkerKind | None, namespace: str | None, limit: int, as_json: bool
) -> None:
    """Print the newest letters of each kind, or of one, newest last. Raises CommandFailed."""
    found = run(_listed(settings, [kind] if kind else list(WorkerKind), namespace, limit))
    for letter in found:
        print(_json(_told(letter)) if as_json else _line(letter))
    if not found and not as_json:
        print("engramq dead: there are none", file=sys.stderr)


def show_letter(settings: Settings, letter_id: str, *, namespace: str | None, content: bool) -> ExitCode:
    """Print one letter as JSON; FAILED when there is none. Raises CommandFailed."""
    letter = run(_found(settings, letter_id, namespace))
    if letter is None:
        return _none(letter_id)
    told = _told(letter)
    if content:
        told |= _content(letter)
    print(msgspec.json.format(_json(told)))
    return ExitCode.DONE


def retry_letter(
    settings: Settings, letter_id: str, *, namespace: str | None, reason: str | None, as_json: bool
) -> ExitCode:
    """Put a letter back into its mailbox; FAILED when there is none. Raises CommandFailed, EngramqError."""
    require_database(settings)
    change = _change(settings, letter_id, namespace, AuditAction.RETRY_COMMAND, LaneLetters.retry, reason)
    return _changed(letter_id, run(change), "retried", as_json=as_json)


def drop_letter(
    settings: Settings, letter_id: str, *, namespace: str | None, reason: str | None, as_json: bool
) -> ExitCode:
    """Remove a letter for good; FAILED when there is none. Raises CommandFailed, EngramqError."""
    require_database(settings)
    change = _change(settings, letter_id, namespace, AuditAction.DROP_COMMAND, LaneLetters.drop, reason)
    return _changed(letter_id, run(change), "dropped", as_json=as_json)


@asynccontextmanager
async def _letters(settings: Settings) -> AsyncIterator[LaneLetters]:
    try:
        async with LaneLetters(lanes_of(settings)) as letters:
            yield letters
    except UnsupportedServer as problem:
        raise CommandFailed(str(problem)) from problem
    except (RedisError, OSError) as problem:
        raise CommandFailed(f"Redis cannot be asked: {problem}.") from problem


async def _listed(settings: Settings, kinds: list[WorkerKind], namespace: str | None, limit: int) -> list[DeadLetter]:
    async with _letters(settings) as letters:
        found = [letter for kind in kinds for letter in await letters.list(kind, limit, namespace)]
        if letters.away:
            away = count_of(letters.away, "lane does not answer", "lanes do not answer")
            told = f"engramq dead: {away}; what is in {'it' if letters.away == 1 else 'them'} is missing here"
            print(told, file=sys.stderr)
    return sorted(found, key=lambda letter: letter.died_at)


async def _found(settings: Settings, letter_id: str, namespace: str | None) -> DeadLetter | None:
    async with _letters(settings) as letters:
        letter = await letters.show(letter_id)
    return letter if letter is None or namespace in (None, letter.namespace) else None


async def _change(
    settings: Settings,
    letter_id: str,
    namespace: str | None,
    action: AuditAction,
    change: Callable[[LaneLetters, str], Awaitable[bool]],
    reason: str | None,
) -> bool | None:
    """Change a letter, noted in its namespace's audit log before; None when there is none, False when it stays."""
    letter = await _found(settings, letter_id, namespace)
    if letter is None:
        return None
    await _audit(settings, letter, action, reason)
    async with _letters(settings) as letters:
        return await change(letters, letter_id)


async def _audit(settings: Settings, letter: DeadLetter, action: AuditAction, reason: str | None) -> None:
    """Note what is about to be done. What cannot be read is nobody's, and so in no namespace's log."""
    if letter.namespace is None:
        return
    namespace = letter.namespace

    async def note(store: Store) -> None:
        if await store.read(namespace, _tenant) == NOBODY:
            return
        told = {"command": _command_of(letter), "mailbox": letter.mailbox, "error": letter.error}
        command_id: UUID | None = parse_uuid(letter.id)
        await store.write(
            namespace,
            lambda tx: audit.write(
                tx, settings.principal, action, None, old=told, new={}, reason=reason, command_id=command_id
            ),
        )

    await in_database(settings, note)


async def _tenant(tx: Transaction) -> int:
    return tx.tenant


def _changed(letter_id: str, changed: bool | None, word: str, *, as_json: bool) -> ExitCode:
    if changed is None:
        return _none(letter_id)
    if not changed:
        print(f"engramq dead: {letter_id} stays: its mailbox is full, or it was just changed.", file=sys.stderr)
        return ExitCode.FAILED
    print(_json({"id": letter_id, "status": word}) if as_json else f"{letter_id}  {word}")
    return ExitCode.DONE


def _none(letter_id: str) -> ExitCode:
    print(f"engramq dead: there is no dead letter {letter_id!a}; engramq dead list shows all.", file=sys.stderr)
    return ExitCode.FAILED


def _told(letter: DeadLetter) -> dict[str, Any]:
    """Return what is said of a letter without what it holds."""
    envelope = letter.envelope()
    return {
        "id": letter.id,
        "kind": letter.mailbox,
        "command": _command_of(letter),
        "namespace": letter.namespace,
        "principal": None if envelope is None else envelope.principal.name,
        "issued_at": _time(letter.issued_at) if letter.issued_at else None,
        "died_at": _time(letter.died_at),
        "tries": letter.attempts,
        "error": letter.error,
        "message": letter.message,
        "bytes": len(letter.raw),
    }


def _content(letter: DeadLetter) -> dict[str, Any]:
    """Return what a letter holds: its command, or the bytes that are none."""
    envelope = letter.envelope()
    if envelope is None:
        return {"raw_base64": b64encode(letter.raw).decode()}
    return {"content": msgspec.to_builtins(envelope.command)}


def _command_of(letter: DeadLetter) -> str | None:
    """Return the name of a letter's command, None where it cannot be read."""
    envelope = letter.envelope()
    return None if envelope is None else str(type(envelope.command).__struct_config__.tag)


def _line(letter: DeadLetter) -> str:
    told = _told(letter)
    parts = [
        ascii(letter.id).strip("'"),
        told["died_at"],
        f"{letter.mailbox}: {told['command'] or 'unreadable'}",
        f"{letter.attempts} tries",
        letter.error,
        "" if told["namespace"] is None else f"by {told['principal']!a} in {told['namespace']!a}",
        ascii(letter.message)[1:-1],
    ]
    return "  ".join(part for part in parts if part)


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _json(told: dict[str, Any]) -> str:
    return msgspec.json.encode(told).decode()
