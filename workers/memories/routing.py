"""On which side of the trust boundary a new memory is put. Nothing re-routes it later but promotion."""

from typing import Final

from msgspec import UNSET

from engramq.schemas.commands import NewMemory
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Partition, Scope, SourceType, Verification

# Trusted when somebody has vouched for them; research never is, nor is any type that is not known here.
TRUSTED_WHEN_VOUCHED_FOR: Final = frozenset(
    {SourceType.TASK_OUTCOME, SourceType.ARCHITECTURAL_DECISION, SourceType.LESSON_LEARNED}
)
VOUCHED_FOR: Final = frozenset({Verification.VERIFIED, Verification.APPROVED})


def route(memory: NewMemory, principal: Principal) -> Partition:
    """Return the partition for a new memory.

    Raises EngramqError: `untrusted_source` when `trusted` is asked for against the rules, `forbidden` when a
    verification is claimed without the scope for it, or by an untrusted principal: promotion would believe it.
    """
    if memory.verification is not Verification.UNVERIFIED:
        if principal.untrusted:
            raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not vouch for memories.")
        if Scope.VERIFY not in principal.scopes:
            raise refuse(FaultCode.FORBIDDEN, f"A verification needs the scope {Scope.VERIFY.value!r}.")
    chosen = Partition.UNTRUSTED if principal.untrusted else _by_source(memory)
    if memory.partition is UNSET or memory.partition is chosen:
        return chosen
    if memory.partition is Partition.UNTRUSTED:
        return Partition.UNTRUSTED
    who = "an untrusted principal" if principal.untrusted else f"source_type {memory.source_type!r}"
    raise refuse(FaultCode.UNTRUSTED_SOURCE, f"A memory of {who} cannot be stored as trusted.")


def _by_source(memory: NewMemory) -> Partition:
    if memory.source_type is UNSET:
        return Partition.TRUSTED
    vouched_for = memory.source_type in TRUSTED_WHEN_VOUCHED_FOR and memory.verification in VOUCHED_FOR
    return Partition.TRUSTED if vouched_for else Partition.UNTRUSTED
