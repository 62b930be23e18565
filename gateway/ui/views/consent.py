"""The consent inbox: proposals that take a second principal."""

from typing import Final

from starlette.responses import Response

from engramq.gateway.ui.visit import Visit
from engramq.schemas.vocabulary import Decision, ProposalState

_OPEN: Final = ProposalState.PENDING


async def show(visit: Visit) -> Response:
    """Show proposals; without `state` in the address those that wait."""
    asked = visit.query("state")
    state = asked if asked in set(ProposalState) or asked == "all" else str(_OPEN)
    shown = await visit.ask("list_proposals", state=None if state == "all" else state, cursor=visit.query("cursor"))
    return visit.page("consent.html", shown=shown, state=state, states=list(ProposalState))


async def decide(visit: Visit) -> Response:
    """Record what this visitor says to a proposal."""
    proposal_id, decision = visit.request.path_params["proposal_id"], visit.entry("decision")
    reply = await visit.ask(
        "decide_proposal",
        proposal_id=proposal_id,
        decision=decision if decision in set(Decision) else "",
        reason=visit.entry("reason"),
    )
    if reply["status"] == "not_found":
        return visit.page("missing.html", status=404, what="proposal")
    if reply["status"] == "closed":
        return visit.page("closed.html", status=409, reply=reply)
    return visit.go("/ui/consent", done=reply["status"])
