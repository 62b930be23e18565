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


class OwnerOnly:
    """Lets in, as the same caller, every request of this account's own processes and of root's.

    For a server that only this machine reaches, and that asks for no tokens. `open_paths` are for everybody.
    """

    def __init__(self, app: ASGIApp, caller: Caller, *, open_paths: frozenset[str], token: str | None) -> None:
        self._app = app
        self._caller = caller
        self._open_paths = open_paths
        self._token = token
        self._owner = os.geteuid()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            refusal = self._refusal(scope)
            if refusal is not None:
                await refusal(scope, receive, send)
                return
        await self._app({**scope, CALLER: self._caller}, receive, send)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        connection = scope.get(CONNECTION)
        owner = connection.owner() if isinstance(connection, LocalConnection) else None
        if owner in (self._owner, _ROOT) or self._has_token(scope):
            return None
        log.info("Another account's request refused", extra={"owner": owner})
        return JSONResponse({"status": Status.ERROR, "error": _WHOSE if owner is None else _OTHER}, 403)

    def _has_token(self, scope: Scope) -> bool:
        given = HTTPConnection(scope).headers.get("authorization", "")
        kind, _, token = given.partition(" ")
        if self._token is None or kind.lower() != "bearer":
            return False
        return hmac.compare_digest(token.strip().encode(), self._token.encode())


_OTHERWISE: Final = "Or have its owner serve with ENGRAMQ_AUTH=token."
_OTHER: Final = f"This server is another account's, and serves that one only. {_OTHERWISE}"
_WHOSE: Final = (
    "Whose request this is cannot be known here. Send `Authorization: Bearer` with the token in the file "
    f"{TOKEN_FILE} of the server's home. {_OTHERWISE}"
)
