"""The guide to the tools on sectors of edges and on consent."""

from typing import Final

from engramq.gateway.mcp.guide.entry import Step, ToolGuide
from engramq.schemas.vocabulary import Sector

_FACT: Final = {"source_name": "Ada", "target_name": "Royal Society", "relation": "DISCUSSED"}
_VALUE: Final = Step(
    tool="graph_add_edge",
    arguments={
        "source_name": "Ada",
        "source_label": "Person",
        "target_name": "Honesty",
        "relation": "VALUES",
        "properties": {"is_constitutive": True},
    },
)
_PROPOSE: Final = Step(
    tool="propose_reclassification",
    arguments={"edge_id": "<edge_id>", "new_sector": Sector.REFLECTIVE.value, "reason": "a conclusion about herself"},
)

ENTRIES: Final = {
    "reclassify_memory_sector": ToolGuide(
        what="Chooses an edge's sector by hand, for good: no automatic classification changes it again.",
        when="An edge has the wrong sector and so fades or is filtered wrongly.",
        when_not="The sector of a memory: update_memory. The relation is wrong: graph_delete_edge, then the right one.",
        cost="One audited transaction, about 5 ms.",
        returns="old_sector and new_sector; or invalid_sector, not_found, ambiguous (candidates, oldest first), "
        "consent_required: each says what to do, and nothing has changed.",
        next="ambiguous: again with edge_id. consent_required: propose_reclassification.",
        before=(Step(tool="graph_add_edge", arguments={**_FACT, "source_label": "Person"}),),
        example=Step(tool="reclassify_memory_sector", arguments={**_FACT, "new_sector": Sector.EPISODIC.value}),
    ),
    "propose_reclassification": ToolGuide(
        what="Asks for consent to another sector of a constitutive edge, or joins the open proposal for that sector; "
        "counts as your approval (to join, with the scope verify), lasts 48 hours.",
        when="reclassify_memory_sector answered consent_required.",
        when_not="The edge is not constitutive: reclassify_memory_sector does it at once. To delete or change one: "
        "graph_delete_edge and graph_add_edge propose by themselves.",
        cost="One audited transaction, about 5 ms.",
        returns="proposed with proposal_id, expires_at, approved_by and approvals_needed, the number still missing; "
        "not_needed for an edge that takes no consent.",
        next="Have another principal call this or decide_proposal; then reclassify_memory_sector again.",
        before=(_VALUE,),
        example=_PROPOSE,
    ),
    "decide_proposal": ToolGuide(
        what="Approves or rejects a proposal. Two different principals must approve; one rejection ends it.",
        when="Another principal proposed a change and you have judged it on its merits.",
        when_not="You proposed it yourself: your approval counts once, and is there already.",
        cost="One audited transaction, about 5 ms. Needs the verify scope.",
        returns="recorded with state and approvals; closed when it had ended; not_found.",
        next="approved: call what was proposed again; it uses the proposal up.",
        before=(_VALUE, _PROPOSE),
        example=Step(tool="decide_proposal", arguments={"proposal_id": "<proposal_id>", "decision": "approve"}),
    ),
    "list_proposals": ToolGuide(
        what="Shows proposals, newest first: what each would do, to which edge or node, who approved, until when.",
        when="You are asked to decide, or wonder why something still needs consent.",
        when_not="You have just proposed: the reply holds the id.",
        cost="One read, a few milliseconds.",
        returns="proposals, each with effect in words, the edge or node as it is now, and change: what of an edge "
        "would be different; next_cursor, null at the end.",
        next="decide_proposal with a proposal_id. next_cursor as cursor, with the same state, for the next page.",
        example=Step(tool="list_proposals", arguments={"state": "pending"}),
    ),
}
