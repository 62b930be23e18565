"""Open the store and run work in its transactions, again when a conflict or a restart breaks one."""

import asyncio
import copy
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import wraps
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Self, TypeVar

import psycopg
from psycopg.types.numeric import Int4

from engramq.schemas.checks import DATABASE_AWAY
from engramq.schemas.faults import EngramqError
from engramq.schemas.vocabulary import DEFAULT_LANGUAGE
from engramq.workers.db.conninfo import SESSION, pooled_conninfo, pooled_settings, worker_conninfo
from engramq.workers.db.errors import (
    READ_ONLY,
    Again,
    Meaning,
    Refusals,
    SettingsMissing,
    describe_refusal,
    meaning_of_error,
    refusal_of_database,
)
from engramq.workers.db.lookups import answer_lookups
from engramq.workers.db.pool import Pool, Pooled, PoolFigures, wait_at_most
from engramq.workers.db.queries import Query
from engramq.workers.db.readiness import NotReady, check_schema
from engramq.workers.db.statements import WatchedConnection
from engramq.workers.db.transaction import (
    AT_LENGTH,
    NOBODY,
    CommitUnknown,
    Lookup,
    LookupResult,
    Row,
    Transaction,
    ask,
    execute,
    settings_to_take,
    transaction,
)
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.queue.contract import ResultUnknown

log = logging.getLogger(__name__)


STRANGER: Final = "EQ001"  # the SQLSTATE of `enter_tenant`
TENANTS_KEPT: Final = 100_000  # namespaces whose number is remembered; about 150 bytes each

POOL_SIZE: Final = 16
PATIENCE_S: Final = 2.0  # for a server that restarts
CONFLICTS_MAX: Final = 10
UNFIT_MAX: Final = 2  # tries more, on newer sessions
ENDING_S: Final = 2.0  # for the COMMIT of reads that were answered, when the store is closed
LOOK_S: Final = 1.5  # in which a database answers that serves
_PAUSES_S: Final = (0.02, 0.05, 0.1, 0.2, 0.4)

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[Transaction], Awaitable[T]]


class DatabaseHealth(NamedTuple):
    """The database's last refusal, as a sentence ("" for none), and whether it serves reads."""

    refused: str = ""
    reads: bool = True


def _persistent(
    run: Callable[Concatenate["Store", P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Store", P], Coroutine[Any, Any, T]]:
    """Have a method of Store run again when a conflict breaks it, and for PATIENCE_S while the server is away."""

    @wraps(run)
    async def persist(store: "Store", /, *args: P.args, **kwargs: P.kwargs) -> T:
        patient_until = math.inf
        conflicts, failures, unfit, uncertain = 0, 0, 0, False
        while True:
            began = time.monotonic()
            try:
                return await run(store, *args, **kwargs)
            except CommitUnknown:
                uncertain, problem, found = True, None, Meaning.GONE
            except (psycopg.Error, OSError, Again) as error:
                problem, found = error, meaning_of_error(error)
            if found is Meaning.DEFECT and problem is not None:
                raise problem
            store._forget_strangers(problem)
            if found is Meaning.CONFLICT and conflicts < CONFLICTS_MAX:
                conflicts += 1
                await _give_way(store, problem, conflicts)
                continue
            if found is Meaning.UNFIT and unfit < UNFIT_MAX and await store._pool.doubt(began):
                unfit += 1
                continue
            if found is Meaning.GONE:  # patience begins with the first failure, which comes late where a server hangs
                patient_until = min(patient_until, time.monotonic() + PATIENCE_S)
            if found is Meaning.GONE and time.monotonic() < patient_until:
                await store._pool.drop_idle()
                await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
                failures += 1
                continue
            if uncertain:
                raise ResultUnknown("the connection was lost during COMMIT") from problem
            store._refusals.note(describe_refusal(problem))
            raise refusal_of_database(problem) from problem

    return persist


async def _give_way(store: "Store", problem: Exception | None, conflicts: int) -> None:
    """Do what another try needs after a conflict, or wait a moment; `conflicts`: how many there were until now."""
    if isinstance(problem, Again) and problem.first is not None:
        await problem.first()
    elif isinstance(problem, psycopg.errors.InvalidSqlStatementName):
        await store._pool.drop_idle()  # somebody has reset sessions, maybe more of them than there are tries
    else:
        await asyncio.sleep(random.uniform(0, 0.004 * 2 ** min(conflicts, 6)))  # noqa: S311 - jitter


class Store:
    """Opened by `Store.open`; closed by `aclose` or at the end of `async with`.

    Its transactions see nothing that is private; those of `seen_by` what a viewer sees.
    """

    def __init__(self, pool: Pool, language: str = DEFAULT_LANGUAGE) -> None:
        self._pool = pool
        self._language = language  # of namespaces that are new
        self.viewer = PUBLIC
        # The number of a namespace, with which every key of its rows begins. It never changes and is never given again,
        # so what is remembered holds for as long as the database is the same: each transaction proves it as it enters.
        self._tenants: dict[str, Int4] = {}
        self.sharded = False  # whether its tables are spread over a cluster of Citus
        self._refusals = Refusals()
        self._ending: set[asyncio.Task[None]] = set()  # reads that have been answered

    @classmethod
    async def open(
        cls, database_url: str, *, pool_size: int = POOL_SIZE, language: str = DEFAULT_LANGUAGE, primary: bool = False
    ) -> Self:
        """Connect, and prove that schema, role and settings are what the workers count on.

        `language`: of namespaces that are new. `primary`: no standby will do.
        Raises NotReady saying what is wrong and how to mend it; psycopg errors never leave here.
        """
        pooled = Pooled(pooled_conninfo(database_url), pooled_settings(database_url))
        pool = Pool(worker_conninfo(database_url), pool_size, pooled=pooled)
        store = cls(pool, language)
        try:
            async with store._pool.connection() as connection:
                await check_schema(connection)
                # Not in one exchange: a pooler that lends sessions for a statement would not notice the transaction.
                async with connection.transaction():
                    await _take_settings(connection)
                    found = await (await execute(connection, "session_check", {"names": list(SESSION)})).fetchone()
                    known = await (await execute(connection, "language_known", {"language": language})).fetchone()
            _check_session(found or {})
            store.sharded = bool(found and found["sharded"])
            if primary and found and found["is_standby"]:
                raise NotReady.standby()
            _check_language(language, known or {})
        except (psycopg.Error, OSError) as error:
            await store.aclose()
            raise _not_ready(error) from error
        except NotReady:
            await store.aclose()
            raise
        return store

    def seen_by(self, viewer: Viewer) -> Self:
        """Return this store as somebody sees it: it is closed with this one."""
        seen = copy.copy(self)
        seen.viewer = viewer
        return seen

    async def aclose(self) -> None:
        """Close the connections, when the reads that were answered have ended."""
        if self._ending:
            _, late = await asyncio.wait(self._ending, timeout=ENDING_S)
            for task in late:
                task.cancel()
        await self._pool.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @_persistent
    async def read(self, namespace: str, work: Work[T], *, by_keys: bool = False) -> T:
        """Run `work` in a read-only transaction, again when a restart or a conflict breaks it.

        It returns before the transaction has ended. `by_keys`: all queries go by keys, so that a session plans them
        once. Raises EngramqError with `unavailable`.
        """
        async with AsyncExitStack() as lent:
            connection = await lent.enter_async_context(self._pool.connection())
            entered = await self._enter(connection, namespace, read_only=True, by_keys=by_keys)
            result = await work(await lent.enter_async_context(entered))
            # Nothing hangs on how a read ends, so nobody waits for it.
            ending = asyncio.create_task(_end(lent.pop_all()))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            return result

    @_persistent
    async def look_up(self, namespace: str, lookups: Sequence[Lookup]) -> list[LookupResult]:
        """Return the answers of lookups from a read-only transaction of their own, asked again as `read` does.

        Raises EngramqError with `unavailable`.
        """
        async with self._pool.connection() as connection:
            if self.sharded:
                async with await self._enter(connection, namespace, read_only=True) as opened:
                    return await opened.look_up(lookups)
            tenant = self._tenants.get(namespace) or await self._tenant_of(connection, namespace, make=False)
            known = {"namespace": namespace, **self.viewer._asdict()}
            return await answer_lookups(connection, tenant, known, lookups)

    @_persistent
    async def write(self, namespace: str, work: Work[T], *, by_keys: bool = False) -> T:
        """Run `work` in a transaction, again when a restart or a conflict breaks it; it has to bear repetition.

        `by_keys`: as of a read. Commands that must take effect once go through the ledger. Raises EngramqError with
        `unavailable` when nothing was applied, ResultUnknown when that cannot be said, LeaseLost when the transaction
        has a lease and lost it.
        """
        opened: Transaction | None = None
        kept = True
        try:
            async with (
                self._pool.connection() as connection,
                await self._enter(connection, namespace, read_only=False, by_keys=by_keys) as opened,
            ):
                result = await work(opened)
            self._refusals.latest = ""
            return result
        except CommitUnknown:
            raise
        except Exception:
            kept = False
            raise
        finally:
            for tell in () if opened is None else opened.at_end:
                tell(kept)

    async def snapshot(self, namespace: str, work: Work[T]) -> T:
        """Run `work` once in a read-only transaction that sees one moment, however long it takes.

        Raises EngramqError with `unavailable`.
        """

        async def run(connection: WatchedConnection) -> T:
            await _take_time(connection)
            entered = await self._enter(connection, namespace, read_only=True, snapshot=True, at_length=True)
            async with entered as opened:
                return await work(opened)

        return await self.alone(run)

    async def write_at_length(self, namespace: str, work: Work[T]) -> T:
        """Run `work` once in a transaction that takes as long as it wants, and holds what it locks for as long.

        Raises EngramqError with `unavailable` when nothing was applied, ResultUnknown when that cannot be said.
        """

        async def run(connection: WatchedConnection) -> T:
            await _take_time(connection)
            async with await self._enter(connection, namespace, read_only=False, at_length=True) as opened:
                return await work(opened)

        try:
            return await self.alone(run)
        except CommitUnknown as problem:
            raise ResultUnknown("the connection was lost during COMMIT") from problem

    async def namespaces(self) -> list[str]:
        """Return every namespace that holds anything; upkeep works them one at a time."""
        return [row["namespace"] for row in await self.ask("all_namespaces")]

    async def register_embedding_model(self, name: str, sha256: str, dimensions: int) -> int:
        """Return the id of an embedding model, making its row and its vector index when it is new."""
        (row,) = await self.ask("register_model", name=name, sha256=sha256, dimensions=dimensions)
        return int(row["id"])

    async def use_embedding_model(self, name: str, sha256: str, dimensions: int, *, began_s_ago: float) -> int:
        """Do the same before vectors are written, by a process that began to use the model so many seconds ago."""
        (row,) = await self.ask("use_model", name=name, sha256=sha256, dimensions=dimensions, began_s_ago=began_s_ago)
        return int(row["id"])

    async def embedding_models(self, name: str) -> list[str]:
        """Return the digests of the models of this name that the store has had, in the order of their registration."""
        return [str(row["sha256"]) for row in await self.ask("models_named", name=name)]

    @_persistent
    async def ask(self, query: Query, /, **values: Any) -> list[Row]:
        """Return the rows of a query that belongs to no namespace."""
        async with self._pool.connection() as connection:
            return await ask(connection, query, values)

    @property
    def connections(self) -> PoolFigures:
        """How the connections are."""
        return self._pool.figures

    async def health(self) -> DatabaseHealth:
        """Return what the database refuses, within LOOK_S. A full disk shows only when somebody has tried to write."""
        try:
            read_only = await wait_at_most(LOOK_S, self._is_read_only())
        except TimeoutError:
            return DatabaseHealth(DATABASE_AWAY, reads=False)
        except EngramqError as refusal:
            return DatabaseHealth(refusal.fault.error, reads=False)
        if read_only:
            return DatabaseHealth(READ_ONLY)
        return DatabaseHealth(self._refusals.current)

    async def apart(
        self, namespace: str, work: Awaitable[T], otherwise: T, *, unless: type[Exception] | tuple[()] = ()
    ) -> T:
        """Return what upkeep of a namespace gives; where it fails for this one alone, log it and return `otherwise`.

        Raises what the work raises (EngramqError, ResultUnknown) where the database is away or takes no writes, and
        an `unless`: what fails for every namespace.
        """
        try:
            return await work
        except unless:
            raise
        except Exception as problem:  # a row that Python cannot read is this namespace's trouble alone
            if isinstance(problem, (EngramqError, ResultUnknown)):
                health = await self.health()
                if not health.reads or health.refused == READ_ONLY:
                    raise
            code = problem.fault.code if isinstance(problem, EngramqError) else type(problem).__name__
            log.error("Upkeep of a namespace failed", extra={"namespace": namespace, "code": code})
            return otherwise

    async def alone(self, work: Callable[[WatchedConnection], Awaitable[T]]) -> T:
        """Run `work` once on a connection that is closed afterwards, outside any transaction.

        Raises EngramqError with `unavailable`.
        """
        try:
            async with self._pool.connection() as connection:
                try:
                    return await work(connection)
                finally:
                    await connection.close()
        except (psycopg.Error, OSError) as error:
            self._forget_strangers(error)
            if meaning_of_error(error) is Meaning.DEFECT:
                raise
            raise refusal_of_database(error) from error

    async def _enter(
        self,
        connection: WatchedConnection,
        namespace: str,
        *,
        read_only: bool,
        snapshot: bool = False,
        at_length: bool = False,
        by_keys: bool = False,
    ) -> AbstractAsyncContextManager[Transaction]:
        """Return a transaction in a namespace; one to write in makes the namespace where there is none."""
        tenant = self._tenants.get(namespace) or await self._tenant_of(connection, namespace, make=not read_only)
        return transaction(
            connection, namespace, tenant,
            read_only=read_only, snapshot=snapshot, at_length=at_length, by_keys=by_keys, sharded=self.sharded,
            viewer=self.viewer,
        )  # fmt: skip

    async def _tenant_of(self, connection: WatchedConnection, namespace: str, *, make: bool) -> Int4:
        """Ask for the number of a namespace, outside any transaction; NOBODY where there is none and none is made."""
        values = {"namespace": namespace} | ({"language": self._language} if make else {})
        rows = await ask(connection, "make_tenant" if make else "find_tenant", values)
        if not rows or rows[0]["tenant"] is None:
            return NOBODY
        if len(self._tenants) >= TENANTS_KEPT:
            del self._tenants[next(iter(self._tenants))]
        tenant = self._tenants[namespace] = Int4(rows[0]["tenant"])
        return tenant

    def _forget_strangers(self, error: Exception | None) -> None:
        """Forget all numbers if one turns out to be not its namespace's: the database was emptied or brought back."""
        if isinstance(error, psycopg.Error) and error.sqlstate == STRANGER:
            self._tenants.clear()

    async def _is_read_only(self) -> bool:
        (row,) = await self.ask("takes_writes")
        if row["read_only"]:  # or was so when this session began: a new one may hear something else
            await self._pool.doubt(time.monotonic())
            (row,) = await self.ask("takes_writes")
        return bool(row["read_only"])


async def _end(read: AsyncExitStack) -> None:
    """End a read whose result is known; a connection that breaks meanwhile is closed by the pool."""
    try:
        await read.aclose()
    except (psycopg.Error, OSError) as problem:
        log.info("A read did not end in order", extra={"error": type(problem).__name__})


def _check_session(found: Row) -> None:
    if found["superuser"] or found["owned"]:
        raise NotReady(
            f"The workers' database role {found['role']} owns tables or is a superuser.",
            "Connect as a role that `engramq migrate` granted engramq_worker to.",
        )
    if found["unguarded"]:
        raise NotReady(
            f"Row-level security does not hold the role {found['role']} on: {found['unguarded']}.",
            "Take BYPASSRLS from the role; if policies are gone, restore the schema from a backup.",
        )
    if found["unprivate"]:
        raise NotReady(
            f"Row-level security does not keep what is private from others on: {found['unprivate']}.",
            "Somebody has changed the policy own_tenant: restore it from schema.sql, or the schema from a backup.",
        )
    if found["sharded"] and not found["settings_reach_nodes"]:
        raise NotReady(
            "The database is spread over a cluster, and what a transaction sets does not reach its nodes.",
            "As the owner, on the coordinator: ALTER DATABASE … SET citus.propagate_set_commands TO 'local'.",
        )
    wrong = [name for name, value in SESSION.items() if found["settings"][name] != value]
    if wrong:
        raise _without(wrong)


def _without(names: Sequence[str]) -> NotReady:
    return NotReady(
        f"The database does not take these settings: {', '.join(names)}.",
        "pgvector 0.8 or later is needed. A pooler has to lend sessions for a transaction or longer.",
    )


def _not_ready(error: Exception) -> NotReady:
    """Return what an error at the first connection means."""
    if isinstance(error, SettingsMissing):
        return _without(error.names)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return NotReady(
            f"The database does not let the workers in: {(error.diag.message_primary or str(error)).strip()}.",
            "Connect as a role that `engramq migrate` granted engramq_worker to.",
        )
    return NotReady.unreachable(error)


async def _take_settings(connection: WatchedConnection) -> None:
    settings = settings_to_take(connection)
    if settings is not None:
        await execute(connection, "take_settings", settings, prepare=False)


async def _take_time(connection: WatchedConnection) -> None:
    """Let a session's transactions take as long as they want; behind a pooler each transaction says so itself."""
    if settings_to_take(connection) is None:
        await execute(connection, "take_time", {"timeout": AT_LENGTH["statement_timeout"]})


def _check_language(language: str, found: Row) -> None:
    if not found["is_known"]:
        raise NotReady(
            f"This PostgreSQL has no text search configuration for ENGRAMQ_LANGUAGE={language}.",
            f"Set one of {', '.join(found['known'])}.",
        )
