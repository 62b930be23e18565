"""Which database a namespace is in, and who carries its commands out there.

Nearly all are in the first one, and nothing is asked for those: a transaction that enters a namespace finds out whether
it is there. One that has left names its place, which is remembered, and the command is carried out there.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from engramq.schemas.commands import Authenticate, Identity
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import PRIMARY_DATABASE, WorkerKind
from engramq.workers.db.errors import HOPS_MAX, Held, Moved
from engramq.workers.db.readiness import NotReady
from engramq.workers.queue.contract import Job, Outcome, Periodic, SessionUse

log = logging.getLogger(__name__)

KEPT: Final = 100_000  # namespaces that are elsewhere; about 200 bytes each
HELD_S: Final = 3.0  # that a command waits for a namespace that is being moved, before it goes back into the queue
HELD_MAX: Final = 8  # commands that wait so in one process: the others' room is for other namespaces
PAUSE_S: Final = 0.03
AGAIN_S: Final = 2.0  # between two tries to open a database that is away

Run = Callable[[Job], Awaitable[Outcome]]
Told = Callable[[Sequence[SessionUse]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What is done in one database: commands by kind, periodic work of upkeep, and the clocks of its namespaces.

    `enter` raises Moved or Held where a namespace cannot be entered.
    """

    run: Mapping[WorkerKind, Run]
    enter: Callable[[str], Awaitable[None]]
    schedule: tuple[Periodic, ...]
    sessions_used: Told


@dataclass(slots=True)
class _Other:
    """A database that is opened when it is needed first."""

    name: str
    open: Callable[[], Awaitable[Served]]
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    served: Served | None = None
    problem: str = ""
    again_at: float = 0.0

    async def get(self) -> Served:
        """Open it if it is not; raises EngramqError while it is away."""
        async with self.opening:
            if self.served is None and time.monotonic() >= self.again_at:
                try:
                    self.served = await self.open()
                except NotReady as problem:
                    self.problem, self.again_at = str(problem), time.monotonic() + AGAIN_S
                    log.warning("A further database is away", extra={"database": self.name, "problem": self.problem})
        if self.served is None:
            raise refuse(FaultCode.UNAVAILABLE, f"The database {self.name!r} of this namespace is away.")
        return self.served


class Places:
    """One per process."""

    def __init__(self, primary: Served, others: Mapping[str, Callable[[], Awaitable[Served]]]) -> None:
        self._primary = primary
        self._others = {name: _Other(name, opened) for name, opened in others.items()}
        self._where: dict[str, str] = {}
        self._waiting = 0

    def runner(self, kind: WorkerKind) -> Run:
        """Return what carries out the commands of a kind."""
        return partial(self._run, kind)

    def schedule(self) -> tuple[Periodic, ...]:
        """Return the periodic work of all databases."""
        return (*self._primary.schedule, *(one for other in self._others.values() for one in self._schedule_of(other)))

    async def sessions_used(self, uses: Sequence[SessionUse]) -> None:
        """Tell the clocks of namespaces, each in its database."""
        by_place: dict[str, list[SessionUse]] = {}
        for use in uses:
            by_place.setdefault(self._where.get(use.namespace, PRIMARY_DATABASE), []).append(use)
        for place, some in by_place.items():
            await (await self._served(place)).sessions_used(some)

    async def _run(self, kind: WorkerKind, job: Job) -> Outcome:
        namespace, until = job.envelope.namespace, time.monotonic() + HELD_S
        hops = 0
        while True:
            try:
                if isinstance(job.envelope.command, Authenticate):
                    return await self._identified(kind, job)
                served = await self._served(self._where.get(namespace, PRIMARY_DATABASE))
                return await served.run[kind](job)
            except Moved as moved:
                hops += 1
                if hops > HOPS_MAX:
                    log.warning("A namespace is in no database", extra={"namespace": namespace})
                    raise refuse(
                        FaultCode.UNAVAILABLE,
                        f"Each database says of namespace {namespace!r} that it is in another one.",
                        recovery="The operator restores the database that it was moved to. Then call again.",
                    ) from moved
                self._note(namespace, moved.place)
            except Held:
                # The move may have failed meanwhile, so that the first database serves the namespace again.
                self._where.pop(namespace, None)
                hops = 0
                if self._waiting >= HELD_MAX or time.monotonic() >= until:
                    raise
                self._waiting += 1
                try:
                    await asyncio.sleep(PAUSE_S)
                finally:
                    self._waiting -= 1

    async def _identified(self, kind: WorkerKind, job: Job) -> Outcome:
        """Look for a token in all databases: it is where its namespace is.

        A further database may have tenants of its own, whose names are not those of the namespaces here: a token counts
        only where its namespace has gone. What one of them cannot say counts only if no other knows the token: then it
        is not said to be unknown.
        """
        problem: EngramqError | Held | None = None
        for place in (PRIMARY_DATABASE, *self._others):
            try:
                outcome = await (await self._served(place)).run[kind](job)
                if place != PRIMARY_DATABASE and await self._is_stranger(outcome.reply, place):
                    outcome = Outcome(Identity(status="unknown"))
            except (EngramqError, Held) as found:
                if problem is None or isinstance(found, Held):  # which is over soon
                    problem = found
                continue
            if not isinstance(outcome.reply, Identity) or outcome.reply.status != "unknown":
                return outcome
        if problem is not None:
            raise problem
        return outcome

    async def _is_stranger(self, reply: object, place: str) -> bool:
        """Say whether a token was found in another database than its namespace's."""
        if not isinstance(reply, Identity) or reply.status == "unknown":
            return False
        where = self._where.get(reply.namespace, PRIMARY_DATABASE)
        for _ in range(HOPS_MAX):
            if where == place:
                break
            try:
                await (await self._served(where)).enter(reply.namespace)
                break  # it is here
            except Moved as moved:
                where = moved.place
        if where != place:
            log.warning("A token of another tenant", extra={"database": place, "namespace": reply.namespace})
        return where != place

    def _note(self, namespace: str, place: str) -> None:
        self._where.pop(namespace, None)
        if place == PRIMARY_DATABASE:
            return
        if len(self._where) >= KEPT:
            del self._where[next(iter(self._where))]
        self._where[namespace] = place

    async def _served(self, place: str) -> Served:
        if place == PRIMARY_DATABASE:
            return self._primary
        other = self._others.get(place)
        if other is None:
            raise refuse(
                FaultCode.UNAVAILABLE,
                f"This namespace is in database {place!r}, which the settings of this worker do not name.",
                recovery=f"The operator has to name {place} in ENGRAMQ_DATABASES of every worker.",
            )
        return await other.get()

    def _schedule_of(self, other: _Other) -> Iterator[Periodic]:
        for one in self._primary.schedule:
            yield Periodic(f"{one.name}@{other.name}", one.every_s, partial(self._look, other, one.name))

    async def _look(self, other: _Other, name: str) -> Any:
        """Do one piece of the periodic work in a further database; nothing while that is away."""
        try:
            served = await other.get()
        except EngramqError:
            return ()
        (found,) = (one for one in served.schedule if one.name == name)
        return await found.run()
