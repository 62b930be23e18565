"""What a reply says of a thing that is not there: what it is, and where to look for the right one."""

from collections.abc import Mapping
from typing import Final, TypedDict

from engramq.schemas.vocabulary import Thing

# A sentence that names a tool stands alone: it is left out where the caller has no such tool.
HINTS: Final[Mapping[Thing, str]] = {
    Thing.MEMORY: "There is no memory of this id. search_memories finds those that there are, with their ids.",
    Thing.LINK: "There is nothing to remove. get_memory shows the links of a memory.",
    Thing.NODE: "Names and labels count exactly as written. get_node_by_name shows names that resemble one, and ids.",
    Thing.EDGE: "Names and relations count exactly as written. graph_list_edges shows a node's edges, with their ids.",
    Thing.PROPOSAL: "There is no proposal of this id. list_proposals shows those that there are.",
    Thing.TOPIC: "Give one of topics, or none for the way of working.",
    Thing.TOKEN: "There is no token of this id in the namespace. `engramq token list` shows all that there are.",
    Thing.DELETION: "`engramq graph deleted` lists what can be restored.",
    Thing.NAMESPACE: "`engramq tenant list` shows all that there are.",
}

# The same of what was asked for by its id.
HINTS_OF_IDS: Final[Mapping[Thing, str]] = {
    Thing.NODE: "There is no named node of this id. get_node_by_name shows a node's id.",
    Thing.EDGE: "There is no edge of this id. graph_list_edges shows a node's edges, with their ids.",
}


class Missing(TypedDict):
    """The fields beside `status: "not_found"` that every such reply has but get_edge's."""

    what: Thing
    hint: str


def missing(what: Thing, hint: str = "") -> Missing:
    """Return those fields; with the usual hint, unless there is a better one."""
    return Missing(what=what, hint=hint or HINTS[what])


def missing_id(what: Thing) -> Missing:
    """Return the fields of what was asked for by its id; of a thing that is only known by one, the usual."""
    return missing(what, HINTS_OF_IDS.get(what, ""))
