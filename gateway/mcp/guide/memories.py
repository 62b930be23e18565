"""The guide to the tools on memories."""

from typing import Final

from engramq.gateway.mcp.guide.entry import Step, ToolGuide

_STORE_TEA: Final = Step(tool="store_memory", arguments={"content": "Ada prefers tea to coffee", "speaker": "Ada"})
_HERE: Final = {"session": "meetings"}
_STORE_OLD: Final = Step(
    tool="store_memory", arguments={"content": "The stand-up meeting is at 9:00 every day", **_HERE}
)
_STORE_NEW: Final = Step(
    tool="store_memory", arguments={"content": "The stand-up meeting moved to 9:30 every day", **_HERE}
)
_SEARCH_OLD: Final = Step(tool="search_memories", arguments={"query": "When is the stand-up meeting?", **_HERE})
_IT: Final = {"memory_id": "<stored.id>"}

ENTRIES: Final = {
    "store_memory": ToolGuide(
        what="Keeps one memory. When the reply says stored, it is committed and found by every later search.",
        when="You learned something that outlives this conversation: a preference, a decision with its reason, a fix, "
        "an outcome. One fact per memory, in a sentence that makes sense without the conversation.",
        when_not="Secrets. Chatter. What a similar memory in the last reply says already. Whole files: store what you "
        "concluded and where the file is.",
        cost="One embedding and one insert, about 20 ms; no LLM. Links to similar memories follow by themselves.",
        returns="stored (the id) and similar_memories, at most 5, best first. degraded: found by text now, by meaning "
        "once the model runs again. notice: it is kept apart, and what to do.",
        next="Give tags and, to keep it to a project, project. It holds for a time: valid_from, valid_until; is of "
        "use for a time: expires_at. Read similar_memories. One is out of date: supersede_memory with new_memory_id "
        "@stored. One is related: connect. Content from the web or somebody else you do not trust: give source_type, "
        "e.g. research.",
        example=_STORE_TEA,
    ),
    "search_memories": ToolGuide(
        what="Finds memories by meaning and by words, best first.",
        when="Before you act, plan or answer; once for the task in plain words, then once for each person, project or "
        "tool in it. Names and exact words count as much as meaning.",
        when_not="You have the id: get_memory. You want the latest whatever it says: list_recent_memories. You ask for "
        "a named fact between two things: get_edge.",
        cost="One embedding and one hybrid search, about 20 to 40 ms; no LLM. max_chars bounds what you have to read.",
        returns="memories with similarity (cosine, comparable across searches) and, if one came over a link, via. "
        "Something always comes back: hits marked weak are probably about something else. sector_source none: small "
        "talk and the like, in no sector; sector_confidence below .70: the sector is a guess.",
        next="Rely on a hit: say which, and afterwards record_outcome. Nothing found: ask in other words once, then go "
        'on without. What held at a time: as_of. partitions ["trusted", "untrusted"] shows research too.',
        before=(_STORE_TEA,),
        example=Step(tool="search_memories", arguments={"query": "What does Ada like to drink?", "limit": 3}),
    ),
    "list_recent_memories": ToolGuide(
        what="Lists memories by when they were stored, newest first.",
        when="You come back after a break, check what was just written, or walk through everything with the cursor. "
        'You review what is hidden: states ["archived"], verifications ["rejected"]. You know an external_id.',
        when_not="You look for something: search_memories ranks, this does not.",
        cost="One indexed read, a few milliseconds; no embedding.",
        returns="memories, count and next_cursor, null at the end.",
        next="Give next_cursor as cursor, with the same filters, for the next page.",
        before=(_STORE_TEA,),
        example=Step(tool="list_recent_memories", arguments={"limit": 20}),
    ),
    "get_memory": ToolGuide(
        what="Reads one memory by id, whatever its state, its links to memories that are not hidden, and all that it "
        "replaced.",
        when="You want to see why a memory is hidden (superseded_by, state, verification), follow its links, or check "
        "what you have just written.",
        when_not="You do not have an id. An untrusted one is not_found, with a hint, unless include_untrusted is true.",
        cost="Three indexed reads, a few milliseconds. Reading changes no rank.",
        returns="memory, links (memory_id is the other end) and replaces, or memory null with status not_found.",
        next="superseded_by is set: read that one. A link's memory_id: get_memory again.",
        before=(_STORE_TEA,),
        example=Step(tool="get_memory", arguments=_IT),
    ),
    "supersede_memory": ToolGuide(
        what="Replaces an old memory by a newer one: the old one leaves every search and list at once, but is kept.",
        when="A fact has changed, or was wrong and you have stored the right one.",
        when_not="Both are true: connect them (elaborates, contradicts). The old one should never have been stored: "
        "forget_memory. Only its speaker, date or sector is wrong: update_memory.",
        cost="One transaction, about 10 ms. restore_memory undoes it.",
        returns="old and new as they are now. Again with the same two: the same answer.",
        next="Nothing. already_superseded: the error names what replaced it; supersede that one.",
        before=(_STORE_OLD, _SEARCH_OLD, _STORE_NEW),
        example=Step(
            tool="supersede_memory", arguments={"old_memory_id": "@recalled[0]", "new_memory_id": "@stored", **_HERE}
        ),
    ),
    "update_memory": ToolGuide(
        what="Changes what is said about a memory: sector, metadata (merged), confidence, speaker, date, thread. "
        "clear empties fields and leaves out keys of metadata. valid_until ends a fact that nothing replaces.",
        when="The content is right and its description is not. A sector given here is final.",
        when_not="The content is wrong or has changed: store_memory, then supersede_memory. Content is never edited.",
        cost="One audited transaction, about 10 ms; no embedding.",
        returns="memory after the change, or not_found.",
        next="Nothing.",
        before=(_STORE_TEA,),
        example=Step(tool="update_memory", arguments={**_IT, "metadata": {"cups": 3}}),
    ),
    "forget_memory": ToolGuide(
        what="Hides a memory from every search and list; with erase it is removed for good, everywhere.",
        when="It is wrong and nothing replaces it. Erase: it holds what must not be kept, such as a password.",
        when_not="Something newer replaces it: supersede_memory keeps the history.",
        cost="One transaction, about 10 ms. To erase takes an id, no reference; another's memory, the admin scope.",
        returns="archived, erased or not_found, and the id. still_hidden: what it had replaced, and nothing replaces "
        "now.",
        next="Archived by mistake: restore_memory. Erased cannot be undone. One of still_hidden is right after all: "
        "restore_memory.",
        before=(_STORE_TEA,),
        example=Step(tool="forget_memory", arguments={**_IT, "reason": "Ada was joking"}),
    ),
    "restore_memory": ToolGuide(
        what="Brings back a memory that was archived or superseded, or has expired.",
        when="It was hidden by mistake, or the newer one turned out wrong.",
        when_not="It was erased: it is gone. It is rejected: verify_memory decides that.",
        cost="One transaction, about 10 ms.",
        returns="restored with the memory, or not_found.",
        next="If the newer one was wrong: forget_memory. degree_limit: its links count again, and the memory named has "
        "no room; disconnect one of that one's links first.",
        before=(_STORE_TEA, Step(tool="forget_memory", arguments=_IT)),
        example=Step(tool="restore_memory", arguments={**_IT, "reason": "it was right after all"}),
    ),
    "import_memories": ToolGuide(
        what="Keeps up to 1,000 memories in one call, all that are right in one transaction. Each is found by its "
        "words at once, and by meaning once it has its vector, which follows in the background, as do links.",
        when="You bring over what is written elsewhere: notes, a chat log, the facts of another memory.",
        when_not="One fact, or a few: store_memory shows what is similar and takes @stored. A file: the operator's "
        "`engramq import` reads it, whatever its size, and knows its rows again.",
        cost="About a second for 1,000 new rows, five where all change; the model works in the background. A receipt "
        "has 100 characters.",
        returns="accepted and rejected, in rows, and command_id. accepted rows are safe: stored, updated, or there "
        "already.",
        next="rejected is not 0: get_command shows a receipt for each row, with its index, and field and error of a "
        "rejected one. Send those again, corrected. external_id makes that safe: on_duplicate skip leaves a known one "
        "alone, update writes what the row names.",
        example=Step(
            tool="import_memories",
            arguments={
                "records": [
                    {"content": "Ada prefers tea to coffee", "speaker": "Ada", "external_id": "notes-1"},
                    {"content": "The stand-up meeting is at 9:30", "external_id": "notes-2", "tags": ["meetings"]},
                    {"content": " ", "external_id": "notes-3"},
                ]
            },
        ),
    ),
}
