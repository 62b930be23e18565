"""What an agent's request did to a link, as it is answered and audited."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from engramq.schemas.commands import (
    Connected,
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.records import DisplacedLink
from engramq.schemas.vocabulary import AuditAction, LinkAction
from engramq.workers.db import audit
from engramq.workers.db.memory_rows import warned
from engramq.workers.db.transaction import Transaction
from engramq.workers.links.rules import Displaced, Link


@dataclass(frozen=True, slots=True)
class Asserted:
    """What an agent's request did to a link. `before`: the link as it was, None when it was not there.

    `untrusted`: an end of it is.
    """

    source: UUID
    target: UUID
    action: LinkAction
    link: Link
    before: Link | None
    displaced: Sequence[Displaced] = ()
    untrusted: bool = False


def connected(made: Asserted) -> Connected:
    """Return the answer to a request: what is stored, ends in the caller's order."""
    displaced = [displaced_record(one) for one in made.displaced]
    link = made.link
    return Connected(
        action=made.action,
        source_id=str(made.source),
        target_id=str(made.target),
        relation=str(link.relation),
        weight=link.weight,
        note=link.note,
        reinforcement_count=link.reinforcement_count,
        displaced_edge=displaced[0] if displaced else None,
        displaced_edges=displaced,
        summary=_summary(made),
        **warned(made.untrusted),
    )


def displaced_record(displaced: Displaced) -> DisplacedLink:
    """Return a link that had to go as replies tell it."""
    link = displaced.link
    source = link.declared_from or link.pair[0]
    return DisplacedLink(
        memory_id=str(displaced.end),
        other_id=str(link.other(displaced.end)),
        relation=link.relation,
        weight=link.weight,
        origin=link.origin,
        source_id=str(source),
        target_id=str(link.other(source)),
    )


_DONE: Final = {
    LinkAction.CREATED: "Linked {0} and {1} as {2!r} (weight {3:.2f})",
    LinkAction.REINFORCED: "Reinforced the link {2!r} between {0} and {1} (weight {3:.2f})",
    LinkAction.UPDATED: "Updated the link between {0} and {1}: {2!r} (weight {3:.2f})",
    LinkAction.SKIPPED: "Left the link {2!r} between {0} and {1} as it is (weight {3:.2f})",
    LinkAction.DEFERRED: "The link {2!r} between {0} and {1} waits until both are active",
}


def _summary(made: Asserted) -> str:
    done = _DONE[made.action].format(made.source, made.target, str(made.link.relation), made.link.weight)
    count = len(made.displaced)
    return done + (f"; {count} weaker {'link' if count == 1 else 'links'} made room." if count else ".")


def displaced_records(displaced: Sequence[Displaced]) -> list[dict[str, Any]]:
    """Return links that had to go as the audit log tells them."""
    return [msgspec.to_builtins(displaced_record(one)) for one in displaced]


async def audit_asserted(tx: Transaction, envelope: Envelope, action: AuditAction, made: Asserted) -> None:
    """Note what an agent asserted, now or when it was deferred."""
    old = {} if made.before is None else told(made.before)
    new: dict[str, Any] = {"action": made.action, "source_id": str(made.source), "target_id": str(made.target)}
    new |= told(made.link)
    if made.displaced:
        new["displaced"] = displaced_records(made.displaced)
    await audit.record(tx, envelope, action, made.link.id, old=old, new=new)


def told(link: Link) -> dict[str, Any]:
    """Return a link as the audit log tells it: of a note, which may say what a memory says, only a digest."""
    told = {name: getattr(link, name) for name in ("relation", "weight", "origin", "reinforcement_count")}
    return told if link.note is None else {**told, "note_sha256": hashlib.sha256(link.note.encode()).hexdigest()}
