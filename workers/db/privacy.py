"""Read and set how a namespace keeps private memories; everybody in it sees these settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Partition, Visibility
from engramq.workers.db.lookups import Ask
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup, Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.trust import is_admin, require_admin

USUAL_VISIBILITY: Final = sql("usual_visibility")
CAPTURED: Final = "captured"  # the tag of what was captured of a session, now or by an import


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The default visibility (None: as `starting` says); if sharing takes consent; if administrators read all."""

    visibility: Visibility | None = None
    consent: bool = False
    admins_read: bool = False

    @property
    def as_reply(self) -> dict[str, Any]:
        """The same as replies have it."""
        return asdict(self)


async def privacy_of(tx: Transaction) -> Privacy:
    """Return how the namespace keeps private memories; of one that nobody has written to, as usual."""
    row = await tx.row("privacy_of")
    if row is None:
        return Privacy()
    return Privacy(**{**row, "visibility": row["visibility"] and Visibility(row["visibility"])})


@dataclass(frozen=True, slots=True)
class Usual:
    """The visibility of memories that state none: those that a principal stores, and those that hooks capture.

    `may_correct`: the principal keeps something private, which a shared one may correct.
    """

    said: Visibility = Visibility.SHARED
    captured: Visibility = Visibility.SHARED
    may_correct: bool = False


async def usual_visibility(ask: Ask, principal: Principal, owner: str | None) -> Usual:
    """Return who sees what a principal stores without saying: as its token has it, else as the namespace has it.

    `owner`: as whose it keeps what is private.
    """
    if principal.visibility is not UNSET:
        return Usual(principal.visibility, principal.visibility)
    person, own = principal.acts_for or principal.name, own_partition(principal)
    (answer,) = await ask([Lookup(USUAL_VISIBILITY, {"person": person, "owner": owner, "partition": own})])
    if answer is None:
        return Usual()
    named, keeps_private, expected = msgspec.json.decode(answer)
    captured = Visibility(expected or Visibility.SHARED)
    said = captured if principal.acts_for else Visibility(named or Visibility.SHARED)
    return Usual(said, captured, keeps_private and said is Visibility.SHARED)


def own_partition(principal: Principal) -> Partition:
    """Return where a principal keeps what it says itself: hooks put what they capture elsewhere."""
    return Partition.UNTRUSTED if principal.untrusted else Partition.TRUSTED


async def change_privacy(
    tx: Transaction, *, visibility: str | None = None, consent: bool | None = None, admins_read: bool | None = None
) -> None:
    """Change what is not None; `visibility`: also "default"."""
    await tx.send("change_privacy", visibility=visibility, consent=consent, admins_read=admins_read)


@asynccontextmanager
async def seeing_as_admin(tx: Transaction, principal: Principal) -> AsyncIterator[bool]:
    """Within the block see what is private to others too, if the principal is an administrator who may read it here.

    The block gets whether that is so.
    """
    sees_all = is_admin(principal) and (await privacy_of(tx)).admins_read
    if not sees_all:
        yield False
        return
    async with tx.seeing(EVERYTHING):
        yield True


@asynccontextmanager
async def seeing_all_as_admin(tx: Transaction, principal: Principal, doing: str) -> AsyncIterator[None]:
    """See everything within the block, as an administrator from whom nothing is kept.

    Raises EngramqError for everybody else; `doing` begins the sentence of the refusal.
    """
    require_admin(principal, doing)
    async with seeing_as_admin(tx, principal) as sees_all:
        if hidden := 0 if sees_all else await private_of_others(tx):
            kept = f"{doing} would lack what is private to others ({hidden}), which you do not see."
            recovery = "The operator of the installation has it all by engramq export."
            raise refuse(FaultCode.FORBIDDEN, kept, recovery=recovery)
        async with tx.seeing(EVERYTHING):
            yield


async def private_of_others(tx: Transaction) -> int:
    """Count what is private to others: which tells nothing of it."""
    mine = tx.viewer.owner
    async with tx.seeing(EVERYTHING):
        row = await tx.row("private_of_others", mine=mine)
    assert row is not None
    return int(row["memories"])
