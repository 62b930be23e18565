"""Find whose process is at the other end of a local connection, and whether it may call without a token.

Linux tells the account that owns a socket. Where that cannot be known, a token says it that only the owner of the home
can read.
"""

import hmac
import ipaddress
import logging
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import Scope

from engramq.gateway.identity.authorization import Caller
from engramq.schemas.home_secrets import read_or_make_secret
from engramq.schemas.vocabulary import Status

log = logging.getLogger(__name__)

SocketAddress = tuple[str, int]

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_MAPPED: Final = b"\0" * 10 + b"\xff" * 2  # an IPv4 address among those of IPv6

# sock_diag(7)
_NETLINK: Final = getattr(socket, "AF_NETLINK", None)
_NETLINK_SOCK_DIAG: Final = 4
_BY_FAMILY: Final = 20
_REQUEST: Final = 1
_ALL_STATES: Final = 0xFFFFFFFF
_LISTEN: Final = 10
_HEADER: Final = struct.Struct("=IHHII")
_QUESTION: Final = struct.Struct("=BBBBI")  # family, protocol, extensions, padding, states; the two ends follow
_ENDS: Final = struct.Struct("!HH16s16s")  # ports and addresses of the socket and of its peer
_NO_DEVICE_NOR_COOKIE: Final = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ANSWER: Final = struct.Struct("=BBBB48sIIIII")  # family, state, 2 of timers, ends, expiry, 2 queues, uid, inode
_WAIT_S: Final = 1.0


def owner_of(peer: SocketAddress, server: SocketAddress) -> int | None:
    """Return the user id that owns the socket at `peer` of a connection to `server`, None when it cannot be known.

    That of another machine cannot. The kernel is asked after this one socket; its table of all of them takes 10 ms to
    read, and is for where it may not be asked. A socket that its process has closed counts as unknown: the kernel calls
    it root's, without an inode.
    """
    try:
        return _ask_kernel(peer, server)
    except OSError as problem:
        log.debug("The kernel tells no owners", extra={"error": str(problem)})
        return _read_tables(peer, server) if _is_loopback(peer[0]) else None


def _ask_kernel(peer: SocketAddress, server: SocketAddress) -> int | None:
    """Ask the kernel; raises OSError when it does not answer such questions, or knows no such socket."""
    if _NETLINK is None:
        raise OSError("there is no netlink")
    near, far = _pack(peer), _pack(server)
    if near.startswith(_MAPPED) and far.startswith(_MAPPED):
        family, near, far = socket.AF_INET, near[len(_MAPPED) :], far[len(_MAPPED) :]
    else:
        family = socket.AF_INET6
    ends = _ENDS.pack(peer[1], server[1], near.ljust(16, b"\0"), far.ljust(16, b"\0"))
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES) + ends + _NO_DEVICE_NOR_COOKIE
    with socket.socket(_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as line:
        line.settimeout(_WAIT_S)
        line.send(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
        answer = line.recv(4_096)
    kind = _HEADER.unpack_from(answer)[1]
    if kind != _BY_FAMILY:
        raise OSError(-struct.unpack_from("=i", answer, _HEADER.size)[0], "no such socket, or no such question")
    _, state, _, _, found, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
    # Without such a connection the kernel answers with the account that listens at that address.
    is_this = state != _LISTEN and _ENDS.unpack_from(found)[:2] == (peer[1], server[1])
    return int(uid) if is_this and inode else None


def _read_tables(peer: SocketAddress, server: SocketAddress) -> int | None:
    """Look for the socket in the kernel's tables, proc(5)."""
    wanted = {(_in_table(peer, family), _in_table(server, family)) for family in (socket.AF_INET, socket.AF_INET6)}
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            # sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
            fields = line.split()
            if (fields[1], fields[2]) in wanted and fields[9] != "0":
                return int(fields[7])
    return None


def _in_table(address: SocketAddress, family: socket.AddressFamily) -> str:
    """Return an address as the table of this family writes it: words of 4 bytes in the machine's order."""
    packed = _pack(address)
    if family == socket.AF_INET:
        packed = packed.removeprefix(_MAPPED)
    words = (struct.unpack_from("=I", packed, at)[0] for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _pack(address: SocketAddress) -> bytes:
    """Return an address as one of IPv6."""
    host = address[0].partition("%")[0]
    return socket.inet_pton(socket.AF_INET6, host) if ":" in host else _MAPPED + socket.inet_pton(socket.AF_INET, host)


def _is_loopback(host: str) -> bool:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = address.ipv4_mapped if address.version == 6 else None
    return (mapped or address).is_loopback


CONNECTION: Final = "engramq.connection"  # the key of a request's scope under which its LocalConnection stands
TOKEN_FILE: Final = "http-token"  # noqa: S105 - the name of the file

OWN_ACCOUNTS: Final = frozenset({os.geteuid(), 0})  # the server's own, and root

FindAccount = Callable[[SocketAddress, SocketAddress], int | None]


class LocalConnection:
    """One connection, by both its ends; its owner is looked up once, when that is first asked."""

    def __init__(
        self, peer: SocketAddress | None, server: SocketAddress | None, look_up: FindAccount | None = None
    ) -> None:
        self._ends = (peer, server)
        self._is_local = peer is not None and _is_loopback(peer[0])
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

    def account(self) -> int | None:
        """Return the owner where the kernel tells it at once, of a connection from a loopback address; else None."""
        peer, server = self._ends
        if self._is_known or not self._is_local or peer is None or server is None:
            return self._owner
        try:
            self._owner = _ask_kernel(peer, server)
        except OSError:
            return None  # `owner` looks further
        self._is_known = True
        return self._owner


def home_token(home: Path) -> str | None:
    """Return the token of a home, made at its first use, in a file that its owner alone can read; None without a home.

    Raises OSError as `read_or_make_secret` does. A text that no header can carry is no token.
    """
    return read_or_make_secret(home / TOKEN_FILE).decode(errors="replace") if home.is_dir() else None


class Account:
    """The account that a server runs as, whose own processes (and root's) are let in as the same caller.

    `token` stands in for an account that cannot be known.
    """

    def __init__(self, caller: Caller, token: str | None) -> None:
        self.caller = caller
        self._token = token

    def owner_of(self, request: HTTPConnection) -> Caller | None:
        """Return the caller of a request, None where its account is another's or cannot be known."""
        return None if self.refusal(request.scope) else self.caller

    def refusal(self, scope: Scope) -> str:
        """Return why a request is not let in, "" when it is."""
        given = HTTPConnection(scope).headers.get("authorization", "")
        if given:
            if self._is_own(given):
                return ""
            log.info("A token refused where none is taken")
            return _NO_TOKENS
        connection = scope.get(CONNECTION)
        owner = connection.owner() if isinstance(connection, LocalConnection) else None
        if owner in OWN_ACCOUNTS:
            return ""
        log.info("Another account's request refused", extra={"owner": owner})
        return _WHOSE if owner is None else _OTHER

    async def authenticate(self, scope: Scope) -> Caller | JSONResponse:
        """Return the caller of a request of this account's own processes or root's, else its refusal."""
        refusal = self.refusal(scope)
        if not refusal:
            return self.caller
        return JSONResponse({"status": Status.ERROR, "error": refusal}, 401 if refusal == _NO_TOKENS else 403)

    async def caller_of(self, token: str, admit: Callable[[], None]) -> Caller | None:
        """Return the caller if this is the token of the home; see `bearer.Authenticator`."""
        admit()
        return self.caller if self._is_token(token) else None

    def _is_own(self, given: str) -> bool:
        kind, _, token = given.partition(" ")
        return kind.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())


_OTHERWISE: Final = "Or have its owner serve with ENGRAMQ_AUTH=token."
# A caller with a token means to be its principal, perhaps one that may do less than this server's account.
_NO_TOKENS: Final = (
    f"This server takes no tokens but the one in {TOKEN_FILE} of its home: it serves its own account alone. "
    f"{_OTHERWISE}"
)
_OTHER: Final = f"This server is another account's, and serves that one only. {_OTHERWISE}"
_WHOSE: Final = (
    "The account behind this request cannot be known here. Send `Authorization: Bearer` with the token in the file "
    f"{TOKEN_FILE} of the server's home. {_OTHERWISE}"
)
