"""The guide to the tools on the knowledge graph."""

from typing import Final

from engramq.gateway.mcp.guide.entry import Step, ToolGuide

_FACT: Final = {"source_name": "Ada", "target_name": "Analytical Engine", "relation": "DESCRIBED"}
# With the label, an example works whether or not another one has made a node of that name.
_ADD: Final = Step(tool="graph_add_edge", arguments={**_FACT, "source_label": "Person", "properties": {"year": 1843}})
_ADD_NODE: Final = Step(
    tool="graph_add_node", arguments={"name": "Ada", "label": "Person", "properties": {"born": 1815}}
)
_ADD_WRONG: Final = Step(
    tool="graph_add_edge",
    arguments={"source_name": "Ada", "source_label": "Person", "target_name": "Telegraph", "relation": "INVENTED"},
)
_WALK: Final = "One walk, a few milliseconds for small neighbourhoods; bounded at 2 s, and truncated says that it was."

ENTRIES: Final = {
    "graph_add_node": ToolGuide(
        what="Makes a named node, or merges properties into it. Label and name together identify it, as written.",
        when="A thing has properties of its own, or one name means several things and labels have to tell them apart.",
        when_not="You are about to write an edge: graph_add_edge makes missing nodes itself.",
        cost="One transaction, about 5 ms; no embedding.",
        returns="node_id, created (false: it was there), and the merged properties.",
        next="graph_add_edge, with source_label or target_label where the name is ambiguous.",
        example=_ADD_NODE,
    ),
    "graph_add_edge": ToolGuide(
        what="Writes a directed fact between two named things: source --RELATION--> target. Missing nodes are made.",
        when="Something is a plain fact about named things and you want to check or walk it exactly later.",
        when_not="It needs a sentence to be understood: store_memory. You relate two memories: connect.",
        cost="One transaction, about 5 ms; no embedding.",
        returns="edge_id, created, the edge as stored, its sector and when it holds; ambiguous with candidates, or "
        "consent_required with a proposal_id (it would change a constitutive edge): nothing was written.",
        next="ambiguous: again with source_label or target_label. consent_required: do what hint says. When it holds "
        "no longer: again with valid_until. get_edge verifies it.",
        example=_ADD,
    ),
    "graph_delete_edge": ToolGuide(
        what="Removes an edge. For a constitutive edge the call is the proposal to do so.",
        when="The fact is false.",
        when_not="It held once: graph_add_edge with valid_until ends it. Its properties or weight are wrong: "
        "graph_add_edge again merges them. Its sector: reclassify_memory_sector.",
        cost="One audited transaction, about 5 ms. An operator can undo it until restore_until; hint says how.",
        returns="deleted, not_found, or consent_required with a proposal_id.",
        next="consent_required: do what hint says, then call this again.",
        before=(_ADD_WRONG,),
        example=Step(tool="graph_delete_edge", arguments={"edge_id": "<edge_id>", "reason": "not true"}),
    ),
    "graph_delete_node": ToolGuide(
        what="Removes a named node and all its edges.",
        when="The thing does not exist, or was written under a wrong name and has been written again.",
        when_not="Only one fact about it is wrong: graph_delete_edge.",
        cost="One audited transaction, longer with many edges. An operator can undo it until restore_until.",
        returns="deleted with edges_deleted, not_found, or consent_required when an edge is constitutive.",
        next="consent_required: do what hint says, then call this again.",
        before=(Step(tool="graph_add_node", arguments={"name": "Adda", "label": "Person"}),),
        example=Step(tool="graph_delete_node", arguments={"node_id": "<node_id>", "reason": "misspelt"}),
    ),
    "get_node_by_name": ToolGuide(
        what="Reads a node by its exact name.",
        when="You want its properties or node_id, or to see whether a name is known and how it is spelt.",
        when_not="You want what surrounds it: graph_query_neighbors.",
        cost="One indexed read, a few milliseconds; a miss looks for names that resemble it.",
        returns="The node, the oldest of match_count; or node null, not_found, and suggestions.",
        next="match_count above 1: give label. not_found: try a suggestion.",
        before=(_ADD_NODE,),
        example=Step(tool="get_node_by_name", arguments={"name": "Ada"}),
    ),
    "get_edge": ToolGuide(
        what="Reads the edge of exactly this source, target and relation.",
        when="You want to verify a fact before you rely on it, or after you wrote it.",
        when_not="You do not know the exact words: graph_query_neighbors shows what there is. Direction counts.",
        cost="One indexed read, about 5 ms. Changes nothing.",
        returns="The edge, the oldest of match_count; or exactly edge null and not_found.",
        next="not_found: the fact is not known, which does not mean that it is false.",
        before=(_ADD,),
        example=Step(tool="get_edge", arguments=_FACT),
    ),
    "graph_list_edges": ToolGuide(
        what="Lists every edge of a node, heaviest first, parallel ones and loops too; or one edge by its id.",
        when="You want all facts about a thing, or to know what an edge_id stands for.",
        when_not="You ask for one exact fact: get_edge. What lies further away: graph_query_neighbors.",
        cost="One indexed read of a page, a few milliseconds.",
        returns="edges with source, target, relation, weight, sector, properties and when they hold; next_cursor, null "
        "at the end. What has ended is left out.",
        next="as_of shows what held then. Give next_cursor as cursor, with the same filters, for the next page. "
        "match_count above 1: give label.",
        before=(_ADD,),
        example=Step(tool="graph_list_edges", arguments={"node_name": "Ada"}),
    ),
    "graph_query_neighbors": ToolGuide(
        what="Walks from a node over its edges, nearest and most relevant first.",
        when="You want everything that is known around a person, project or thing.",
        when_not="You ask for one exact fact: get_edge. You look for text: search_memories.",
        cost=_WALK,
        returns="neighbors with distance, relevance and the edges that reach them; count, truncated, match_count.",
        next="Go deeper with depth 2, or narrow with relation and sectors; as_of walks over what held then. "
        "truncated: raise limit or narrow. "
        "match_count above 1: candidates are the other nodes of that name; give label.",
        before=(_ADD,),
        example=Step(tool="graph_query_neighbors", arguments={"node_name": "Ada", "depth": 2}),
    ),
    "graph_find_path": ToolGuide(
        what="Finds a shortest path between two nodes, over edges in either direction.",
        when="You ask how two things are connected.",
        when_not="You ask whether one exact fact holds: get_edge.",
        cost=_WALK,
        returns="path_found, nodes and edges along the way (direction incoming: crossed against its arrow).",
        next="path_found false and truncated false: no path of max_depth edges that hold; raise max_depth, give as_of, "
        "or choose among candidates with start_label and end_label.",
        before=(
            _ADD,
            Step(
                tool="graph_add_edge",
                arguments={"source_name": "Babbage", "target_name": "Analytical Engine", "relation": "DESIGNED"},
            ),
        ),
        example=Step(tool="graph_find_path", arguments={"start_node": "Ada", "end_node": "Babbage"}),
    ),
}
