"""Digest what a reviewer judges, so that a verdict is carried out on what was seen and on nothing else. Pure.

An untrusted author may replace the content of a memory between a reviewer's look and their verdict. A verdict that
carries the digest of what was seen is then refused. The digest has a hash of all that is judged, and a byte of each
field, so that the refusal can name what has changed. A page that shows a record makes it from what is shown.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.command_line import join_words
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.contents import preview_of
from engramq.schemas.envelope import Principal
from engramq.schemas.evidence import as_cited
from engramq.schemas.faults import EngramqError, Fault, FaultCode
from engramq.schemas.records import Memory, Proposal
from engramq.schemas.vocabulary import UNTRUSTED_WARNING, Partition, Scope, SectorSource, StandingSource

# What is judged: all that somebody has said. Of a memory, what its author gave, or somebody has corrected since. Not
# what verdicts change (partition, verification, visibility), so that a promotion carries the digest that its
# verification did; not what the program notes by itself (state, usefulness, a sector that the model told), which
# changes at any moment.
# Of a proposal, what is asked for and what it would change, as that is now; not who has approved it so far.
JUDGED: Final[Mapping[type[Memory | Proposal], tuple[str, ...]]] = {
    Memory: tuple(
        name
        for name in Memory.__struct_fields__
        if name in NewMemory.__struct_fields__ and name not in ("partition", "verification", "visibility")
    ),
    Proposal: (
        "action",
        "edge_id",
        "node_id",
        "new_sector",
        "proposed_by",
        "reason",
        "edge",
        "node",
        "change",
        "memory_id",
    ),
}
WHOLE_BYTES: Final = 16  # as many as keep an author from making two contents with the same hash
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def digest_of(record: Memory | Proposal) -> str:
    """Return the digest of what is judged of a record, in hex."""
    parts = [_encode(_value_to_judge(record, name)) for name in JUDGED[type(record)]]
    return _hash(b"\n".join(parts), WHOLE_BYTES) + "".join(_hash(part, 1) for part in parts)


def select_judged(record: Memory | Proposal) -> dict[str, Any]:
    """Return what is judged of a record, as plain values, without what it has none of."""
    values = {name: _value_to_judge(record, name) for name in JUDGED[type(record)]}
    return {name: msgspec.to_builtins(value) for name, value in values.items() if value not in (None, [], {})}


def _hash(data: bytes, size: int) -> str:
    return hashlib.blake2b(data, digest_size=size).hexdigest()


def _value_to_judge(record: Memory | Proposal, name: str) -> Any:
    if name == "sector" and isinstance(record, Memory) and record.sector_source is not SectorSource.MANUAL:
        return None
    if name == "standing" and isinstance(record, Memory) and record.standing_source is not StandingSource.GIVEN:
        return None
    if name == "evidence" and isinstance(record, Memory):
        return [as_cited(citation) for citation in record.evidence]
    value = getattr(record, name)
    return None if value is UNSET else value


def require_seen(seen: str | UnsetType, record: Memory | Proposal, caller: Principal, look: str) -> None:
    """Raise EngramqError with `conflict` unless a record is what was seen, or nobody says what that was.

    The refusal names what has changed, and shows those who may read the digest and the text of now. `look` is the
    sentence that says how the caller sees all of it.
    """
    if seen is UNSET or seen == (digest := digest_of(record)):
        return
    changed = _differing(seen, digest, JUDGED[type(record)])
    text = record.content if isinstance(record, Memory) else record.effect
    may_read = Scope.READ in caller.scopes
    is_untrusted = may_read and isinstance(record, Memory) and record.partition is Partition.UNTRUSTED
    fault = Fault(
        code=FaultCode.CONFLICT,
        error=f"It is not what was seen: {join_words(changed)} changed since.",
        recovery=f"{FaultCode.CONFLICT.recovery} {look}",
        changed=changed,
        digest=digest if may_read else UNSET,
        now=preview_of(text, limits.PREVIEW_CHARS) if may_read else UNSET,
        untrusted=True if is_untrusted else UNSET,
        warning=UNTRUSTED_WARNING if is_untrusted else UNSET,
    )
    raise EngramqError(fault)


def _differing(seen: str, digest: str, names: tuple[str, ...]) -> list[str]:
    """Return the names of the fields whose bytes differ; all of them where nothing tells, as of another release."""
    if len(seen) != len(digest):
        return list(names)
    begins = range(2 * WHOLE_BYTES, len(digest), 2)
    differing = [name for name, at in zip(names, begins, strict=True) if seen[at : at + 2] != digest[at : at + 2]]
    return differing or list(names)
