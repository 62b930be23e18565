"""What both halves of the queue agree on: every Redis key, the form of a queued job, sizes and times.

The queue is arq's: a mailbox is an arq queue (a zset of job ids by due time in milliseconds), a job's payload, lease
and try counter stand under arq's own keys. A job carries 1 to COMMANDS_PER_JOB commands, each encoded by itself, so
that one that cannot be decoded harms no other. A job's id ends with the number of its commands.
"""

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from schemas.codec import decoded
from schemas.vocabulary import WorkerKind

# arq's constants; a contract test compares them with the installed arq.
JOB_KEY: Final = "arq:job:"
LEASE_KEY: Final = "arq:in-progress:"
TRIES_KEY: Final = "arq:retry:"

JOB_FUNCTION: Final = "carry_out"  # arq's name for the one function that every mailbox runs
COMMANDS_PER_JOB: Final = 16
JOB_BYTES: Final = 1024 * 1024  # a job takes no further command beyond this size
FOLLOW_UP_BOUND: Final = 100_000  # commands in one mailbox beyond which follow-ups are left to the sweep
RETRY_AFTER_S: Final = 1.0  # what a refused caller is told to wait

REPLY_TTL_S: Final = 60  # of a reply list: how long a gateway that went away leaves its replies behind
NOTE_TTL_S: Final = 7 * 24 * 3600  # as long as an idempotency key is kept
REGISTER_S: Final = 30.0  # how often a gateway says that its reply list is in use
REPLY_LIST_MAX_AGE_S: Final = 3600.0  # after which a silent gateway's list is forgotten

OLDEST_SERVER: Final = (7, 0)  # BLMPOP came with Redis 7.0


class UnsupportedServer(RuntimeError):
    """The Redis server is too old; the message names its version."""


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a command went whose caller was told `pending`: what get_command knows before the ledger does."""

    job_id: str
    mailbox: WorkerKind
    namespace: str
    principal: str


class _QueuedJob(msgspec.Struct, frozen=True):
    """A job as arq writes it: try, function, arguments, keyword arguments, time of enqueueing in milliseconds."""

    t: int | None
    f: str
    a: tuple[list[bytes]]
    k: dict[str, Any]
    et: int


_job_decoder: Final = msgspec.msgpack.Decoder(_QueuedJob)
_note_decoder: Final = msgspec.msgpack.Decoder(Note)


def job_id(first_command_id: str, count: int) -> str:
    """Return the id of the job that begins with this command and has so many of them."""
    return f"{first_command_id}.{count}"


def encode_job(envelopes: Sequence[bytes], at_ms: int) -> bytes:
    """Return the payload of a job that carries these encoded envelopes."""
    return msgspec.msgpack.encode({"t": None, "f": JOB_FUNCTION, "a": [list(envelopes)], "k": {}, "et": at_ms})


def decode_job(payload: bytes) -> list[bytes]:
    """Return the encoded envelopes of a job; raises DecodeError when it is none."""
    return decoded(_job_decoder, payload).a[0]


def encode_note(note: Note) -> bytes:
    """Return the bytes of a note."""
    return msgspec.msgpack.encode(note)


def decode_note(data: bytes) -> Note:
    """Return the note in `data`; raises DecodeError when it is none."""
    return decoded(_note_decoder, data)


def check_server(info: str) -> None:
    """Raise UnsupportedServer when the server whose `INFO server` this is lacks what the queue needs."""
    found = re.search(r"^redis_version:(\S+)", info, re.MULTILINE)
    version = found[1] if found else "unknown"
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_SERVER:
        needed = ".".join(map(str, OLDEST_SERVER))
        raise UnsupportedServer(f"Redis {version} is too old: engramq needs Redis {needed} or later, or Valkey.")


def _part(text: str) -> str:
    """Encode what a user chose so that no character of it can end or forge a key."""
    return quote(text, safe="")


class Keys:
    """Every Redis key of one installation; `prefix` tells installations apart that share a server."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.reply_lists = f"{prefix}:reply-lists"  # zset: reply list in use -> when its gateway said so (seconds)
        self.cursor_secret = f"{prefix}:cursor-secret"  # string: the key that signs cursors

    def mailbox(self, kind: WorkerKind) -> str:
        """Zset, arq's queue: job id -> when it is due, in milliseconds."""
        return f"{self.prefix}:mailbox:{kind}"

    def bell(self, kind: WorkerKind) -> str:
        """List: one element for each ring."""
        return f"{self.prefix}:bell:{kind}"

    def depth(self, kind: WorkerKind) -> str:
        """Integer: commands waiting or running; means 0 while the mailbox is empty."""
        return f"{self.prefix}:depth:{kind}"

    def dead(self, kind: WorkerKind) -> str:
        """Hash: id -> dead letter."""
        return f"{self.prefix}:dead:{kind}"

    def dead_index(self, kind: WorkerKind) -> str:
        """Zset: id of a dead letter -> when it died, in milliseconds."""
        return f"{self.prefix}:dead-index:{kind}"

    def alive(self, kind: WorkerKind) -> str:
        """Zset: worker id -> when it was last seen, in seconds."""
        return f"{self.prefix}:alive:{kind}"

    def schedule(self, kind: WorkerKind, name: str) -> str:
        """String: who runs this periodic work now, or ran it last within its period."""
        return f"{self.prefix}:schedule:{kind}:{_part(name)}"

    def replies(self, gateway_id: str) -> str:
        """List: answers for one gateway process."""
        return f"{self.prefix}:replies:{gateway_id}"

    def note(self, command_id: str) -> str:
        """String: the Note of a command whose caller was told `pending`."""
        return f"{self.prefix}:note:{_part(command_id)}"

    def crumbs(self, namespace: str, principal: str, session: str) -> str:
        """Hash of a session: instance, seen (ms), stored, recalled (ids, each with a newline), clock."""
        return f"{self.prefix}:crumbs:{self.session(namespace, principal, session)}"

    def touched(self, namespace: str, principal: str, session: str) -> str:
        """Zset of a session: memory id -> order of its first touch."""
        return f"{self.prefix}:touched:{self.session(namespace, principal, session)}"

    def sessions(self, namespace: str) -> str:
        """Zset of a namespace: session (see `session`) -> when its breadcrumbs expire, in milliseconds."""
        return f"{self.prefix}:sessions:{_part(namespace)}"

    def session(self, namespace: str, principal: str, session: str) -> str:
        """Return the end that the keys of a session share."""
        return f"{_part(namespace)}:{_part(principal)}:{_part(session)}"

    def crumbs_of(self, session: str) -> tuple[str, str]:
        """Return the keys (crumbs, touched) of a session as `sessions` lists it."""
        return f"{self.prefix}:crumbs:{session}", f"{self.prefix}:touched:{session}"
