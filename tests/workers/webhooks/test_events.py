"""Which replies are announced."""

from typing import Any

import pytest

from engramq.schemas.commands import Connected, Proposed, Reply
from engramq.schemas.vocabulary import LinkAction, WebhookEvent
from engramq.workers.replies import announcement

PROPOSAL: Any = {"proposal_id": "p", "expires_at": "2026-01-31T09:00:00Z"}


def test_a_proposal_that_waits_for_others_is_announced_by_its_id_alone() -> None:
    announced = announcement(Proposed(**PROPOSAL, approvals_needed=1, hint="Ask bob."))
    assert announced is not None
    assert (announced.event, announced.told) == (WebhookEvent.CONSENT_WANTED, PROPOSAL)


@pytest.mark.parametrize(
    "reply",
    [
        Proposed(**PROPOSAL, approvals_needed=0),
        Connected(
            action=LinkAction.CREATED, source_id="a", target_id="b", relation="r", weight=1.0, note=None,
            reinforcement_count=0, displaced_edge=None, displaced_edges=[], summary="",
        ),
    ],
)  # fmt: skip
def test_nobody_is_told_where_nobody_has_to_consent(reply: Reply) -> None:
    assert announcement(reply) is None
