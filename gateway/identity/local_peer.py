"""Whose process is at the other end of a connection of this machine, and whether it may call without a token.

Where that cannot be known, a token says it that only the owner of the home can read.
"""

import hmac
import logging
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.socket_owners import Address, owner_of
from engramq.schemas.vocabulary import Status

log = logging.getLogger(__name__)

CONNECTION: Final = "engramq.connection"  # the key of a request's scope under which its LocalConnection stands
TOKEN_FILE: Final = "http-token"  # noqa: S105 - the name of the file

_ROOT: Final = 0

LookUp = Callable[[Address, Address], int | None]


class LocalConnection:
    """One connection, by both its ends; its owner is looked up once, when that is first asked."""

    def __init__(self, peer: Address | None, server: Address | None, look_up: LookUp | None = None) -> None:
        self._ends = (peer, server)
        self._look_up = look_up or owner_of
        self._owner: int | None = None
        self._is_known = False

    def owner(self) -> int | None:
        """Return the user id of the process at the other end, None when it cannot be known."""
        if not self._is_known:
            peer, server = self._ends
            self._owner = None if peer is None or server is None else self._look_up(peer, server)
            self._is_known = True
        return self._owner


def home_token(home: Path) -> str | None:
    """Return the token of a home, made at its first use, in a file that its owner alone can read; None without a home.

    Raises OSError when it can neither be read nor made, or when others could have read it.
    """
    if not home.is_dir():
        return None
    place, fresh = home / TOKEN_FILE, home / f"{TOKEN_FILE}.{os.getpid()}"
    if not place.exists():
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
        with suppress(FileExistsError):  # another gateway was faster
            place.hardlink_to(fresh)
        fresh.unlink()
    found = place.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{place} is not a file that this user alone can read")
    return place.read_text(encoding="ascii").strip() or None


class Account:
    """The account that a server runs as, whose own processes (and root's) are let in as the same caller.

    `token` stands in for an account that cannot be known.
    """

    def __init__(self, caller: Caller, token: str | None) -> None:
        self.caller = caller
        self._token = token
        self._owner = os.geteuid()

    def owner_of(self, request: HTTPConnection) -> Caller | None:
        """Return the caller of a request, None where its account is another's or cannot be known."""
        return None if self.refusal(request.scope) else self.caller

    def refusal(self, scope: Scope) -> str:
        """Return why a request is not let in, "" when it is."""
        connection = scope.get(CONNECTION)
        owner = connection.owner() if isinstance(connection, LocalConnection) else None
        if owner in (self._owner, _ROOT) or self._has_token(scope):
            return ""
        log.info("Another account's request refused", extra={"owner": owner})
        return _WHOSE if owner is None else _OTHER

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller if this is the token of the home; see `bearer.Authenticator`."""
        admit()
        return self.caller if self._is_token(token) else None

    def _has_token(self, scope: Scope) -> bool:
        given = HTTPConnection(scope).headers.get("authorization", "")
        kind, _, token = given.partition(" ")
        return kind.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())


class OwnerOnly:
    """Lets in, as the same caller, every request of this account's own processes and of root's.

    For a server that only this machine reaches, and that asks for no tokens. `open_paths` are for everybody.
    """

    def __init__(self, app: ASGIApp, account: Account, *, open_paths: frozenset[str]) -> None:
        self._app = app
        self._account = account
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            refusal = self._account.refusal(scope)
            if refusal:
                await JSONResponse({"status": Status.ERROR, "error": refusal}, 403)(scope, receive, send)
                return
        await self._app({**scope, CALLER: self._account.caller}, receive, send)


_OTHERWISE: Final = "Or have its owner serve with ENGRAMQ_AUTH=token."
_OTHER: Final = f"This server is another account's, and serves that one only. {_OTHERWISE}"
_WHOSE: Final = (
    "Whose request this is cannot be known here. Send `Authorization: Bearer` with the token in the file "
    f"{TOKEN_FILE} of the server's home. {_OTHERWISE}"
)
