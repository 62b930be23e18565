"""`engramq token`: bearer tokens made, listed and revoked. A token is shown once, when it is made."""

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.ids import format_time, parse_time
from engramq.schemas.setting_values import name, namespace, principal
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Scope
from engramq.workers.auth import tokens
from engramq.workers.auth.tokens import NewToken, Token
from engramq.workers.cli.arguments import Parser, checked, uuid_of
from engramq.workers.db.database import Store

DEFAULT_SCOPES: Final = (Scope.READ, Scope.WRITE)
UNKNOWN: Final = 1  # the exit code when there is no token of that id
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN: Final = re.compile(r"([1-9]\d{0,5})([hdw])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What was asked for: `action` is create, list or revoke. `namespace` None: of the settings, or all in a list."""

    action: str
    namespace: str | None
    new: NewToken | None
    token_id: UUID | None
    as_json: bool


def parse_token(arguments: list[str]) -> Request:
    """Return what to do; raises UsageEnd."""
    parser = Parser(prog="engramq token", description="Make, list and revoke bearer tokens of HTTP clients.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")
    create = actions.add_parser("create", help="make a token and show it, this once")
    create.add_argument("--principal", metavar="P", required=True, type=checked(principal), help="who comes in by it")
    create.add_argument(
        "--scopes", metavar="S,S", type=checked(_scopes), default=DEFAULT_SCOPES,
        help=f"of {','.join(Scope)}; default {','.join(DEFAULT_SCOPES)}",
    )  # fmt: skip
    create.add_argument(
        "--untrusted", action="store_true", help="everything this principal stores is untrusted, whatever it says"
    )
    create.add_argument(
        "--expires", metavar="T", type=checked(parse_expiry),
        help="90d, 12h, 4w, a date (its end, UTC) or a time with a zone; default: never",
    )  # fmt: skip
    create.add_argument("--label", metavar="L", type=checked(name), help="what it is for, shown in the list")
    listing = actions.add_parser("list", help="show tokens, never their secrets")
    for one, default in ((create, "ENGRAMQ_NAMESPACE"), (listing, "all of them")):
        one.add_argument("--namespace", metavar="N", type=checked(namespace), help=f"default: {default}")
    revoke = actions.add_parser("revoke", help="let a token count no longer, within half a minute")
    revoke.add_argument("id", metavar="ID", type=checked(uuid_of), help="as create and list show it")
    for one in (create, listing, revoke):
        one.add_argument("--json", action="store_true", help="print JSON")
    return _request(parser.parse_args(arguments))


async def run_token(request: Request, settings: Settings) -> int:
    """Do it, print what came of it, and return the exit code. Raises NotReady, EngramqError with `unavailable`."""
    async with await Store.open(settings.database_url, pool_size=1) as store:
        if request.new is not None:
            secret, made = await tokens.create(
                store, request.namespace or settings.namespace, request.new, settings.principal
            )
            _show_made(secret, made, as_json=request.as_json)
        elif request.token_id is not None:
            return _show_revoked(request, await tokens.revoke(store, request.token_id, settings.principal))
        else:
            wanted = await store.namespaces() if request.namespace is None else [request.namespace]
            found = [token for one in wanted for token in await tokens.listed(store, one)]
            _show_list(found, as_json=request.as_json)
    return 0


def parse_expiry(text: str) -> datetime:
    """Return the moment that `text` names or that is so long from now; raises ValueError when it is no future one."""
    now = datetime.now(UTC)
    span = _SPAN.fullmatch(text)
    try:
        moment = now + int(span[1]) * _UNITS[span[2]] if span else parse_time(text, end_of_day=True)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away") from None
    except ValueError as problem:
        raise ValueError(f"{problem}, nor a time from now (90d, 12h, 4w)") from None
    if moment <= now:
        raise ValueError(f"{text!r} has passed")
    return moment


def _request(parsed: argparse.Namespace) -> Request:
    new = None
    if parsed.action == "create":
        new = NewToken(
            principal=parsed.principal,
            scopes=parsed.scopes,
            untrusted=parsed.untrusted,
            label=parsed.label,
            expires_at=parsed.expires,
        )
    return Request(
        action=parsed.action,
        namespace=getattr(parsed, "namespace", None),
        new=new,
        token_id=getattr(parsed, "id", None),
        as_json=parsed.json,
    )


def _show_made(secret: str, token: Token, *, as_json: bool) -> None:
    """Print the token alone on standard output, so that a script can take it from there."""
    if as_json:
        print(msgspec.json.encode({"token": secret, **_told(token)}).decode())
        return
    print(_line(token), file=sys.stderr)
    print("This is the token. It is shown this once and kept nowhere:", file=sys.stderr)
    print(secret)


def _show_revoked(request: Request, found: tuple[Token, bool] | None) -> int:
    if found is None:
        print(f"engramq token: there is no token {request.token_id}; engramq token list shows all.", file=sys.stderr)
        return UNKNOWN
    token, changed = found
    if request.as_json:
        print(msgspec.json.encode(_told(token)).decode())
    else:
        print(_line(token) if changed else f"{_line(token)}  (it was before)")
    return 0


def _show_list(found: Sequence[Token], *, as_json: bool) -> None:
    for token in found:
        print(msgspec.json.encode(_told(token)).decode() if as_json else _line(token))
    if not found and not as_json:
        print("engramq token: there are none", file=sys.stderr)


def _line(token: Token) -> str:
    parts = [
        str(token.id),
        f"{_quoted(token.principal)} in {_quoted(token.namespace)}",
        ",".join(token.scopes) + (" untrusted" if token.untrusted else ""),
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


def _scopes(text: str) -> tuple[Scope, ...]:
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in set(Scope)]
    if unknown:
        raise ValueError(f"there is no scope {unknown[0]!r}; there are {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope in words)
