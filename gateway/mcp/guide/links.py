"""The guide to the tools on links between memories."""

from typing import Final

from engramq.gateway.mcp.guide.entry import Step, ToolGuide

_HERE: Final = {"session": "the queue"}
_BEFORE: Final = (
    Step(
        tool="store_memory",
        arguments={"content": "We chose Redis for the queue because latency matters most", **_HERE},
    ),
    Step(tool="search_memories", arguments={"query": "Why did we choose Redis for the queue?", **_HERE}),
    Step(
        tool="store_memory", arguments={"content": "A round trip through the queue takes half a millisecond", **_HERE}
    ),
)
_CONNECT: Final = Step(
    tool="connect",
    arguments={
        "source": "@stored",
        "target": "@recalled[0]",
        "relation": "supports",
        "note": "the figure behind it",
        **_HERE,
    },
)

ENTRIES: Final = {
    "connect": ToolGuide(
        what="Asserts how two memories are related. Searches that find one then lift or bring in the other.",
        when="One memory explains, supports or contradicts another and wording alone would not show it: a decision and "
        "its measurement, a rule and its exception.",
        when_not="They merely resemble each other: similarity links are made by themselves. One replaces the other: "
        "supersede_memory. Named things and facts: graph_add_edge.",
        cost="One transaction that locks both memories, about 10 ms; no embedding. A memory has room for 10 links by "
        "default; the weakest automatic one makes room.",
        returns="action (created, reinforced, updated, skipped, deferred), the link as stored, and what it displaced. "
        "deferred: an end is still being embedded; get_command tells what became of it.",
        next="relation_conflict: if_exists update changes the relation. degree_limit: disconnect one of the links that "
        "get_memory, with include_untrusted, shows of the memory named.",
        before=_BEFORE,
        example=_CONNECT,
    ),
    "disconnect": ToolGuide(
        what="Removes the link between two memories, in either order, also one that is deferred. Automatic writers do "
        "not make an automatic one again.",
        when="A link misleads: search results come via it and do not belong.",
        when_not="The memory itself is wrong: supersede_memory or forget_memory. You want another relation: connect "
        "with if_exists update.",
        cost="One audited transaction, about 10 ms.",
        returns="action removed (with the relation and weight that it had), not_found, or guarded: it has "
        "another relation than guard_relation, or is a supersession, which restore_memory undoes.",
        next="Nothing; the next search does not follow it. connect makes it again.",
        before=(*_BEFORE, _CONNECT),
        example=Step(
            tool="disconnect",
            arguments={"source": "@recalled[0]", "target": "@stored", "guard_relation": "supports", **_HERE},
        ),
    ),
    "connect_by_query": ToolGuide(
        what="Links the memory that best matches one query to the one that best matches another.",
        when="You know both memories by what they say and have neither id at hand.",
        when_not="You have just stored or recalled them: connect with @stored and @recalled[N] is exact and cheaper.",
        cost="Two embeddings and two vector searches, about 30 ms, and what connect costs. dry_run writes nothing. "
        "With a custom embedder the first call also calibrates it, for seconds.",
        returns="action (insufficient_confidence, same_memory, dry_run_preview, refused, connected), what was found "
        "for both with the chance that it is the one meant, and connect_result.",
        next="insufficient_confidence: read the contents found; ask more exactly, or connect by id. Preview is right: "
        "again without dry_run.",
        before=_BEFORE,
        example=Step(
            tool="connect_by_query",
            arguments={
                "source_query": "How long does a round trip through the queue take?",
                "target_query": "Why was Redis chosen for the queue?",
                "relation": "supports",
                "dry_run": True,
            },
        ),
    ),
    "connects": ToolGuide(
        what="Asserts up to 200 links in one call, each as in connect.",
        when="You link a whole set: the steps of a plan, everything that a report rests on.",
        when_not="One link: connect.",
        cost="One transaction, about as much as the links would cost alone, without the round trips.",
        returns="results and errors, each with its index, and counts. A bad item is an error of its index. atomic: all "
        "or nothing, and the first error is the answer.",
        next="Correct the items in errors and send those again.",
        before=_BEFORE,
        example=Step(
            tool="connects",
            arguments={
                "edges": [
                    {"source": "@stored", "target": "@recalled[0]", "relation": "supports"},
                    {"source": "@recalled[0]", "target": "@stored", "note": "said twice: the link is reinforced"},
                ],
                "atomic": True,
                **_HERE,
            },
        ),
    ),
    "record_outcome": ToolGuide(
        what="Says how much memories helped, from 1 (helped) to 0 (misled). Moves their rank within bounds, and links "
        "those that helped together.",
        when="A task that relied on recalled memories has ended, well or badly. Name those that you used, the most "
        "important first.",
        when_not="You only read them. You do not know the outcome yet. One is false: supersede_memory or verify_memory "
        "rejected says so, a low signal does not.",
        cost="One transaction, about 10 ms for a few memories. Pairs without room for a link are skipped.",
        returns="updated (the new usefulness of each), edges_created, edges_reinforced, edges_skipped, and skipped "
        "memories with the reason.",
        next="Store what you learned from the task with store_memory.",
        before=_BEFORE[:2],
        example=Step(tool="record_outcome", arguments={"memory_ids": ["@recalled[0]"], "signal": 0.9, **_HERE}),
    ),
}
