"""Reads from standbys of the database, where one has replayed what the namespace has been told is written.

Where a command that writes has been carried out, its answer and the position of the log that its effect lies before go
to Redis in one step. A read asks for that position, and a standby answers only if it has replayed it: this is asked in
the transaction of the read itself, so a standby that lags, was promoted or follows another history fails the read, and
the primary answers. What is looked at every second only spares tries that would fail.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import psycopg

from engramq.schemas.faults import EngramqError
from engramq.schemas.settings import Pooler
from engramq.workers.db.bounded import within
from engramq.workers.db.conninfo import pooled_conninfo, pooled_settings, shown, worker_conninfo
from engramq.workers.db.database import Store, Work
from engramq.workers.db.errors import unavailable
from engramq.workers.db.lookups import Answer, Lookup
from engramq.workers.db.pool import Pool, Pooled, Row
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Behind, Reached
from engramq.workers.queue.contract import OutcomeUnknown

log = logging.getLogger(__name__)

PRIMARY_STATE: Final = sql("primary_state")
STANDBY_STATE: Final = sql("standby_state")

LOOK_EVERY_S: Final = 1.0
LOOK_S: Final = 1.0  # in which a server answers a look
KNOWN_S: Final = 4.0  # how long what was seen counts
TRY_S: Final = 1.0  # in which a standby answers a read; then the primary is asked
SLOW_READS: Final = 2  # in a row that took it longer: it is then left alone, although it answers looks,
SLOW_S: Final = 5.0  # for so long
BEHIND_S: Final = 0.1  # how long one that has not got far enough yet is not asked for as much again
POOL_SIZE: Final = 16
TOO_SLOW: Final = f"reads took it more than {TRY_S:.0f} s"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A place in the log of a history; later ones are greater."""

    timeline: int
    lsn: int

    @classmethod
    def read(cls, text: str) -> "Position":
        """Return the position that `text` says; raises ValueError."""
        return cls(int(text[:8], 16), int(text[8:], 16))

    @property
    def text(self) -> str:
        """Of 24 digits, so that later ones are greater as texts too."""
        return f"{self.timeline:08x}{self.lsn:016x}"


@dataclass(frozen=True, slots=True)
class StandbyState:
    """How a standby was at the last look. `why`: why it is not read, nothing where it is. Its lag: None is unknown."""

    name: str
    why: str
    lag_bytes: int | None = None
    lag_s: float | None = None


class Reads(Protocol):
    """Where the reads of one command go: the store, or a standby as long as it will do."""

    async def read(self, namespace: str, work: Work[T]) -> T:
        """Run `work` in a read-only transaction; see Store."""

    async def look_up(self, namespace: str, lookups: Sequence[Lookup]) -> list[Answer]:
        """Return the answers of lookups; see Store."""


@dataclass(slots=True, eq=False)
class _Standby:
    """A standby as this process has met it."""

    name: str
    store: Store
    state: StandbyState
    replayed: int = 0
    is_current: bool = False  # it had replayed at the last look what the primary had written at the one before
    usable_until: float = 0.0
    slow_reads: int = 0  # since one was answered
    slow_until: float = 0.0
    behind: tuple[int, float] = field(default=(0, 0.0))  # what it had not replayed, and up to when that counts

    def may_have(self, lsn: int) -> bool:
        """Say whether it is worth asking for so much."""
        now = time.monotonic()
        if now >= self.usable_until:
            return False
        if self.replayed >= lsn:
            return True
        missed, until = self.behind
        return self.is_current and not (lsn >= missed and now < until)

    def was_slow(self) -> None:
        """Note that a read took too long; one may be heavy, after several it is left alone a while."""
        self.slow_reads += 1
        if self.slow_reads < SLOW_READS:
            return
        self.slow_reads = 0
        self.slow_until = time.monotonic() + SLOW_S
        self.give_up(TOO_SLOW, lag=(self.state.lag_bytes, self.state.lag_s))

    def give_up(self, why: str, *, lag: tuple[int | None, float | None] = (None, None)) -> None:
        """Read it no more until a look finds it good."""
        if why != self.state.why:
            log.warning("A standby is not read", extra={"standby": self.name, "reason": why})
        self.usable_until = 0.0
        self.state = StandbyState(self.name, why, *lag)


class Standbys:
    """One per process; use as `async with`. Without URLs it does nothing."""

    def __init__(
        self,
        store: Store,
        urls: Sequence[str],
        pooler: Pooler = Pooler.AUTO,
        observe: Callable[[bool], None] | None = None,
    ) -> None:
        """`observe` is told of each read that a standby was asked for, whether it answered."""
        self._primary = store
        self._standbys = [_standby(url, pooler) for url in urls]
        self._cluster = self._timeline = self._written = 0
        self._least: int | None = None  # where the log ended when the primary was first seen
        self._turn = 0
        self._watching: asyncio.Task[None] | None = None
        self._observe = observe
        self.answered = self.fell_back = 0  # reads by standbys, and those that the primary answered after a try

    async def __aenter__(self) -> "Standbys":
        if self._standbys:
            await self._look()
            self._watching = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        for one in self._standbys:
            await one.store.aclose()

    def __bool__(self) -> bool:
        return bool(self._standbys)

    @property
    def states(self) -> list[StandbyState]:
        """How each standby was at the last look."""
        return [one.state for one in self._standbys]

    async def position(self) -> Position:
        """Return where the primary's log ends now: behind all that has been committed.

        Raises EngramqError, also where it is a primary no more.
        """
        try:
            (row,) = await self._primary.ask(PRIMARY_STATE)
        except psycopg.Error as error:
            raise unavailable(error) from error
        return Position(row["timeline"], int(row["written"]))

    def after(self, position: Position) -> Reads:
        """Return where reads go that have to see what lies before a position.

        They see what was written before this process began, too: by workers that read no standbys and told no position.
        """
        wanted = Reached(self._cluster, max(position.timeline, self._timeline), max(position.lsn, self._least or 0))
        good = [one for one in self._standbys if one.may_have(wanted.lsn)]
        if not good:
            return self._primary
        self._turn += 1
        return _StandbyReads(self, good[self._turn % len(good)], wanted)

    def note(self, *, answered: bool) -> None:
        """Count a read that a standby was asked for."""
        self.answered += answered
        self.fell_back += not answered
        if self._observe is not None:
            self._observe(answered)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look()

    async def _look(self) -> None:
        looks = (_asked(self._primary, PRIMARY_STATE), *(_asked(one.store, STANDBY_STATE) for one in self._standbys))
        primary, *found = await asyncio.gather(*looks)
        before = self._written
        if isinstance(primary, dict):
            self._cluster, self._timeline = primary["cluster"], primary["timeline"]
            self._written = int(primary["written"])
            self._least = self._written if self._least is None else self._least
        for one, state in zip(self._standbys, found, strict=True):
            if isinstance(state, str):
                one.give_up(state)
            elif not self._cluster:
                one.give_up("the primary has not been seen yet")
            else:
                self._judge(one, state, before)

    def _judge(self, one: _Standby, state: Row, before: int) -> None:
        """Say whether a standby that has answered is read, by what it has said."""
        replayed = int(state["replayed"] or 0)
        behind = max(0, self._written - replayed)
        lag = (behind, state["lag_s"] if behind else 0.0)
        if not state["in_recovery"]:
            one.give_up("it is no standby, or no more: it takes writes")
        elif state["cluster"] != self._cluster:
            one.give_up("it is of another cluster")
        elif state["timeline"] != self._timeline:
            one.give_up("it follows another history than the primary, or has not caught up with a failover", lag=lag)
        elif time.monotonic() < one.slow_until:
            one.give_up(TOO_SLOW, lag=lag)
        else:
            if one.state.why:
                log.info("A standby is read", extra={"standby": one.name})
            one.replayed, one.is_current = replayed, replayed >= before
            one.usable_until = time.monotonic() + KNOWN_S
            one.state = StandbyState(one.name, "", *lag)


class _StandbyReads:
    """Reads of one command by one standby, until it fails: the primary answers that read and those that follow."""

    def __init__(self, standbys: Standbys, standby: _Standby, wanted: Reached) -> None:
        self._standbys, self._standby, self._wanted = standbys, standby, wanted
        self._failed = False

    async def read(self, namespace: str, work: Work[T]) -> T:
        """Run `work` at the standby, or at the primary; see Store."""
        return await self._first(
            lambda: self._standby.store.read_behind(namespace, work, self._wanted),
            lambda: self._standbys._primary.read(namespace, work),
        )

    async def look_up(self, namespace: str, lookups: Sequence[Lookup]) -> list[Answer]:
        """Return the answers of lookups by the primary, whose sessions have them prepared; see Store."""
        return await self._standbys._primary.look_up(namespace, lookups)

    async def _first(self, here: Callable[[], Coroutine[Any, Any, T]], there: Callable[[], Awaitable[T]]) -> T:
        if not self._failed:
            try:
                answer = await within(TRY_S, here())
            except OutcomeUnknown:
                pass  # it has moved, as the standby has it: the primary says where it is now
            except Behind:
                self._standby.behind = (self._wanted.lsn, time.monotonic() + BEHIND_S)
            except psycopg.errors.SerializationFailure:
                pass  # replaying had to go first
            except TimeoutError:
                self._standby.was_slow()
            except (psycopg.Error, OSError) as problem:
                self._standby.give_up(f"it did not answer ({type(problem).__name__})")
                await self._standby.store.renew()
            else:
                self._standby.slow_reads = 0
                self._standbys.note(answered=True)
                return answer
            self._failed = True
            self._standbys.note(answered=False)
        return await there()


def _standby(url: str, pooler: Pooler) -> _Standby:
    pooled = Pooled(pooled_conninfo(url), pooled_settings(url))
    name = shown(url)
    return _Standby(
        name,
        Store(Pool(worker_conninfo(url), POOL_SIZE, pooled=pooled, pooler=pooler)),
        StandbyState(name, "it has not been seen yet"),
    )


async def _asked(store: Store, query: bytes) -> dict[str, Any] | str:
    """Return the one row of a query, or why there is none."""
    try:
        (row,) = await within(LOOK_S, store.ask(query))
    except TimeoutError:
        return "it does not answer"
    except EngramqError as problem:
        return problem.fault.error
    except psycopg.Error as problem:
        return f"it cannot be asked ({type(problem).__name__})"
    return row
