"""Make, list and revoke bearer tokens of a namespace, and find one in any namespace by its digest."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import Identity
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import format_time, new_token, token_digest, uuid7
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, AuditAction, Scope, Visibility
from engramq.workers.db import audit
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Row, Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The description of a token, never the token itself. It holds for ever without `expires_at`."""

    id: UUID
    namespace: str
    principal: str
    scopes: tuple[Scope, ...]
    untrusted: bool
    project: str | None
    visibility: Visibility | None
    label: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """The principal of a new token, and its rights."""

    principal: str
    scopes: Sequence[Scope]
    untrusted: bool = False
    project: str | None = None
    visibility: Visibility | None = None
    label: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class By:
    """The actor of a change to a token, its command and its reason, for the audit log."""

    actor: str
    command_id: UUID | None = None
    reason: str | None = None


_AUDITED: Final = tuple(field.name for field in fields(NewToken) if field.name != "label")


async def create(store: Store, namespace: str, wanted: NewToken, actor: str) -> tuple[str, Token]:
    """Make a token of a namespace and return it, this once, with what is kept of it.

    Raises EngramqError when a token of that name with the other trust counts, and what Store.write does.
    """
    secret, token_id = new_token(), UUID(uuid7())
    by = By(actor)
    return secret, await store.write(namespace, lambda tx: admit(tx, wanted, token_id, token_digest(secret), by))


async def admit(tx: Transaction, wanted: NewToken, token_id: UUID, digest: str, by: By) -> Token:
    """Admit the caller with the token of this SHA-256 (hex), and return its record.

    Raises EngramqError when a token of that name with the other trust counts.
    """
    await _require_one_trust(tx, wanted)
    row = await tx.only_row(
        "insert_token",
        **asdict(wanted) | {"scopes": [scope.value for scope in wanted.scopes]},
        id=token_id,
        sha256=digest,
        created_by=by.actor,
    )
    await _audit(tx, by, AuditAction.CREATE_TOKEN, row)
    return _token(row)


async def list_first(tx: Transaction, limit: int) -> tuple[list[Token], int]:
    """Return so many tokens of the transaction's namespace, those that count first, and how many it has."""
    rows = await tx.rows("first_tokens", limit=limit)
    total = [row.pop("total") for row in rows]
    return [_token(row) for row in rows], max(total, default=0)


async def list_kept(store: Store, namespace: str) -> list[Token]:
    """Return the tokens of a namespace, oldest first, revoked and expired ones too."""
    return await store.read(namespace, list_all)


async def list_all(tx: Transaction) -> list[Token]:
    """Return the tokens of the transaction's namespace as `list_kept` does."""
    return [_token(row) for row in await tx.rows("list_tokens")]


async def revoke(store: Store, token_id: UUID, actor: str) -> tuple[Token, bool] | None:
    """Revoke a token, in whichever namespace it is; None when there is none of that id.

    The second value says whether this call did it: a token that was revoked already stays as it was.
    """

    for namespace in await store.namespaces():
        found = await store.write(namespace, lambda tx: shut_out(tx, token_id, By(actor)))
        if found is not None:
            return found
    return None


async def shut_out(tx: Transaction, token_id: UUID, by: By) -> tuple[Token, bool] | None:
    """Revoke a token of the transaction's namespace; see `revoke`."""
    row = await tx.row("revoke_token", id=token_id)
    if row is not None:
        await _audit(tx, by, AuditAction.REVOKE_TOKEN, row)
        return _token(row), True
    row = await tx.row("token_by_id", id=token_id)
    return None if row is None else (_token(row), False)


async def identify(store: Store, digest: str) -> Identity:
    """Return whose the token with this SHA-256 (hex) is. Unknown, revoked and expired tokens are answered alike."""
    row = await store.read(SYSTEM_NAMESPACE, lambda tx: tx.row("token_owner", sha256=digest))
    if row is None:
        return Identity(status="unknown")
    expires_at, words = row["expires_at"], _words(row)
    said = {
        "token_id": str(row["token_id"]),
        "expires_at": expires_at and expires_at.timestamp(),
        "project": row["project"] or "",
        "scopes": words["scopes"],
        "visibility": words["visibility"] or UNSET,
    }
    return Identity(status="success", **row | said)


async def _require_one_trust(tx: Transaction, wanted: NewToken) -> None:
    """Raise EngramqError when the name is that of a principal with the other trust: people would take one for another.

    Two that are made at once wait for each other.
    """
    await tx.send("lock_tokens")
    other = await tx.row("token_of_other_trust", principal=wanted.principal, untrusted=wanted.untrusted)
    if other is not None:
        trust = "a trusted" if wanted.untrusted else "an untrusted"
        raise refuse(
            FaultCode.FORBIDDEN,
            f"The name {wanted.principal!r} is {trust} principal's, by its token {other['id']}.",
            recovery=f"Give another --principal, or first run: engramq token revoke {other['id']}",
        )


async def _audit(tx: Transaction, by: By, action: AuditAction, row: Row) -> None:
    told = {field: format_time(row[field]) if isinstance(row[field], datetime) else row[field] for field in _AUDITED}
    created = action is AuditAction.CREATE_TOKEN
    await audit.write(
        tx,
        by.actor,
        action,
        row["id"],
        old={} if created else told,
        new=told if created else {},
        reason=by.reason,
        command_id=by.command_id,
    )


def _token(row: Row) -> Token:
    return Token(**{**row, **_words(row)})


def _words(row: Row) -> dict[str, Any]:
    return {
        "scopes": tuple(scope for scope in Scope if scope in row["scopes"]),
        "visibility": row["visibility"] and Visibility(row["visibility"]),
    }
