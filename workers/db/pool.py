"""Pool the connections of one process, within its share of those that all workers may have.

psycopg_pool reconnects with a back-off that grows to minutes, so that a minute's outage is followed by a minute of
refusals. This pool connects when a connection is wanted: it is back as soon as the server is. A session that is no good
any more (see Meaning.UNFIT) is closed instead of being lent again, and none is kept for longer than MAX_AGE_S: another
server may have the address by then.
"""

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import set_json_loads

from engramq.workers.db.conninfo import SESSION, WORKER_SESSION, host_first
from engramq.workers.db.errors import SettingsMissing, is_full, refusal_of_database, refuses_options
from engramq.workers.db.queries import Query
from engramq.workers.db.statements import WatchedConnection
from engramq.workers.db.transaction import ISO_DATES, Connection, Row, execute, loads, pooled_settings_of

log = logging.getLogger(__name__)

WAIT_S: Final = 8.0  # for a free connection; below the time that a caller waits for its reply
AGAIN_S: Final = 0.1  # between tries of a process without any connection to get one from a server that has none left
LOOK_S: Final = 2.0  # how often a pool in use asks for its share
LOOK_BOUND_S: Final = 1.0
ANSWER_S: Final = 1.0  # for the first answer on a new connection
IDLE_KEPT: Final = 1  # of connections, however long nobody needs it: each takes some 5 MB of the server
IDLE_S: Final = 15.0  # how long the others are kept
MAX_AGE_S: Final = 1800.0  # of a connection; up to a tenth less, so that not all are made anew at once
DOUBT_S: Final = 0.5  # between two times that all connections are given up
LONG_S: Final = 2.0  # of a wait for an answer, after which another session is asked whether this one is still served
WATCH_S: Final = 0.5  # between two looks for such waits
ASK_AGAIN_S: Final = 2.0  # between two questions for the same wait
SURE_S: Final = 0.25  # by which an answer that is on its way has come
SPARE: Final = 10  # connections left for migrations, command lines and people, or a quarter where there are few

T = TypeVar("T")

_leaving: Final[set[asyncio.Task[Any]]] = set()  # what nobody waits for any more


class Pooled(NamedTuple):
    """How to connect through a pooler, and what each transaction has to set then."""

    conninfo: str
    settings: Mapping[str, str]


class Crowded(Exception):
    """The workers have all the connections that they may have together, or this one has its share."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on connections (the server's, the database's or the login's) and who has them now."""

    most: int
    others: int  # held by anybody else than workers
    ours: int  # held by all workers, the asking one among them
    workers: int  # processes that hold any


@dataclass(frozen=True, slots=True)
class Share:
    """How many connections each worker process may have; `exceeded`: the workers together have too many now."""

    each: int
    exceeded: bool


def share_connections(limits: Sequence[Limit]) -> Share:
    """Return the share of a process under all of these limits; each may have one connection whatever they say."""
    budgets = [(limit, max(0, limit.most - limit.others - min(SPARE, limit.most // 4))) for limit in limits]
    return Share(
        each=max(1, min(budget // max(1, limit.workers) for limit, budget in budgets)),
        exceeded=any(limit.ours > budget for limit, budget in budgets),
    )


class PoolFigures(NamedTuple):
    """How a pool is: its connections, those of them that nobody uses, most that it may have, who waits for one."""

    open: int
    idle: int
    most: int
    waiting: int


class Pool:
    """At most `size` connections, and no more than this process's share; made on demand, the last used taken first.

    `pooled`: how to connect through a pooler, for which each connection looks; None where there cannot be one.
    """

    def __init__(self, conninfo: str, size: int, *, pooled: Pooled | None = None) -> None:
        self._conninfo = conninfo
        self._pooled = pooled
        self._through: Pooled | None = None  # once a pooler was met it is counted on
        self._size = size
        self._allowed = size  # this process's share
        self._withheld = 0  # permits of `_permits` that the share takes away
        self._permits = asyncio.Semaphore(size)
        self._open = 0  # connections, idle ones among them
        self._waiting = 0
        self._idle: list[tuple[WatchedConnection, float]] = []  # with the time since when
        self._until: dict[WatchedConnection, float] = {}  # when each is given up; those that are open
        self._doubted_at = -DOUBT_S
        self._growing = asyncio.Lock()  # one by one: the share may be used up sooner than the permits
        self._look_at = 0.0
        self._trimming: asyncio.Task[None] | None = None
        self._lent: set[WatchedConnection] = set()
        self._watching: asyncio.Task[None] | None = None
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[WatchedConnection]:
        """Lend a connection outside any transaction; one that comes back otherwise is closed.

        Raises psycopg.Error or OSError when there is none to be had, EngramqError when all are busy for too long.
        """
        connection = await self._borrow()
        self._lent.add(connection)
        if self._watching is None and self._through is None:
            self._watching = asyncio.create_task(self._watch())
        try:
            yield connection
        finally:
            self._lent.discard(connection)
            await self._take_back(connection)

    @property
    def figures(self) -> PoolFigures:
        """How it is now."""
        return PoolFigures(self._open, len(self._idle), self._allowed, self._waiting)

    async def drop_idle(self) -> None:
        """Close the connections that nobody uses: when one was found dead the others probably are."""
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            await self._close(connection)

    async def doubt(self, began: float) -> bool:
        """Give up every connection, those on loan when they come back: work that began then found one to be no good.

        Return whether another try will have a newer one. It will not within DOUBT_S of the last doubt: then the server
        itself refuses, and its connections are good for reads.
        """
        now = time.monotonic()
        if now < self._doubted_at + DOUBT_S:
            return began < self._doubted_at
        self._doubted_at = now
        self._until = dict.fromkeys(self._until, 0.0)
        await self.drop_idle()
        return True

    async def aclose(self) -> None:
        """Close every connection; those on loan when they come back."""
        self._closed = True
        for task in (self._trimming, self._watching):
            if task is not None:
                task.cancel()
        await self.drop_idle()

    async def _borrow(self) -> WatchedConnection:
        """Return a connection with its permit; waits for one where the server or the share allows no more."""
        refusal: Exception | None = None
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    await self._permits.acquire()
                    held = True
                    try:
                        connection = await self._last_idle() or await self._new()
                        held = False
                        return connection
                    except (Crowded, psycopg.OperationalError) as problem:
                        refusal = problem if isinstance(problem, psycopg.Error) else refusal
                        if self._open:
                            # Each of them has a permit besides this one: wait until one comes back.
                            self._withheld += 1
                            held = False
                            continue
                        if refusal is problem and not is_full(problem):
                            raise
                    finally:
                        if held:
                            self._permits.release()
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise refusal_of_database(refusal) from None
        finally:
            self._waiting -= 1

    async def _new(self) -> WatchedConnection:
        """Return a new connection, or one that came back meanwhile; raises Crowded where the share is used up."""
        async with self._growing:
            if (idle := await self._last_idle()) is not None:
                return idle
            if self._open >= self._allowed:
                raise Crowded
            connection = await self._connect()
            self._open += 1
            self._until[connection] = time.monotonic() + MAX_AGE_S * random.uniform(0.9, 1.0)  # noqa: S311 - jitter
            try:
                exceeded = self._open > 1 and await self._look(connection)
                # The first connection is every process's due, and it is the first if looking has closed the others.
                if self._open > 1 and (exceeded or self._open > self._allowed):
                    raise Crowded
            except BaseException as problem:
                await self._close(connection)
                if isinstance(problem, TimeoutError):  # of the look
                    raise Crowded from None
                raise
            return connection

    async def _last_idle(self) -> WatchedConnection | None:
        """Take the connection that was used last, and close those before it that are too old."""
        while self._idle:
            connection, _ = self._idle.pop()
            if time.monotonic() < self._until[connection]:
                return connection
            await self._close(connection)
        return None

    async def _connect(self) -> WatchedConnection:
        if self._through is None:
            try:
                connection = await self._direct()
            except psycopg.OperationalError as problem:
                if self._pooled is None or not refuses_options(problem):
                    raise
            else:
                if await self._is_ours(connection):
                    return connection
                await connection.close()
            self._through = self._pooled
            log.info("A pooler is before the database")
            self._until = dict.fromkeys(self._until, 0.0)
        assert self._through is not None
        connection = await _open_connection(self._through.conninfo)
        # A pooler lets everybody in, also when it has no server's session left to lend.
        await _answer(connection, ISO_DATES, {})
        pooled_settings_of[connection] = self._through.settings
        return connection

    async def _direct(self) -> WatchedConnection:
        connection = await _open_connection(self._conninfo)
        self._conninfo = host_first(self._conninfo, connection.info.host, connection.info.port)
        return connection

    async def _is_ours(self, connection: Connection) -> bool:
        """Say whether the session is served by the process that said so when it began: a pooler gives a number of its
        own. Raises SettingsMissing where it is, but not set as it must be.
        """
        (row,) = await _answer(connection, "whose_session", {"names": list(SESSION)})
        if self._pooled is not None and row["pid"] != connection.info.backend_pid:
            return False
        if wrong := [name for name, value in SESSION.items() if row["settings"][name] != value]:
            await connection.close()
            raise SettingsMissing(wrong)
        return True

    async def _take_back(self, connection: WatchedConnection) -> None:
        whole = False
        try:
            whole = (
                not (connection.closed or self._closed)
                and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
                and connection.info.pipeline_status == psycopg.pq.PipelineStatus.OFF
                and time.monotonic() < self._until[connection]
            )
            if whole and time.monotonic() >= self._look_at and (self._open > 1 or self._withheld):
                await self._look(connection)
        except (psycopg.Error, OSError, TimeoutError):
            whole = False  # the next caller connects anew
        except BaseException:
            whole = False
            raise
        finally:
            surplus = self._size - self._withheld > self._allowed
            if surplus:
                self._withheld += 1
            else:
                self._permits.release()
            if whole and not surplus:
                self._idle.append((connection, time.monotonic()))
                if len(self._idle) > IDLE_KEPT and self._trimming is None:
                    self._trimming = asyncio.create_task(self._trim())
            else:
                await self._close(connection)

    async def _look(self, connection: Connection) -> bool:
        """Ask for this process's share and keep to it; return whether the workers together have too many.

        A pooler shares the server's connections itself.
        """
        self._look_at = time.monotonic() + LOOK_S
        if self._through is not None:
            return False
        async with asyncio.timeout(LOOK_BOUND_S):
            found = await execute(connection, "connection_limits", {"ours": f"{WORKER_SESSION} %"})
            rows = await found.fetchall()
        mine = share_connections([Limit(**row) for row in rows])
        self._allowed = min(self._size, mine.each)
        while self._withheld > self._size - self._allowed:
            self._withheld -= 1
            self._permits.release()
        while self._idle and self._open > self._allowed:
            await self._close(self._idle.pop(0)[0])
        return mine.exceeded

    async def _close(self, connection: WatchedConnection) -> None:
        self._open -= 1
        self._until.pop(connection, None)
        await connection.close()

    async def _watch(self) -> None:
        """Watch for long waits while a connection is lent; behind a pooler, sessions are its own affair."""
        try:
            while self._lent and self._through is None:
                await asyncio.sleep(WATCH_S)
                latest = time.monotonic() - LONG_S
                waits = ((connection, connection.waits_since) for connection in self._lent)
                if overdue := {
                    connection: since for connection, since in waits if since is not None and since <= latest
                }:
                    await self._cut_unserved(overdue)
                    await asyncio.sleep(ASK_AGAIN_S - WATCH_S)
        finally:
            self._watching = None

    async def _cut_unserved(self, overdue: Mapping[WatchedConnection, float]) -> None:
        """Cut sessions that nothing will come from; `overdue`: since when each is waited for by a retry.

        Either the server that has the address now does not know such a session, or it waits for us as we wait for it:
        the line between has lost something. A server that hangs, or that a failover left behind, and a line that passes
        nothing keep connections open: neither libpq nor TCP notices. A server that answers nobody is waited for.
        """
        try:
            async with await self._direct() as asking:
                before = await _sessions(asking)
                await asyncio.sleep(SURE_S)
                now = await _sessions(asking)
            still = [each for each, since in overdue.items() if each in self._lent and each.waits_since == since]
            pids = {each: each.info.backend_pid for each in still}
            elsewhere = [each for each, pid in pids.items() if pid not in now]
            dead = [each for each, pid in pids.items() if before.get(pid) and now.get(pid)]
            if elsewhere:
                extra = {"sessions": len(elsewhere)}
                log.warning("Sessions are cut: the database is at another server now", extra=extra)
            if dead:
                log.warning("Sessions are cut: their lines pass nothing", extra={"sessions": len(dead)})
            if elsewhere or dead:
                await self.doubt(time.monotonic())
            for connection in (*elsewhere, *dead):
                _cut(connection)
        except (psycopg.Error, OSError) as problem:
            log.info("Nobody says whether the database is at another server", extra={"error": type(problem).__name__})

    async def _trim(self) -> None:
        """Close what has been idle for long, the longest first, until no more than IDLE_KEPT are left."""
        try:
            while len(self._idle) > IDLE_KEPT:
                left_s = self._idle[0][1] + IDLE_S - time.monotonic()
                if left_s > 0:
                    await asyncio.sleep(left_s)
                else:
                    await self._close(self._idle.pop(0)[0])
        finally:
            self._trimming = None


async def wait_at_most(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns; raises TimeoutError when that takes longer, and lets it end by itself.

    The driver answers a cancellation by asking the server to cancel, and waits some ten seconds for one that is silent.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            _leaving.add(task)
            task.add_done_callback(_forget_leaving)
            task.cancel()
    if not task.done():
        raise TimeoutError
    return task.result()


def _forget_leaving(task: asyncio.Task[Any]) -> None:
    _leaving.discard(task)
    if not task.cancelled():
        task.exception()  # of a server that nobody waits for


def _cut(connection: Connection) -> None:
    """End a connection; a caller that waits for its answer learns that it is lost."""
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


async def _open_connection(conninfo: str) -> WatchedConnection:
    connection = await WatchedConnection.connect(conninfo, autocommit=True, row_factory=dict_row)
    connection.cursor_factory = psycopg.AsyncRawCursor
    connection.prepare_threshold = None  # see statements.py
    set_json_loads(loads, connection)
    return connection


async def _rows(connection: Connection, query: Query, values: Mapping[str, Any]) -> list[Row]:
    return await (await execute(connection, query, values, prepare=False)).fetchall()


async def _sessions(asking: Connection) -> dict[int, bool]:
    """Return the sessions of this process at the server, by number, and whether each waits for us."""
    return {row["pid"]: row["waits_for_us"] for row in await _rows(asking, "own_sessions", {})}


async def _answer(connection: Connection, query: Query, values: Mapping[str, Any]) -> list[Row]:
    """Return the first answer of a new connection, which is closed when there is none; raises psycopg.Error."""
    try:
        return await wait_at_most(ANSWER_S, _rows(connection, query, values))
    except TimeoutError:
        await connection.close()
        raise psycopg.errors.TooManyConnections("no session of the server is left") from None
    except BaseException:
        await connection.close()
        raise
