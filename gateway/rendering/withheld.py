"""Replies to callers without the scope `read`: ids, marks and numbers, without what others wrote. Pure.

Workers read no previews of references for such a caller. What the call itself says stays, since its caller knows it: a
note, and properties of the graph. The audit log is read with a scope of its own, and is left as it is.
"""

from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.gateway.rendering.brief import BriefMemory
from engramq.schemas.commands import QueryConnected
from engramq.schemas.commands.links import BatchLinked
from engramq.schemas.contents import changed, contents_of

NOTICE: Final = "Contents are left out: reading them needs the scope 'read'."


def withheld(reply: msgspec.Struct, command: object = None) -> tuple[msgspec.Struct, bool]:
    """Return a reply in brief without contents, and whether it had any; `command` is what was asked."""
    had_any = False

    def hide(node: msgspec.Struct) -> msgspec.Struct:
        nonlocal had_any
        said: Any = command
        if isinstance(node, BatchLinked):  # each link of a batch has a note of its own
            links = getattr(command, "edges", ())
            said = links[node.index] if node.index < len(links) else None
        kept = {
            name: _kept(getattr(node, name), getattr(said, name, UNSET), blank)
            for name, blank in contents_of(type(node)).items()
        }
        hidden = {name: value for name, value in kept.items() if value != getattr(node, name)}
        if isinstance(node, QueryConnected) and (result := node.connect_result) is not None:
            note = result.get("note")
            if note is not None and note != getattr(command, "note", UNSET):
                hidden["connect_result"] = {**result, "note": None}
        had_any = had_any or bool(hidden)
        if hidden and isinstance(node, BriefMemory):
            hidden["omitted_fields"] = list(hidden)
        return msgspec.structs.replace(node, **hidden) if hidden else node

    return changed(reply, hide), had_any


def _kept(value: Any, said: Any, blank: Any) -> Any:
    """Return what of a field the caller has said in the same words, else what stands there instead."""
    if isinstance(value, dict) and isinstance(said, dict):
        return {key: part for key, part in value.items() if key in said and said[key] == part}
    return value if said is not UNSET and said == value else blank
