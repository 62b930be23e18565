"""`engramq token`: bearer tokens made, listed and revoked. A token is shown once, when it is made."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import msgspec

from engramq.schemas.command_line import ExitCode
from engramq.schemas.ids import format_time
from engramq.schemas.settings import Settings
from engramq.workers.auth import tokens
from engramq.workers.auth.tokens import NewToken, Token
from engramq.workers.cli.running import in_database, require_database, run
from engramq.workers.db.database import Store


def create_token(settings: Settings, *, namespace: str, as_json: bool, **new: Any) -> None:
    """Make a token (`new` are the fields of NewToken) and print it. Raises CommandFailed, EngramqError."""
    require_database(settings)
    secret, made = run(_created(settings, namespace, NewToken(**new)))
    _show_made(secret, made, as_json=as_json)


def list_tokens(settings: Settings, *, namespace: str | None, as_json: bool) -> None:
    """Print the tokens of a namespace, or of all. Raises CommandFailed, EngramqError."""
    require_database(settings)
    found = run(_listed(settings, namespace))
    for token in found:
        print(msgspec.json.encode(_told(token)).decode() if as_json else _line(token))
    if not found and not as_json:
        print("engramq token: there are none", file=sys.stderr)


def revoke_token(settings: Settings, token_id: UUID, *, as_json: bool) -> ExitCode:
    """Let a token count no longer and print it; FAILED when there is none. Raises CommandFailed, EngramqError."""
    require_database(settings)
    revoked = run(_revoked(settings, token_id))
    if revoked is None:
        print(f"engramq token: there is no token {token_id}; engramq token list shows all.", file=sys.stderr)
        return ExitCode.FAILED
    token, changed = revoked
    if as_json:
        print(msgspec.json.encode(_told(token)).decode())
    else:
        print(_line(token) if changed else f"{_line(token)}  (it was before)")
    return ExitCode.DONE


async def _created(settings: Settings, namespace: str, new: NewToken) -> tuple[str, Token]:
    async def create(store: Store) -> tuple[str, Token]:
        return await tokens.create(store, namespace, new, settings.principal)

    return await in_database(settings, create)


async def _listed(settings: Settings, namespace: str | None) -> Sequence[Token]:
    async def of_one(store: Store) -> Sequence[Token]:
        assert namespace is not None
        return await tokens.listed(store, namespace)

    async def of_all(store: Store) -> Sequence[Token]:
        return [token for one in await store.namespaces() for token in await tokens.listed(store, one)]

    if namespace is not None:
        return await in_database(settings, of_one)
    return await in_database(settings, of_all)


async def _revoked(settings: Settings, token_id: UUID) -> tuple[Token, bool] | None:
    async def revoke(store: Store) -> tuple[Token, bool] | None:
        return await tokens.revoke(store, token_id, settings.principal)

    return await in_database(settings, revoke)


def _show_made(secret: str, token: Token, *, as_json: bool) -> None:
    """Print the token alone on standard output, so that a script can take it from there."""
    if as_json:
        print(msgspec.json.encode({"token": secret, **_told(token)}).decode())
        return
    print(_line(token), file=sys.stderr)
    print("This is the token. It is shown this once and kept nowhere:", file=sys.stderr)
    print(secret)


def _line(token: Token) -> str:
    parts = [
        str(token.id),
        f"{_quoted(token.principal)} in {_quoted(token.namespace)}",
        ",".join(token.scopes) + (" untrusted" if token.untrusted else ""),
        "" if token.project is None else f"project {_quoted(token.project)}",
        _validity(token),
        "" if token.label is None else f"label {_quoted(token.label)}",
    ]
    return "  ".join(part for part in parts if part)


def _validity(token: Token) -> str:
    if token.revoked_at is not None:
        return f"revoked {format_time(token.revoked_at)}"
    if token.expires_at is None:
        return "never expires"
    return f"{'expired' if token.expires_at <= datetime.now(UTC) else 'expires'} {format_time(token.expires_at)}"


def _told(token: Token) -> dict[str, Any]:
    return {
        field: format_time(value) if isinstance(value, datetime) else value for field, value in asdict(token).items()
    }


def _quoted(text: str) -> str:
    """Return a chosen text so that it stays on its line whatever it holds."""
    return text if text.isprintable() and text.strip() == text and '"' not in text else ascii(text)
