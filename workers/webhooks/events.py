"""Which event a reply is, and what is told of it: ids and words of the vocabulary, nothing that anybody wrote."""

from typing import Any

from engramq.schemas.commands import (
    ChangeNeedsConsent,
    DeletionNeedsConsent,
    Promoted,
    Proposed,
    Reply,
    Stored,
    Superseded,
)
from engramq.schemas.ids import parse_uuid
from engramq.schemas.records import Memory
from engramq.schemas.vocabulary import WebhookEvent
from engramq.workers.db.ledger import Announcement


def announcement(reply: Reply) -> Announcement | None:
    """Return what a reply announces, None when nothing."""
    match reply:
        case Stored(stored=memory):
            return Announcement(WebhookEvent.STORED, _about(memory), parse_uuid(memory.id))
        case Superseded(old=old, new=new):
            told = {**_about(old), "superseded_by": new.id}
            return Announcement(WebhookEvent.SUPERSEDED, told, parse_uuid(new.id))
        case Promoted(status="promoted", memory=memory):
            return Announcement(WebhookEvent.PROMOTED, _about(memory), parse_uuid(memory.id))
        case Proposed(approvals_needed=needed) if needed == 0:
            return None
        case Proposed() | ChangeNeedsConsent() | DeletionNeedsConsent():
            told = {"proposal_id": reply.proposal_id, "expires_at": reply.expires_at}
            return Announcement(WebhookEvent.CONSENT_WANTED, told)
        case _:
            return None


def _about(memory: Memory) -> dict[str, Any]:
    return {
        "memory_id": memory.id,
        "partition": memory.partition.value,
        "verification": memory.verification.value,
        "state": memory.state.value,
    }
