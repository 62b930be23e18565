"""That no reply to who may not read has contents anywhere, and texts in words for an audience that lacks some tools."""

from typing import Final

import msgspec
import pytest

from engramq.gateway.brief import BRIEF_FORMS
from engramq.gateway.mcp.audience import audience_with, omit_unavailable, reword_body, reword_for
from engramq.schemas.commands import TOOLS
from engramq.schemas.commands.links import Resolved
from engramq.schemas.contents import contents_of
from engramq.schemas.vocabulary import Scope

# Texts and objects in replies to writes that no author chooses at will, or that the caller has just said.
HARMLESS: Final = {
    "status", "summary", "error", "hint", "notice", "warning", "what", "action", "code", "recovery", "field", "reason",
    "relation", "removed_relation", "source_query", "target_query", "effect", "signal", "state", "resolution", "at",
    "created_at", "updated_at", "occurred_at", "valid_from", "valid_until", "expires_at", "superseded_at",
    "promoted_at", "accessed_at", "restore_until", "superseded_by", "supersedes", "created_by", "by", "promoted_by",
    "proposed_by", "approved_by", "omitted_fields", "edge_ids", "explain", "resolved_references", "connect_result",
    "label", "name", "source_label", "target_label", "edges_skipped_by", "old_verification", "new_verification",
    "digest", "built_on",
}  # fmt: skip


def structs_of_writes() -> set[type[msgspec.Struct]]:
    """Return every Struct that brief replies to the tools of other scopes than read and admin are made of."""
    tools = [tool for tool in TOOLS.values() if tool.scope in (Scope.WRITE, Scope.VERIFY)]
    assert len(tools) > 10
    waiting = [
        *msgspec.inspect.multi_type_info([BRIEF_FORMS.get(reply, reply) for tool in tools for reply in tool.replies])
    ]
    found: set[type[msgspec.Struct]] = set()
    while waiting:
        match waiting.pop():
            case msgspec.inspect.StructType(cls=cls, fields=fields) if cls not in found:
                found.add(cls)
                waiting += [field.type for field in fields]
            case msgspec.inspect.UnionType(types=types):
                waiting += types
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.Metadata(type=item):
                waiting.append(item)
            case msgspec.inspect.DictType(value_type=value):
                waiting.append(value)
    return found - {Resolved}


def free_texts(struct: type[msgspec.Struct]) -> set[str]:
    """Return the fields that can hold words of an author's: texts that are no ids, lists of texts, free objects."""

    def is_free(kind: msgspec.inspect.Type) -> bool:
        match kind:
            case msgspec.inspect.StrType() | msgspec.inspect.AnyType():
                return True
            case msgspec.inspect.UnionType(types=types):
                return any(is_free(entry) for entry in types)
            case msgspec.inspect.ListType(item_type=item) | msgspec.inspect.Metadata(type=item):
                return is_free(item)
            case msgspec.inspect.DictType(value_type=value):
                return is_free(value)
        return False

    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return {
        field.name
        for field in info.fields
        if is_free(field.type) and field.name != "id" and not field.name.endswith("_id")
    }


@pytest.mark.promise("SE-17")
def test_every_text_of_an_author_in_replies_to_writes_is_hidden() -> None:
    shown = {
        f"{struct.__name__}.{name}"
        for struct in structs_of_writes()
        for name in free_texts(struct) - contents_of(struct).keys() - HARMLESS
    }
    assert shown == set()


FULL = "Ask for the full profile."
TOKEN = "Ask for a token."
CORE = audience_with({"connect", "search_memories"}, {"connects": FULL, "guide": FULL, "verify_memory": TOKEN})
EVERYBODY = audience_with({"connect", "guide"}, {})


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Nothing to leave out. At all!", "Nothing to leave out. At all!"),
        ("Call connect. guide tells more.", "Call connect."),
        ("guide tells more. Call connect.", "Call connect."),
        ("Many, e.g. by connects, i.e. at once. Call connect!", "Call connect!"),
        ("Does connects do it? Call connect(x).", "Call connect(x)."),
        ("guide(topic=TOOL) tells.", ""),
        ("Read engramq://guide or @guide or my_guide or guided.",) * 2,
        ("Guide and Connects begin sentences as words.",) * 2,
    ],
)
def test_sentences_that_name_an_absent_tool_are_left_out(text: str, left: str) -> None:
    assert omit_unavailable(text, CORE) == left
    assert omit_unavailable(text, EVERYBODY) == text


@pytest.mark.promise("AG-16")
def test_what_was_left_out_is_told_where_to_have_once_and_never_leaves_nothing() -> None:
    assert reword_for("Call connect.", CORE) == "Call connect."
    assert reword_for("Call guide. Call connects.", CORE) == FULL
    assert reword_for("Call guide. Wait. Call verify_memory.", CORE) == f"Wait. {FULL} {TOKEN}"


@pytest.mark.promise("AG-16")
def test_a_body_is_worded_where_it_tells_its_reader_what_to_do_and_nowhere_else() -> None:
    said = "Call guide."
    body = {
        "status": "success",
        "hint": said,
        "notice": said,
        "summary": said,
        "memory": {"content": said, "hint": said, "errors": [{"recovery": said}]},
        "errors": [{"recovery": said, "error": said}, {"recovery": "Wait."}],
        "reply": {"recovery": said, "connect_result": {"recovery": said}, "resolved": {"recovery": said}},
        "results": [{"resolved": {"recovery": said}}],
    }
    assert reword_body(body, CORE) == {
        **body,
        "hint": FULL,
        "notice": FULL,
        "errors": [{"recovery": FULL, "error": said}, {"recovery": "Wait."}],
        "reply": {"recovery": FULL, "connect_result": {"recovery": FULL}, "resolved": {"recovery": FULL}},
        "results": [{"resolved": {"recovery": FULL}}],
    }
    assert body["hint"] == said, "the reply itself, which others may hold, stays as it is"
