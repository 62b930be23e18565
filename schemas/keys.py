"""Every Redis key, written once.

The lanes of an installation are queues beside each other, whose number is chosen once. A lane is a whole queue under a
prefix of its own: mailboxes, sessions, replies, dead letters, leases. `{prefix:n.m}` is the prefix of lane n and the
beginning of its jobs' ids, so that all its keys, arq's own too, are in one slot of a Redis Cluster. A namespace is on
one lane, by a hash of its name. With one lane, and no cluster, no key has a tag.

The queue is arq's: a mailbox is an arq queue (a zset of job ids by due time in milliseconds), a job's payload, lease
and try counter stand under arq's own keys.
"""

import binascii
import hashlib
import itertools
import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import quote

from engramq.schemas.envelope import PrincipalId
from engramq.schemas.limits import BULK
from engramq.schemas.vocabulary import WorkerKind

# arq's constants; a contract test compares them with the installed arq.
JOB_KEY: Final = "arq:job:"
LEASE_KEY: Final = "arq:in-progress:"
TRIES_KEY: Final = "arq:retry:"

SLOTS: Final = 16_384
_GOLDEN: Final = (5**0.5 - 1) / 2
_FIRST: Final = 0.11  # so that two lanes are on two of two masters, three on three of three
_NEAR: Final = 128  # slots

UNTRUSTED_MARK: Final = "!"  # before the name of an untrusted principal; a name has it as %21


class MailboxKeys(NamedTuple):
    """The keys of one worker kind.

    mailbox     zset, arq's queue: job id -> when it is due, in milliseconds
    wakeups     list: one element for each wake-up
    depth       integer: commands waiting or running; means 0 while the mailbox is empty. Where turns are taken, with
                `:of` behind the name, a hash too: turn mark of a namespace -> its commands of these
    rate        hash: how fast the mailbox is served, as far as that is known; see schemas/lua/prelude.lua
    dead        hash: id -> dead letter
    dead_index  zset: id of a dead letter -> when it died, in milliseconds
    dead_bytes  integer: bytes of the dead letters together; not there while it has to be counted
    alive       zset: worker id -> when it was last seen, in seconds
    waiting     zset, where namespaces take turns: id of a job that is due -> number of its turn
    turns       hash: turn mark of a namespace -> number of its last turn; `claimed`: the turn that was claimed last;
                `upto`: the time up to which `waiting` has what is due; see schemas/lua/claim.lua
    """

    mailbox: str
    wakeups: str
    depth: str
    rate: str
    dead: str
    dead_index: str
    dead_bytes: str
    alive: str
    waiting: str
    turns: str


class SessionKeys(NamedTuple):
    """The keys of one session.

    state       hash: instance, seen (ms), stored, recalled (ids, each with a newline), ticked, owed
    touched     zset: memory id -> order of its first touch
    sessions    zset of the principal: name -> when the session's breadcrumbs expire, in milliseconds
    principals  zset of the namespace: key of a principal's `sessions` -> when the last of them expires
    name        not a key: how `sessions` lists the session
    """

    state: str
    touched: str
    sessions: str
    principals: str
    name: str


class Keys:
    """Every Redis key of one lane, which is all of an installation without lanes; `prefix` tells it from others.

    `of` has the keys of each worker kind, `lanes` says how many lanes share what is bounded. Names that users choose
    are percent-encoded, so that no character of them can end or forge a key.

    `guard` goes with the keys of every script, and is never written. While a slot moves, a script could begin at a
    server that has some of its keys and fail half way; with a key that nobody has it is not begun at all.
    """

    def __init__(self, prefix: str, *, lanes: int = 1) -> None:
        self.prefix = prefix
        self.lanes = lanes
        self._job_tag = prefix if prefix.startswith("{") else ""
        self.guard = (f"{prefix}:guard",) if self._job_tag else ()
        self.of: Mapping[WorkerKind, MailboxKeys] = {
            kind: MailboxKeys(
                mailbox=f"{prefix}:mailbox:{kind}",
                wakeups=f"{prefix}:wakeups:{kind}",
                depth=f"{prefix}:depth:{kind}",
                rate=f"{prefix}:rate:{kind}",
                dead=f"{prefix}:dead:{kind}",
                dead_index=f"{prefix}:dead-index:{kind}",
                dead_bytes=f"{prefix}:dead-bytes:{kind}",
                alive=f"{prefix}:alive:{kind}",
                waiting=f"{prefix}:waiting:{kind}",
                turns=f"{prefix}:turns:{kind}",
            )
            for kind in WorkerKind
        }
        self.reply_lists = f"{prefix}:reply-lists"  # zset: reply list in use -> when its gateway said so (seconds)
        self.clocks = f"{prefix}:clocks"  # hash: process whose clock is wrong -> by how much, and how long that counts
        self.erased = f"{prefix}:erased"  # string: something was erased since the append-only file was written anew
        self.last_erased = f"{prefix}:last-erased"  # string: the mark of the last erasure, which each worker looks at
        self.cursor_secret = f"{prefix}:cursor-secret"  # string: the key that signs cursors

    def job_id(self, first_command_id: str, count: int, kind: WorkerKind | None = None, namespace: str = "") -> str:
        """Return the id of the job that begins with this command and has so many of them.

        In a mailbox where namespaces take turns it has the turn mark of the namespace.
        """
        turn = f"{turn_mark(namespace)}." if kind in BULK else ""
        return f"{self._job_tag}{first_command_id}.{turn}{count}"

    def page_session(self, digest: str) -> str:
        """String: the sealed bearer token of somebody who signed in at the page; `digest` is of the cookie."""
        return f"{self.prefix}:page-session:{digest}"

    def page_sessions(self, namespace: str, principal: PrincipalId) -> str:
        """Zset: digest of a cookie of this principal -> when it counts no longer, in milliseconds."""
        return f"{self.prefix}:page-sessions:{quote(namespace, safe='')}:{_quote_name(principal)}"

    def page_export(self, namespace: str, principal: PrincipalId, export: str) -> str:
        """String: how far an export is that this principal began; `export` is what its form is known by."""
        return f"{self.prefix}:page-export:{quote(namespace, safe='')}:{_quote_name(principal)}:{export}"

    def parts(self, channel: str) -> str:
        """List: the parts of a long answer that nobody has taken yet; see schemas/parts.py."""
        return f"{self.prefix}:parts:{quote(channel, safe='')}"

    def room(self, channel: str) -> str:
        """List: one element for each further part that may be sent."""
        return f"{self.prefix}:room:{quote(channel, safe='')}"

    def schedule(self, kind: WorkerKind, name: str) -> str:
        """String: the worker that runs this periodic work now, or ran it last within its period."""
        return f"{self.prefix}:schedule:{kind}:{quote(name, safe='')}"

    def interrupt(self, kind: WorkerKind, worker_id: str) -> str:
        """List: an element ends the wait for wake-ups of one worker that is to stop."""
        return f"{self.prefix}:interrupt:{kind}:{worker_id}"

    def replies(self, gateway_id: str) -> str:
        """List: answers for one gateway process."""
        return f"{self.prefix}:replies:{gateway_id}"

    def note(self, command_id: str) -> str:
        """String: the Note of a command whose caller was answered `pending`."""
        return f"{self.prefix}:note:{quote(command_id, safe='')}"

    def session(self, namespace: str, principal: PrincipalId, session: str) -> SessionKeys:
        """Return the keys of a session."""
        tenant = quote(namespace, safe="")
        whose = f"{tenant}:{_quote_name(principal)}"
        name = f"{whose}:{quote(session, safe='')}"
        return SessionKeys(
            *self.session_keys_of(name), f"{self.prefix}:sessions:{whose}", self.principals(namespace), name
        )

    def principals(self, namespace: str) -> str:
        """Zset of a namespace: key of the sessions of a principal -> when the last of them expires."""
        return f"{self.prefix}:principals:{quote(namespace, safe='')}"

    def session_keys_of(self, name: str) -> tuple[str, str]:
        """Return the keys (state, touched) of a session as `sessions` lists it."""
        return f"{self.prefix}:session_state:{name}", f"{self.prefix}:touched:{name}"


def turn_mark(namespace: str) -> str:
    """Return the mark in the ids of a namespace's jobs by which namespaces take turns."""
    return hashlib.blake2b(namespace.encode(), digest_size=4).hexdigest()


def _quote_name(principal: PrincipalId) -> str:
    return (UNTRUSTED_MARK if principal.untrusted else "") + quote(principal.name, safe="")


def keys_of_lanes(prefix: str, count: int, *, tagged: bool) -> tuple[Keys, ...]:
    """Return the keys of so many lanes; `tagged`: each has a hash tag of its own."""
    if not tagged:
        return (Keys(prefix),)
    return tuple(Keys(tag_of(prefix, number), lanes=count) for number in range(count))


def slot_of(key: str) -> int:
    """Return the slot of a key, as a Redis Cluster counts it: CRC16 of its hash tag, or of all of it."""
    tag = re.search(r"\{([^}]+)\}", key)
    return binascii.crc_hqx((tag[1] if tag else key).encode(), 0) % SLOTS


@cache
def tag_of(prefix: str, number: int) -> str:
    """Return the hash tag of a lane: the first whose slot is near its own point of all slots.

    Points that lie a golden section apart are spread evenly, however many there are: so every master of equal ranges
    has its share of any number of lanes.
    """
    wanted = (_FIRST + number * _GOLDEN) % 1 * SLOTS
    tags = (f"{{{prefix}:{number}.{trial}}}" for trial in itertools.count())
    return next(tag for tag in tags if abs(slot_of(tag) - wanted) <= _NEAR)


def lane_of(namespace: str, count: int) -> int:
    """Return the number of the lane of a namespace."""
    if count == 1:
        return 0
    return int.from_bytes(hashlib.blake2b(namespace.encode(), digest_size=8).digest()) % count
