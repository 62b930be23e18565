"""Decide what trust allows: what a principal may do, where a new memory goes, and what may stand on what. Pure.

A new rule of trust belongs here. Handlers call these functions, so they hold for every sender of a command; gateways
check scopes too.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import NewMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Partition, Scope, SourceType, Verification

VOUCHED_FOR: Final = frozenset({Verification.VERIFIED, Verification.APPROVED})
# Trusted when somebody has vouched for them; research never is, nor is any type that is not known here.
TRUSTED_WHEN_VOUCHED_FOR: Final = frozenset(
    {SourceType.TASK_OUTCOME, SourceType.ARCHITECTURAL_DECISION, SourceType.LESSON_LEARNED}
)


def is_admin(principal: Principal) -> bool:
    """Say whether a principal administers the namespace: with the scope, and trusted."""
    return Scope.ADMIN in principal.scopes and not principal.untrusted


def may_vouch(principal: Principal) -> bool:
    """Say whether a principal may vouch for memories and decide on proposals: with the scope, and trusted."""
    return Scope.VERIFY in principal.scopes and not principal.untrusted


def require_admin(principal: Principal, doing: str) -> None:
    """Raise EngramqError with `forbidden` for all but administrators; `doing` begins the sentence of the refusal."""
    if not is_admin(principal):
        raise refuse(FaultCode.FORBIDDEN, f"{doing} needs the scope {Scope.ADMIN.value!r}.")


def require_trusted(principal: Principal, may: str) -> None:
    """Raise EngramqError with `forbidden` for an untrusted principal; `may` says what it may, or may not."""
    if principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, f"An untrusted principal may {may}.")


def require_editor(principal: Principal) -> None:
    """Raise EngramqError with `forbidden` for a caller that may not change memories."""
    require_trusted(principal, "only read, store, link and supersede")


def require_graph_writer(principal: Principal) -> None:
    """Raise EngramqError with `forbidden` for a caller that may not write to the graph."""
    require_trusted(principal, "not write to the graph")


def require_trusted_with(principal: Principal, partitions: Iterable[Partition], doing: str) -> None:
    """Raise EngramqError with `forbidden` for an untrusted principal that would touch a trusted memory."""
    if Partition.TRUSTED in partitions:
        require_trusted(principal, f"{doing} untrusted memories only")


def require_reviewer(principal: Principal, what: str = "This") -> None:
    """Raise EngramqError with `forbidden` for a caller that may not vouch for memories."""
    require_trusted(principal, "not vouch for memories")
    if Scope.VERIFY not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"{what} needs the scope {Scope.VERIFY.value!r}.")


def may_displace(one: Partition, other: Partition) -> bool:
    """Say whether a memory in one partition may replace, or keep out, one in the other: an untrusted no trusted one."""
    return one == other or one == Partition.TRUSTED


def route(memory: NewMemory, principal: Principal) -> Partition:
    """Return the partition for a new memory. Nothing re-routes it later but promotion.

    Raises EngramqError: `untrusted_source` when `trusted` is asked for against the rules, `forbidden` when a
    verification is stated without the scope for it, or by an untrusted principal: promotion would believe it.
    """
    if memory.verification is not Verification.UNVERIFIED:
        require_reviewer(principal, "A verification")
    is_vouched_for = memory.source_type in TRUSTED_WHEN_VOUCHED_FOR and memory.verification in VOUCHED_FOR
    is_trusted = not principal.untrusted and (memory.source_type is UNSET or is_vouched_for)
    if memory.partition is Partition.TRUSTED and not is_trusted:
        who = "an untrusted principal" if principal.untrusted else f"source_type {memory.source_type!r}"
        raise refuse(FaultCode.UNTRUSTED_SOURCE, f"A memory of {who} cannot be stored as trusted.")
    return Partition.TRUSTED if is_trusted and memory.partition is not Partition.UNTRUSTED else Partition.UNTRUSTED
