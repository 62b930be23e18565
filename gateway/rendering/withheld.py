"""Replies to callers without the scope `read`: ids, marks and numbers, without what others wrote. Pure.

Workers read no previews of references for such a caller. What the call itself says stays, since its caller knows it: a
note, and properties of the graph. The audit log is read with a scope of its own, and is left as it is.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.gateway.rendering.brief import BriefMemory, SimilarMemory
from engramq.schemas.commands import BatchConnected, Connected, EdgeAdded, NodeAdded, QueryConnected
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.records import GraphPreview, Link, MemoryPreview

NOTICE: Final = "Contents are left out: reading them needs the scope 'read'."

# What an author chooses: of each Struct, the field and what stands there instead.
HIDDEN: Final[Mapping[type[msgspec.Struct], Mapping[str, Any]]] = {
    BriefMemory: {
        "content": UNSET,
        "metadata": {},
        "tags": [],
        "project": None,
        "external_id": None,
        "speaker": None,
        "thread": None,
        "source_type": None,
    },
    SimilarMemory: {"preview": None},
    MemoryPreview: {"preview": None},
    GraphPreview: {"preview": None},
    Link: {"preview": None, "note": None},
    Connected: {"note": None},
    BatchLinked: {"note": None},
    QueryConnected: {"source_content": None, "target_content": None},
    NodeAdded: {"properties": {}},
    EdgeAdded: {"properties": {}},
}


def withheld(shape: msgspec.Struct, command: object = None) -> tuple[msgspec.Struct, bool]:
    """Return a reply in brief without contents, and whether it had any; `command` is what was asked."""
    hiding = _Hiding()
    match shape:
        case BatchConnected(results=results):
            # By its index: each link of a batch has a note of its own.
            said = getattr(command, "edges", ())
            shape = msgspec.structs.replace(
                shape, results=[hiding.of(one, said[one.index] if one.index < len(said) else None) for one in results]
            )
        case QueryConnected(connect_result=dict() as result):
            note = result.get("note")
            if note is not None and note != getattr(command, "note", UNSET):
                hiding.found = True
                shape = msgspec.structs.replace(shape, connect_result={**result, "note": None})
    return hiding.of(shape, command), hiding.found


class _Hiding:
    """Goes through one reply; `found`: something was hidden."""

    def __init__(self) -> None:
        self.found = False

    def of(self, node: Any, command: object) -> Any:
        """Return a value without contents, whatever Structs it is made of."""
        if isinstance(node, msgspec.Struct):
            return self._struct(node, command)
        if isinstance(node, list):
            return [self.of(item, command) for item in node]
        if isinstance(node, dict):
            return {key: self.of(value, command) for key, value in node.items()}
        return node

    def _struct(self, node: msgspec.Struct, command: object) -> msgspec.Struct:
        hidden = HIDDEN.get(type(node), {})
        instead: dict[str, Any] = {}
        for name in node.__struct_fields__:
            value = getattr(node, name)
            said = getattr(command, name, UNSET)
            kept = _said(value, said, hidden[name]) if name in hidden else self.of(value, command)
            if kept is not value:
                instead[name] = kept
        gone = [name for name, value in instead.items() if name in hidden and value != getattr(node, name)]
        if gone:
            self.found = True
            if isinstance(node, BriefMemory):
                instead["omitted_fields"] = gone
        return msgspec.structs.replace(node, **instead) if instead else node


def _said(value: Any, said: Any, instead: Any) -> Any:
    """Return what of a hidden field the caller has said in the same words, else what stands there instead."""
    if isinstance(value, dict) and isinstance(said, dict):
        return {key: one for key, one in value.items() if key in said and said[key] == one}
    return value if said is not UNSET and said == value else instead
