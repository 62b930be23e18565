"""A tenant moved to another database: copied while it is used, held for a moment, and then served from there.

Each step is written down before the next: in the tenant's row here (what of it is served, see schema.sql)
and in the one there (`arriving` until everything is). So a move that was broken off goes on where it was:

1. The move is noted here, and the row of a tenant that arrives is made there.
2. All rows are copied, then those that changed meanwhile, until few are left. Everybody works on.
3. Held: writes wait, reads go on. Whoever had entered before is waited for, then what changed last is copied. A hold
   ends by itself, so that a move that dies holds nobody up for long.
4. Left: nobody enters here any more. Whoever had entered is waited for once more; what a hold that ended too early may
   have let in is copied too.
5. Arrived: the tenant is entered there, and what is left of it here goes.

A move can be taken back until it has arrived.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import AuditAction
from engramq.workers.db.owner import Doubled, Owner
from engramq.workers.db.pool import Row
from engramq.workers.db.queries import sql
from engramq.workers.tenants.copying import OLDEST, Copier, Pass

FACTS: Final = sql("side_facts")
LOCK: Final = sql("lock_move")
STANDING: Final = sql("standing_of")
BEGIN: Final = sql("begin_move")
MAKE_ROOM: Final = sql("make_room_for_tenant")
HOLD: Final = sql("hold_tenant")
GO_ON: Final = sql("let_writes_go_on")
LEAVE: Final = sql("leave_tenant")
RECEIVE: Final = sql("receive_tenant")
RELEASE: Final = sql("release_tenant")
FORGET: Final = sql("forget_arrival")
END: Final = sql("end_move")
FORGET_COPIED: Final = sql("forget_what_was_copied")
OTHERS: Final = sql("others_under_way")
STILL: Final = sql("still_under_way")
LAST_AUDIT_ID: Final = sql("last_audit_id")
ADVANCE: Final = sql("advance_audit_ids")

HOLD_S: Final = 30.0  # after which writes go on, whatever has become of the move
QUIET_S: Final = 60.0  # that those who are under way before a hold may take; a worker's transaction takes 30 at most
HELD_QUIET_S: Final = 5.0  # the same while writes wait
LEFT_S: Final = 1.0  # of a hold that have to be left when it turns into the end
SHORT_S: Final = 1.0  # of a pass over what changed, after which the next one may be made in a hold
PASSES_MAX: Final = 10  # before a hold
HOLDS_MAX: Final = 3
POLL_S: Final = 0.01
SINCE_MAX: Final = 2**30  # transactions; PostgreSQL tells the order of twice as many


class Step(StrEnum):
    """How far a move is, as it is told: before the step's work, but where it says otherwise."""

    BEGUN = "begun"  # noted here
    COPYING = "copying"
    COPIED = "copied"  # all but what changes from now on
    HELD = "held"
    LEFT = "left"
    COMPARED = "compared"  # what changed last is there too
    ARRIVED = "arrived"
    EMPTIED = "emptied"  # nothing is left here but where it is
    DONE = "done"


class CannotMove(Exception):
    """A namespace cannot be moved: the message says why, and what to do. It is where it was, and is served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database by the name that settings give it."""

    name: str
    side: Owner


@dataclass(slots=True, kw_only=True)
class Moved:
    """What a move did: rows copied, in how many passes, and for how many seconds writes waited (0: not in this try)."""

    rows: int = 0
    passes: int = 0
    held_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Move:
    """One move from `here` to `there`. `tell` hears of each step."""

    namespace: str
    here: Place
    there: Place
    actor: str
    tell: Callable[[Step], None] = lambda _step: None
    done: Moved = field(default_factory=Moved)
    _id: str = ""
    _held_at: float = 0.0
    _servers: tuple[str, str] = ("", "")
    _emptied: bool = False  # nothing of it is there, so that a copy of one moment has nothing to collide with

    async def check(self) -> Row:
        """Return the namespace's row here if it can be moved, or go on being moved; raises CannotMove."""
        here, there = await self._facts(self.here), await self._facts(self.there)
        if here["identity"] == there["identity"]:
            raise CannotMove(f"{self.here.name!r} and {self.there.name!r} are the same database.")
        self._servers = (here["identity"], there["identity"])
        found = await self._standing(self.here)
        if found is None:
            raise CannotMove(f"There is no namespace {self.namespace!r} in {self.here.name!r}.")
        if found["language"] not in there["languages"]:
            raise CannotMove(f"The PostgreSQL of {self.there.name!r} knows no language {found['language']!r}.")
        if found["standing"] == "arriving":
            raise CannotMove(f"Namespace {self.namespace!r} is being moved to {self.here.name!r} just now.")
        move = found["move"]
        if found["standing"] == "left" and move is None:
            raise CannotMove(f"Namespace {self.namespace!r} is in database {found['place']!r}.")
        if move is not None and move["to"] != self.there.name:
            raise CannotMove(
                f"Namespace {self.namespace!r} is being moved to {move['to']!r} already. The same command with --to "
                f"{move['to']} goes on, one with --abort takes it back."
            )
        await self._require_room(None if move is None else move["id"], left=found["standing"] == "left")
        return found

    async def run(self) -> Moved:
        """Move the namespace, or go on with a move that was broken off.

        Raises CannotMove or Unlike; the namespace is served here then, and once the move was noted the same command
        goes on with it, or `abort` takes back what was copied. Any other error leaves the move where it was.
        """
        await self.check()
        for place in (self.here, self.there):
            await self._lock(place)
        found = await self.check()  # nobody else has begun a move meanwhile
        move = found["move"]
        if move is None:
            self._id = uuid7()
            told = {"id": self._id, "to": self.there.name, "from": self.here.name, "step": Step.COPYING.value}
            if await self.here.side.row(BEGIN, namespace=self.namespace, move=told) is None:
                raise CannotMove(f"Namespace {self.namespace!r} has just been changed by another move.")
            self.tell(Step.BEGUN)
        else:
            self._id = str(move["id"])
        arriving = await self._standing(self.there)
        arrived = arriving is not None and arriving["standing"] is None
        if found["standing"] == "left" and arriving is None:
            await self._stay(found["tenant"])  # an --abort was broken off
            raise CannotMove(f"The move of {self.namespace!r} was being taken back. It is; run the same command again.")
        if not arrived:
            await self._bring(found)
        await self._clean_up(found["tenant"])
        return self.done

    async def abort(self) -> None:
        """Take a move back; raises CannotMove where there is none, or where it has arrived."""
        for place in (self.here, self.there):
            await self._lock(place)
        found, arriving = await self._standing(self.here), await self._standing(self.there)
        if found is None or found["move"] is None:
            raise CannotMove(f"Namespace {self.namespace!r} is not being moved from {self.here.name!r}.")
        self._id = str(found["move"]["id"])
        if arriving is not None and arriving["standing"] == "arriving":
            # From there first: what cannot arrive any more may be let go on here.
            await self.here.side.rows(FORGET_COPIED, tenant=found["tenant"], id=self._id)
            await self._copier(found["tenant"], arriving["tenant"]).purge(self.there.side, arriving["tenant"])
            await self.there.side.rows(FORGET, namespace=self.namespace)
        elif found["standing"] == "left" and arriving is not None:
            raise CannotMove(
                f"Namespace {self.namespace!r} has arrived in {self.there.name!r}. The same command without --abort "
                "ends the move; then it can be moved back."
            )
        await self._stay(found["tenant"])

    async def _facts(self, place: Place) -> Row:
        found = await place.side.row(FACTS)
        assert found is not None
        if found["standby"]:
            raise CannotMove(f"Database {place.name!r} is a standby, which takes no writes. Name its primary.")
        if found["sharded"]:
            raise CannotMove(f"Database {place.name!r} is a cluster of Citus, which a move does not know yet.")
        if not found["owns"]:
            raise CannotMove(
                f"The role {found['role']!r} does not own database {place.name!r}. Moving takes the owner's rights in "
                "both, as `engramq migrate` does: give URLs of the owners for this command."
            )
        return found

    async def _lock(self, place: Place) -> None:
        row = await place.side.row(LOCK, namespace=self.namespace)
        if row is None or not row["locked"]:
            raise CannotMove(f"Somebody else is moving namespace {self.namespace!r} just now.")

    async def _standing(self, place: Place) -> Row | None:
        return await place.side.row(STANDING, namespace=self.namespace)

    async def _require_room(self, move_id: str | None, *, left: bool) -> None:
        """Raise CannotMove where the target has such a namespace of its own."""
        found = await self._standing(self.there)
        if found is None or (found["standing"] == "left" and found["move"] is None):
            return
        ours = found["standing"] == "arriving" and found["move"]["from"] == self.here.name
        if ours or (left and move_id is not None):
            return
        raise CannotMove(
            f"Database {self.there.name!r} has a namespace {self.namespace!r} already. Delete or rename that one first."
        )

    async def _bring(self, found: Row) -> None:
        """Do all up to the arrival."""
        told = {"id": self._id, "from": self.here.name, "step": "arriving"}
        row = await self.there.side.row(MAKE_ROOM, namespace=self.namespace, move=told)
        if row is None:
            await self._stay(found["tenant"])
            raise CannotMove(f"Database {self.there.name!r} has got a namespace {self.namespace!r} just now.")
        copier = self._copier(found["tenant"], row["tenant"])
        since = await (self._noted(found) if found["standing"] == "left" else self._leave(copier))
        await self._arrive(copier, since, found)

    async def _noted(self, found: Row) -> int | None:
        """Return what to ask by for what changed since the last copy; None for all, where that is not sure to hold.

        A server that was started anew may be another one, which had not got everything yet.
        """
        noted, now = found["move"].get("since"), await self.here.side.row(OLDEST)
        assert now is not None
        if noted is None or (noted["here"], noted["there"]) != self._servers:
            return None
        return int(noted["oldest"]) if now["oldest"] - noted["oldest"] < SINCE_MAX else None

    def _copier(self, ours: int, theirs: int) -> Copier:
        return Copier(self.here.side, self.there.side, ours, theirs)

    async def _leave(self, copier: Copier) -> int:
        """Copy, hold, copy what changed last, and leave; return what to ask by for what changed after that."""
        self.tell(Step.COPYING)
        since: int | None = None
        for _ in range(HOLDS_MAX):
            since = await self._copy(copier, since)
            self.tell(Step.COPIED)
            if not await self._quiet(QUIET_S):
                raise CannotMove(
                    f"A transaction in {self.here.name!r} has been under way for {QUIET_S:g} s, as an export is or the "
                    "build of an index. Nothing is held meanwhile; run the same command again when it has ended."
                )
            try:
                since = await self._hold(copier, since)
            except Doubled as problem:
                await self._begin_anew(copier, problem)
                since = None
                continue
            here, there = self._servers
            left = await self.here.side.row(
                LEAVE,
                tenant=copier.ours,
                id=self._id,
                place=self.there.name,
                left_s=LEFT_S,
                since={"oldest": since, "here": here, "there": there},
            )
            if left is not None:
                self.tell(Step.LEFT)
                return since
            await self._go_on(copier)
        raise CannotMove(
            f"Namespace {self.namespace!r} changes faster than what changes is copied. Nothing is held; run the same "
            "command again when fewer write."
        )

    async def _copy(self, copier: Copier, since: int | None) -> int:
        for _ in range(PASSES_MAX):
            try:
                made = await self._pass(copier, since)
            except Doubled as problem:
                await self._begin_anew(copier, problem)
                since = None
                continue
            since = made.oldest
            if made.took_s <= SHORT_S:
                return since
        raise CannotMove(
            f"Namespace {self.namespace!r} changes faster than it is copied. Nothing is held; run the same command "
            "again when fewer write."
        )

    async def _begin_anew(self, copier: Copier, problem: Doubled) -> None:
        """Forget what was copied, for two rows that have changed their names for each other's: one cannot go first.

        Raises CannotMove where that was no help: what is in the way is not of this tenant, or will always be.
        """
        if self._emptied:
            raise CannotMove(
                f"Database {self.there.name!r} does not take a row of {self.namespace!r}, by its constraint "
                f"{problem.diag.constraint_name!r} of {problem.diag.table_name!r}. Nothing is held; see what is in the "
                "way there and run the same command again, or with --abort."
            ) from problem
        await copier.purge(self.there.side, copier.theirs)
        self._emptied = True

    async def _hold(self, copier: Copier, since: int) -> int:
        """Hold writes, and copy what changed before."""
        self._held_at = time.monotonic()
        held = await self.here.side.row(HOLD, tenant=copier.ours, id=self._id, hold_s=HOLD_S)
        if held is None:
            raise CannotMove(f"Namespace {self.namespace!r} was changed by another move.")
        try:
            self.tell(Step.HELD)
            if not await self._quiet(HELD_QUIET_S):
                raise CannotMove(
                    f"A transaction in {self.here.name!r} has been under way for {HELD_QUIET_S:g} s. Nothing is held "
                    "any more; run the same command again."
                )
            return (await self._pass(copier, since)).oldest
        except BaseException:
            await self._go_on(copier)
            raise

    async def _go_on(self, copier: Copier) -> None:
        await self.here.side.rows(GO_ON, tenant=copier.ours, id=self._id)
        if self._held_at:
            self.done.held_s = max(self.done.held_s, time.monotonic() - self._held_at)

    async def _arrive(self, copier: Copier, since: int | None, found: Row) -> None:
        """Copy what a hold that ended too early has let in, and let the tenant be entered there."""
        try:
            if not await self._quiet(HELD_QUIET_S):
                raise CannotMove(
                    f"A transaction in {self.here.name!r} has been under way for {HELD_QUIET_S:g} s. The namespace is "
                    "where it was; run the same command again."
                )
            await self._pass(copier, since)
            self.tell(Step.COMPARED)
            last = await self.there.side.row(LAST_AUDIT_ID, tenant=copier.theirs)
            assert last is not None
            await self.there.side.rows(ADVANCE, last=last["last"] + 1)  # one is written now
            row = await self._standing(self.here)
            assert row is not None
        except BaseException:
            await self._go_on(copier)  # it cannot have arrived
            raise
        received = await self.there.side.row(
            RECEIVE,
            tenant=copier.theirs,
            namespace=self.namespace,
            id=self._id,
            whole=row["whole"],
            actor=self.actor,
            action=AuditAction.MOVE_TENANT.value,
            told={"from": self.here.name, "to": self.there.name},
        )
        assert received is not None, found
        if self._held_at:
            self.done.held_s = max(self.done.held_s, time.monotonic() - self._held_at)
        self.tell(Step.ARRIVED)

    async def _clean_up(self, tenant: int) -> None:
        await self._copier(tenant, 0).purge(self.here.side, tenant)
        self.tell(Step.EMPTIED)
        await self.here.side.rows(END, tenant=tenant, id=self._id)
        self.tell(Step.DONE)

    async def _stay(self, tenant: int) -> None:
        """Let the tenant be served here, as before the move."""
        await self.here.side.rows(RELEASE, tenant=tenant, id=self._id)

    async def _pass(self, copier: Copier, since: int | None) -> Pass:
        made = await copier.run(since)
        self._emptied = False
        self.done.rows += made.written
        self.done.passes += 1
        return made

    async def _quiet(self, bound_s: float) -> bool:
        """Wait for those who are under way here now; return whether they have ended within the bound."""
        until = time.monotonic() + bound_s
        row = await self.here.side.row(OTHERS)
        while row is not None and row["transactions"]:
            if time.monotonic() > until:
                return False
            await asyncio.sleep(POLL_S)
            row = await self.here.side.row(STILL, transactions=row["transactions"])
        return True
