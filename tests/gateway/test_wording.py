"""Texts in the words of a reader who lacks some tools."""

import pytest

from engramq.gateway.mcp.audience import kept, reader, worded, worded_body

FULL = "Ask for the full profile."
TOKEN = "Ask for a token."
CORE = reader({"connect", "search_memories"}, {"connects": FULL, "guide": FULL, "verify_memory": TOKEN})
EVERYBODY = reader({"connect", "guide"}, {})


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
    assert kept(text, CORE) == left
    assert kept(text, EVERYBODY) == text


@pytest.mark.promise("AG-16")
def test_what_was_left_out_is_told_where_to_have_once_and_never_leaves_nothing() -> None:
    assert worded("Call connect.", CORE) == "Call connect."
    assert worded("Call guide. Call connects.", CORE) == FULL
    assert worded("Call guide. Wait. Call verify_memory.", CORE) == f"Wait. {FULL} {TOKEN}"


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
    assert worded_body(body, CORE) == {
        **body,
        "hint": FULL,
        "notice": FULL,
        "errors": [{"recovery": FULL, "error": said}, {"recovery": "Wait."}],
        "reply": {"recovery": FULL, "connect_result": {"recovery": FULL}, "resolved": {"recovery": FULL}},
        "results": [{"resolved": {"recovery": FULL}}],
    }
    assert body["hint"] == said, "the reply itself, which others may hold, stays as it is"
