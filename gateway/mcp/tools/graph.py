"""The tools on the knowledge graph: named nodes, directed facts between them, their sectors, and consent."""

from typing import Final

from engramq.gateway.mcp.tools.tool import Tool
from engramq.schemas.commands import (
    AddEdge,
    AddNode,
    ChangeNeedsConsent,
    ConsentNotNeeded,
    Decided,
    DecideProposal,
    DeleteEdge,
    DeleteNode,
    DeletionNeedsConsent,
    EdgeAdded,
    EdgeFound,
    EdgeList,
    EdgeMissing,
    EdgesMissing,
    FindPath,
    GetEdge,
    GetNodeByName,
    GraphDeleted,
    ListEdges,
    ListProposals,
    NameAmbiguous,
    Neighbors,
    NodeAdded,
    NodeFound,
    NodeMissing,
    NotProposed,
    PathReport,
    ProposalList,
    Proposed,
    ProposeReclassification,
    QueryNeighbors,
    Reclassified,
    ReclassifySector,
    WalkStartMissing,
)

_FACT: Final = 'source_name="Ada", target_name="Engine", relation="DESIGNED"'

TOOLS: Final = (
    Tool(
        name="graph_add_node",
        title="Add a node",
        summary="Make a named node, or merge properties into it. Label and name together identify it. Call it for "
        "properties of a thing itself. Before an edge it is not needed: graph_add_edge makes missing "
        "nodes.",
        example='graph_add_node(name="Ada", label="Person")',
        parameters=AddNode,
        replies=(NodeAdded,),
        idempotent=True,
    ),
    Tool(
        name="graph_add_edge",
        title="Add an edge",
        summary="Write a directed fact about two named things; missing nodes are made. Call it for a plain fact to "
        "check or walk exactly later. Again: properties merge, the rest only if given; valid_until ends it. ambiguous: "
        "call again with labels. consent_required: do what hint says. If it takes a sentence, call store_memory.",
        example=f"graph_add_edge({_FACT})",
        parameters=AddEdge,
        replies=(EdgeAdded, ChangeNeedsConsent, NameAmbiguous),
        idempotent=True,
    ),
    Tool(
        name="graph_delete_edge",
        title="Delete an edge",
        summary="Remove an edge. Call it when the fact is false. A constitutive edge takes consent: this proposes it, "
        "another principal calls the same or decide_proposal, then call again. If it held once, or properties or "
        "weight are wrong, call graph_add_edge.",
        example='graph_delete_edge(edge_id="<id>")',
        parameters=DeleteEdge,
        replies=(GraphDeleted, DeletionNeedsConsent),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="graph_delete_node",
        title="Delete a node",
        summary="Remove a node and all its edges. Call it when there is no such thing, or it was misnamed. "
        "Constitutive edges take consent, as in graph_delete_edge. If one fact is wrong, call graph_delete_edge.",
        example='graph_delete_node(node_id="<id>")',
        parameters=DeleteNode,
        replies=(GraphDeleted, DeletionNeedsConsent),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="get_node_by_name",
        title="Get a node",
        summary="Read a node by its exact name, or see names that resemble it. Call it for properties or node_id, "
        "or for how a name is spelt. For what surrounds it call graph_query_neighbors.",
        example='get_node_by_name(name="Ada")',
        parameters=GetNodeByName,
        replies=(NodeFound, NodeMissing),
        read_only=True,
    ),
    Tool(
        name="get_edge",
        title="Get an edge",
        summary="Verify a fact: read the edge of exactly this source, target and relation, or null. Call it before "
        "you rely on a fact, or after you wrote it. Direction counts. not_found means not known, not false. Without "
        "the exact words call graph_list_edges.",
        example=f"get_edge({_FACT})",
        parameters=GetEdge,
        replies=(EdgeFound, EdgeMissing),
        shown_as_not_empty=("source_name", "target_name", "relation"),
        read_only=True,
    ),
    Tool(
        name="graph_list_edges",
        title="List edges",
        summary="See every edge of a node, heaviest first, or one by edge_id. Call it to read all facts about a "
        "thing, or what an id stands for. For what lies further away call graph_query_neighbors.",
        example='graph_list_edges(node_name="Ada")',
        parameters=ListEdges,
        replies=(EdgeList, EdgesMissing),
        bounded=True,
        read_only=True,
    ),
    Tool(
        name="graph_query_neighbors",
        title="Query neighbours",
        summary="See what surrounds a node, nearest and most relevant first. Call it for all that is known around "
        "a person, project or thing. For one exact fact call get_edge. To look for a text call "
        "search_memories.",
        example='graph_query_neighbors(node_name="Ada", depth=2)',
        parameters=QueryNeighbors,
        replies=(Neighbors, WalkStartMissing),
        read_only=True,
    ),
    Tool(
        name="graph_find_path",
        title="Find a path",
        summary="See how two nodes are connected: a shortest path over edges in either direction. Call it to "
        "learn what two things have to do with each other. For one exact fact call get_edge.",
        example='graph_find_path(start_node="Ada", end_node="London")',
        parameters=FindPath,
        replies=(PathReport, WalkStartMissing),
        read_only=True,
    ),
    Tool(
        name="reclassify_memory_sector",
        title="Reclassify an edge",
        summary="Choose the sector of a graph edge by hand, for good. Call it when an edge has the wrong one, and "
        "so fades or is filtered wrongly. ambiguous: call again with an edge_id. consent_required: do "
        "what hint says. For a memory call update_memory.",
        example=f'reclassify_memory_sector({_FACT}, new_sector="episodic")',
        parameters=ReclassifySector,
        replies=(Reclassified,),
        destructive=True,
    ),
    Tool(
        name="propose_reclassification",
        title="Propose a reclassification",
        summary="Ask for consent to another sector of a constitutive edge, or join who asked: your approval, for "
        "48 h. Call it after consent_required. For any other edge call reclassify_memory_sector. Next "
        "another principal calls this or decide_proposal.",
        example='propose_reclassification(edge_id="<id>", new_sector="episodic")',
        parameters=ProposeReclassification,
        replies=(Proposed, NotProposed, ConsentNotNeeded),
    ),
    Tool(
        name="decide_proposal",
        title="Decide on a proposal",
        summary="Approve or reject a proposal. Two different principals must approve; one rejection ends it. Call "
        "it once you have judged the change on its merits. Your own has your approval already. Next make "
        "the proposed call.",
        example='decide_proposal(proposal_id="<id>", decision="approve")',
        parameters=DecideProposal,
        replies=(Decided,),
        destructive=True,
        idempotent=True,
    ),
    Tool(
        name="list_proposals",
        title="List proposals",
        summary="See proposals, newest first, and what each would do. Call it when you are asked to decide, or a "
        "change still waits. Not right after a proposal: the reply had the id. Next call decide_proposal.",
        example='list_proposals(state="pending")',
        parameters=ListProposals,
        replies=(ProposalList,),
        bounded=True,
        read_only=True,
    ),
)
