"""What the page says of things that have a word of their own."""

from collections.abc import Mapping
from typing import Final

# The parts of which a score is the sum, as search's `explain` names them.
PART_MEANINGS: Final[Mapping[str, str]] = {
    "lexical": "words of the question in it",
    "similarity": "meaning: the cosine of the vectors",
    "tells_self": "its speaker tells of themselves",
    "only_asks": "it only asks",
    "speaker": "the question names its speaker",
    "time_words": "it has words of time, and the question asks when",
    "date": "it is of the date in the question",
    "next_to": "what stands next to it matches",
    "near_to": "what stands near it matches",
    "answers": "it answers a question that matches",
    "best_of_thread": "the best match of its thread",
    "links": "links to other good matches",
    "usefulness": "how useful it has proved",
    "recency": "how long it has lain idle",
}

# What a form has done, as the next page says it.
DONE: Final[Mapping[str, str]] = {
    "archived": "The memory is archived. Searches do not show it; Restore brings it back.",
    "erased": "The memory is erased for good.",
    "restored": "The memory is back.",
    "verified": "The verification is changed.",
    "promoted": "The memory is trusted now: searches show it.",
    "already_trusted": "The memory was trusted already.",
    "updated": "The memory is set back to what it was.",
    "made_before": "That token was made before and is shown once. If it was not noted, revoke it and make another one.",
    "revoked": "The token counts no longer, in half a minute at the latest.",
    "already_revoked": "The token did not count any more.",
    "graph_restored": "What was deleted is back in the graph.",
    "already_restored": "It had been brought back before.",
    "recorded": "Your decision is recorded.",
    "pending": "It takes longer than usual. The change will be made; load the page again in a moment.",
    "signed_out": "You are signed out.",
}

ACTIONS: Final[Mapping[str, str]] = {
    "supersede": "superseded", "update": "updated", "archive": "archived", "erase": "erased", "restore": "restored",
    "reclassify": "reclassified", "update_edge": "changed an edge", "update_node": "changed a node",
    "delete_edge": "deleted an edge", "delete_node": "deleted a node", "restore_edge": "restored an edge",
    "restore_node": "restored a node", "propose": "proposed", "decide": "decided", "connect": "linked",
    "disconnect": "unlinked", "resolve_deferred": "settled a waiting link", "outcome": "recorded an outcome",
    "verify": "verified", "promote": "promoted", "purge": "purged", "create_token": "made a token",
    "revoke_token": "revoked a token",
}  # fmt: skip


def kind_of_part(name: str) -> str:
    """Return what a part of a score is, in words; its own name where nobody has written any."""
    return PART_MEANINGS.get(name, name)
