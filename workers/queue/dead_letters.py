"""Keep commands that were given up, with their raw bytes, until an operator retries or drops them."""

import builtins
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from redis.asyncio import Redis

from engramq.schemas.codec import DecodeError, decode_envelope, decoded, encode_job
from engramq.schemas.connection import Lanes, run
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import Fault
from engramq.schemas.keys import JOB_KEY, Keys
from engramq.schemas.limits import FOLLOW_UP_BOUND
from engramq.schemas.scripts import DROP_LETTERS, REVIVE
from engramq.schemas.vocabulary import WorkerKind


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A command that was given up. `raw` is its envelope as it came, or (`whole_job`) a job that could not be read.

    `error` is the class of the last error and `message` says it without content; times are seconds since the epoch;
    `fault` is the answer that the caller got, if one could be sent.
    """

    id: str
    mailbox: WorkerKind
    raw: bytes
    error: str
    message: str
    attempts: int
    died_at: float
    issued_at: float = 0.0
    whole_job: bool = False
    fault: Fault | None = None

    def envelope(self) -> Envelope | None:
        """Return what `raw` says, or None when this version cannot read it."""
        try:
            return decode_envelope(self.raw)
        except DecodeError:
            return None

    @property
    def namespace(self) -> str | None:
        """The namespace of the command, None where that cannot be read."""
        envelope = self.envelope()
        return None if envelope is None else envelope.namespace


_PER_READ: Final = 100
_decoder: Final = msgspec.msgpack.Decoder(DeadLetter)


def encode_letter(letter: DeadLetter) -> bytes:
    """Return the bytes of a dead letter."""
    return msgspec.msgpack.encode(letter)


def decode_letter(data: bytes) -> DeadLetter:
    """Return the dead letter in `data`; raises DecodeError."""
    return decoded(_decoder, data)


async def drop_letters(redis: Any, keys: Keys, mailbox: WorkerKind, ids: Sequence[str | bytes]) -> int:
    """Remove letters of a mailbox for good, and return how many there were."""
    of = keys.of[mailbox]
    return int(await run(redis, DROP_LETTERS, keys, (of.dead, of.dead_index, of.dead_bytes), *ids))


class DeadLetters:
    """The dead letters of every mailbox, in all lanes. The client belongs to the caller; its errors come through."""

    def __init__(self, redis: Redis, lanes: Lanes) -> None:
        self._redis: Any = redis
        self._lanes = lanes

    async def list(self, mailbox: WorkerKind, limit: int = 100, namespace: str | None = None) -> list[DeadLetter]:
        """Return the newest letters of a mailbox, of one namespace if it is named, the newest first.

        The author of an unreadable command is not known: such letters are of no namespace.
        """
        found = [
            letter for keys in self._lanes.all for letter in await self._find_lane(keys, mailbox, limit, namespace)
        ]
        return sorted(found, key=lambda letter: -letter.died_at)[:limit]

    async def _find_lane(
        self, keys: Keys, mailbox: WorkerKind, limit: int, namespace: str | None
    ) -> builtins.list[DeadLetter]:
        found: builtins.list[DeadLetter] = []
        start = 0
        while len(found) < limit:
            ids = await self._redis.zrevrange(keys.of[mailbox].dead_index, start, start + _PER_READ - 1)
            if not ids:
                break
            start += len(ids)
            letters = await self._redis.hmget(keys.of[mailbox].dead, ids)
            known = (decode_letter(data) for data in letters if data is not None)
            found += [letter for letter in known if namespace is None or letter.namespace == namespace]
        return found[:limit]

    async def show(self, letter_id: str) -> DeadLetter | None:
        """Return the letter with this id, in whatever mailbox it is."""
        found = await self._find(letter_id)
        return None if found is None else found[1]

    async def _find(self, letter_id: str) -> tuple[Keys, DeadLetter] | None:
        """Return a letter, and the lane that it is in."""
        for keys in self._lanes.all:
            async with self._redis.pipeline(transaction=False) as batch:
                for mailbox in WorkerKind:
                    batch.hget(keys.of[mailbox].dead, letter_id)
                for data in await batch.execute():
                    if data is not None:
                        return keys, decode_letter(data)
        return None

    async def retry(self, letter_id: str) -> bool:
        """Put a letter back into its mailbox; False when it is gone or the mailbox is full.

        Its job has the id under which get_command looks for the command: a whole job its own, a command its own too,
        once this version can read it.
        """
        found = await self._find(letter_id)
        if found is None:
            return False
        keys, letter = found
        envelope = letter.envelope()
        if letter.whole_job:
            job = letter.id
        elif envelope is None:
            job = keys.job_id(letter.id, 1)
        else:
            job = keys.job_id(envelope.id, 1, letter.mailbox, envelope.namespace)
        of = keys.of[letter.mailbox]
        revived = await run(
            self._redis,
            REVIVE,
            keys,
            (of.dead, of.dead_index, of.mailbox, of.wakeups, of.depth, JOB_KEY + job, of.dead_bytes),
            letter.id,
            job,
            letter.raw if letter.whole_job else encode_job([letter.raw], int(letter.died_at * 1000)),
            FOLLOW_UP_BOUND // keys.lanes,
        )
        return bool(revived)

    async def drop(self, letter_id: str) -> bool:
        """Remove a letter for good; False when there is none."""
        dropped = [
            await drop_letters(self._redis, keys, mailbox, [letter_id])
            for keys in self._lanes.all
            for mailbox in WorkerKind
        ]
        return any(dropped)
