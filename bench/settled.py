"""Waiting until what follows stores has been done, by what the rows and the mailboxes say."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from redis import Redis

from bench.common import PrivateStack
from engramq.schemas.keys import Keys
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind

SETTLED_S: Final = 120.0  # that it may take
LOOK_S: Final = 0.1  # between two looks
UNFINISHED: Final = b"""
    select count(*) as unfinished from memories
    where node_id = any(%(ids)s::uuid[]) and (links_made_at is null or sector_source is null)
"""


@dataclass(frozen=True, slots=True)
class Settled:
    """How long it took after the wait began, and how many of the memories are unfinished after all."""

    seconds: float
    unfinished: int


class Watch:
    """Looks at the stored memories and at the mailboxes; `pid` is of the server process that it uses.

    Use as `with Watch(stack) as watch`; that process is no part of what is measured.
    """

    def __init__(self, stack: PrivateStack) -> None:
        self._database: psycopg.Connection[Any] = psycopg.connect(stack.owner_url, autocommit=True)
        self._redis = Redis.from_url(stack.servers.redis_url)
        self._keys = Keys(read_settings({}).key_prefix)
        self.pid = self._database.info.backend_pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()
        self._redis.close()

    def wait(self, ids: Sequence[str]) -> Settled:
        """Return when these memories have their sectors and links, and nothing waits in any mailbox."""
        started = time.perf_counter()
        while (unfinished := self._unfinished(ids)) or self._under_way():
            if time.perf_counter() - started > SETTLED_S:
                break
            time.sleep(LOOK_S)
        return Settled(time.perf_counter() - started, unfinished)

    def _unfinished(self, ids: Sequence[str]) -> int:
        row = self._database.execute(UNFINISHED, {"ids": list(ids)}).fetchone()
        assert row is not None
        return int(row[0])

    def _under_way(self) -> int:
        return sum(self._redis.zcard(self._keys.of[kind].mailbox) for kind in WorkerKind)  # type: ignore[misc]  # no coroutine
