"""The account that owns the other end of a connection within this machine, as Linux tells it; elsewhere nobody does."""

import logging
import socket
import struct
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

Address = tuple[str, int]

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


def owner_of(peer: Address, server: Address) -> int | None:
    """Return the user id that owns the socket at `peer` of a connection to `server`, None when it cannot be known.

    The kernel is asked after this one socket; its table of all of them takes 10 ms to read, and is for where it may not
    be asked. A socket that its process has closed counts as unknown: the kernel calls it root's, without an inode.
    """
    try:
        return _asked(peer, server)
    except OSError as problem:
        log.debug("The kernel tells no owners", extra={"error": str(problem)})
        return _listed(peer, server)


def _asked(peer: Address, server: Address) -> int | None:
    """Ask the kernel; raises OSError when it does not answer such questions, or knows no such socket."""
    if _NETLINK is None:
        raise OSError("there is no netlink")
    near, far = _packed(peer), _packed(server)
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
    # Without such a connection the kernel answers with whoever listens at that address.
    is_this = state != _LISTEN and _ENDS.unpack_from(found)[:2] == (peer[1], server[1])
    return int(uid) if is_this and inode else None


def _listed(peer: Address, server: Address) -> int | None:
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


def _in_table(address: Address, family: socket.AddressFamily) -> str:
    """Return an address as the table of this family writes it: words of 4 bytes in the machine's order."""
    packed = _packed(address)
    if family == socket.AF_INET:
        packed = packed.removeprefix(_MAPPED)
    words = (struct.unpack_from("=I", packed, at)[0] for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _packed(address: Address) -> bytes:
    """Return an address as one of IPv6."""
    host = address[0].partition("%")[0]
    return socket.inet_pton(socket.AF_INET6, host) if ":" in host else _MAPPED + socket.inet_pton(socket.AF_INET, host)
