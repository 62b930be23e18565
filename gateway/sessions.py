"""Read what a session remembers, and resolve the references to it.

The breadcrumbs of a session are the last memory stored, the last ones recalled, and all that it touched. Their form in
Redis is the session state, under (namespace, principal, session), so that gateways come, go and share it; the worker
script that sends the reply writes it.
"""

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import UNSET
from redis.asyncio import Redis

from engramq.schemas import limits
from engramq.schemas.commands import BreadcrumbTrail, Items, Tool
from engramq.schemas.connection import CLIENT_ERRORS, Lanes, run
from engramq.schemas.envelope import Envelope, PrincipalId
from engramq.schemas.evidence import Citation
from engramq.schemas.faults import EngramqError, Fault, FaultCode, invalid, refuse
from engramq.schemas.ids import format_time
from engramq.schemas.records import ReferencedMemory
from engramq.schemas.redis_problems import refusal_of
from engramq.schemas.scripts import BEGIN_SESSION, READ_SESSION, Script
from engramq.schemas.vocabulary import RECALLED_REFERENCE, STORED_REFERENCE

_RECALLED: Final = re.compile(re.escape(RECALLED_REFERENCE) + r"\[(0|[1-9][0-9]{0,5})\]")
_EVIDENCE: Final = "evidence"  # a parameter whose items may name a memory
_GAP_MS: Final = limits.SESSION_GAP_SECONDS * 1000


class Breadcrumbs:
    """The client belongs to the caller. Every method raises EngramqError `unavailable` when Redis is away."""

    def __init__(self, redis: Redis, lanes: Lanes) -> None:
        self._redis: Any = redis
        self._lanes = lanes

    async def begin(self, namespace: str, principal: PrincipalId, session: str) -> int:
        """Clear a session and return its new instance, a number that is never used twice."""
        return int(await self._run(BEGIN_SESSION, namespace, principal, session))

    async def read(self, namespace: str, principal: PrincipalId, session: str) -> BreadcrumbTrail:
        """Return the breadcrumbs of a session."""
        found = await self._run(READ_SESSION, namespace, principal, session, 1)
        stored, recalled, expires_ms, touched = found or (b"", b"", None, ())
        return BreadcrumbTrail(
            last_stored_id=stored.decode() or None,
            last_recalled_ids=_decode_recalled(recalled),
            session_memory_ids=[memory_id.decode() for memory_id in touched],
            expires_at=None if expires_ms is None else format_time(datetime.fromtimestamp(expires_ms / 1000, UTC)),
        )

    async def resolve(self, ref: str, namespace: str, principal: PrincipalId, session: str) -> str | None:
        """Return the id that `@stored` or `@recalled[N]` means in this session, None when it means nothing.

        Whatever begins otherwise is an id already and comes back as it is.
        """
        if not ref.startswith("@"):
            return ref
        place = _RECALLED.fullmatch(ref)
        if ref != STORED_REFERENCE and place is None:
            return None
        found = await self._run(READ_SESSION, namespace, principal, session, 0)
        if not found:
            return None
        if place is None:
            return found[0].decode() or None
        recalled, number = _decode_recalled(found[1]), int(place[1])
        return recalled[number] if number < len(recalled) else None

    async def _run(self, script: Script, namespace: str, principal: PrincipalId, session: str, *arguments: int) -> Any:
        lane = self._lanes.of(namespace)
        keys = lane.session(namespace, principal, session)
        where = (keys.state, keys.touched, keys.sessions, keys.principals)
        common = (keys.name, limits.BREADCRUMB_SECONDS, _GAP_MS)
        try:
            return await run(self._redis, script, lane, where, *common, *arguments)
        except CLIENT_ERRORS as problem:
            why = refusal_of(problem) or "The breadcrumbs cannot be reached."
            raise refuse(FaultCode.UNAVAILABLE, why) from problem


def _decode_recalled(data: bytes) -> list[str | None]:
    return [memory_id or None for memory_id in data.decode().split("\n")[:-1]]


class NothingFound(EngramqError):
    """A reference stands for nothing."""


def fresh_session() -> str:
    """Return the name of a session that nobody has."""
    return f"s-{secrets.token_hex(6)}"


def no_session(field: str, error: str) -> EngramqError:
    """Return the refusal of what needs a session, where there is none."""
    own = 'Or pass one of your own in every call, e.g. session="planning": references stand for its memories.'
    return invalid(field, error, f"Call begin_session, then pass its session. {own}")


async def resolve_references(tool: Tool, envelope: Envelope, sessions: Breadcrumbs) -> Envelope:
    """Return the envelope with an id instead of each reference of its command, and the ids by reference.

    A reference is looked up once, so that it means one memory wherever the call names it. One that stands for nothing
    is a refusal, which names the parameter; it travels with an idempotency key, since only the ledger knows whether the
    request is a repeated one. Raises EngramqError for every other refusal.
    """
    command, session = envelope.command, envelope.session
    names = (*tool.ids, _EVIDENCE) if isinstance(getattr(command, _EVIDENCE, None), tuple) else tool.ids
    holders: list[tuple[Any, tuple[str, ...]]] = [(command, names)]
    for name, items in tool.batches.items():
        holders += [(item, items.ids) for item in getattr(command, name) if item.fault is UNSET]
    ids = [(name, text) for holder, names in holders for name in names for text in _ids_in(getattr(holder, name))]
    fields = {text: name for name, text in reversed(ids) if text.startswith("@")}
    if not fields:
        return envelope
    field = next(iter(fields.values()))
    if tool.ids_only or getattr(command, "erase", False) is True:
        raise invalid(
            field,
            f"{field} takes an id here, not {next(iter(fields))[:60]!a}: done to the wrong memory, this does harm.",
            "Pass the id itself. get_breadcrumbs shows what references stand for.",
        )
    if not session:
        raise no_session(field, f"{field}: a reference stands for a memory of a session, and this call is in none.")
    whose = (envelope.namespace, envelope.principal.identity, session)
    known = {reference: await sessions.resolve(reference, *whose) for reference in fields}
    references = {reference: found for reference, found in known.items() if found is not None}
    try:
        changes = _ids(command, names, known, session)
    except NothingFound as nothing:
        if envelope.idempotency_key is None:
            raise EngramqError(add_references(nothing.fault, references)) from nothing
        return msgspec.structs.replace(envelope, refusal=add_references(nothing.fault, references))
    for name, items in tool.batches.items():
        changes[name] = tuple(_item(items, item, known, session) for item in getattr(command, name))
    command = msgspec.structs.replace(command, **changes)
    return msgspec.structs.replace(envelope, command=command, references=references)


def _ids_in(value: Any) -> Iterator[str]:
    """Give the ids, or references, that a field has."""
    if isinstance(value, str):
        yield value
    for each in () if value is UNSET or isinstance(value, str) else value:
        if not isinstance(each, Citation):
            yield each
        elif each.memory_id is not UNSET:
            yield each.memory_id


def add_references(fault: Fault, references: Mapping[str, str]) -> Fault:
    """Return a refusal with what the call's references stood for, if no worker has said that."""
    if not references or fault.resolved_references is not UNSET:
        return fault
    return msgspec.structs.replace(fault, resolved_references=stood_for(references))


def stood_for(references: Mapping[str, str]) -> dict[str, ReferencedMemory]:
    """Return the memories by reference."""
    return {reference: ReferencedMemory(id=found) for reference, found in references.items()}


def _item(items: Items, item: Any, known: Mapping[str, str | None], session: str) -> Any:
    """Return an item of a batch with ids only; one that stands for nothing gets that as its fault."""
    if item.fault is not UNSET:
        return item
    try:
        return msgspec.structs.replace(item, **_ids(item, items.ids, known, session))
    except NothingFound as refusal:
        return items.kept(fault=refusal.fault)


def _ids(
    holder: msgspec.Struct, names: tuple[str, ...], known: Mapping[str, str | None], session: str
) -> dict[str, Any]:
    """Return the fields that take an id, each with ids only."""
    found: dict[str, Any] = {}
    for name in names:
        given = getattr(holder, name)
        if isinstance(given, str):
            found[name] = _id(given, name, known, session)
        elif given is not UNSET:
            found[name] = tuple(_resolve(each, name, known, session) for each in given)
    return found


def _resolve(given: Any, name: str, known: Mapping[str, str | None], session: str) -> Any:
    if not isinstance(given, Citation):
        return _id(given, name, known, session)
    if given.memory_id is UNSET:
        return given
    return msgspec.structs.replace(given, memory_id=_id(given.memory_id, name, known, session))


def _id(given: str, name: str, known: Mapping[str, str | None], session: str) -> str:
    found = known.get(given, given)
    if found is None:
        error = f"{name}: nothing in session {session!a} answers to {given[:60]!a}."
        recovery = (
            f"Give an id, {STORED_REFERENCE} after a store, or {RECALLED_REFERENCE}[N] after a search "
            "in the same session, N from 0."
        )
        raise NothingFound(invalid(name, error, recovery).fault)
    return found
