"""What arguments may come as: null and blank words, numbers, booleans, lists, objects and times in other forms."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from msgspec import UNSET

from engramq.gateway.mcp.arguments import AROUND, Arguments, check_arguments, parameters_of
from engramq.schemas.commands import OPERATOR_TOOLS, TOOLS, Connects, SearchMemories, StoreMemory, Tool
from engramq.schemas.faults import EngramqError
from engramq.schemas.fields import OPAQUE
from engramq.schemas.ids import uuid7
from tests.gateway.test_arguments import MINIMAL, kind_of

# Texts that may be any word, this one too.
WORDS = frozenset(
    {
        *("speaker", "note", "reason", "relation", "guard_relation", "label", "source_label", "target_label"),
        *("start_label", "end_label", "topic"),
    }
)
DAY = datetime(2026, 1, 31, tzinfo=UTC)


def checked(tool: str, **given: Any) -> Any:
    return check_arguments(TOOLS[tool], {**MINIMAL[tool], **given}).parameters


def refused(tool: str, **given: Any) -> str:
    """Return the parameter that the refusal of a call names, nothing where the call is taken."""
    try:
        checked(tool, **given)
    except EngramqError as refusal:
        return str(refusal.fault.field)
    return ""


def is_list(tool: Tool, name: str) -> bool:
    return bool(parameters_of(tool)[name].schema["type"] == "array")


# A list of one item for each parameter that is a list.
FITTING: Final[dict[str, list[Any]]] = {
    "tags": ["home"], "add_tags": ["home"], "remove_tags": ["home"], "evidence": [{"path": "a.py"}],
    "clear": ["project"], "partitions": ["untrusted"], "sectors": ["semantic"], "states": ["archived"],
    "verifications": ["rejected"], "memory_ids": ["m"], "edges": [{"source": "a", "target": "b"}],
    "records": [{"content": "x"}],
}  # fmt: skip


def without(tool: Tool, name: str) -> Arguments:
    return check_arguments(tool, {key: value for key, value in MINIMAL[tool.name].items() if key != name})


def test_every_list_of_every_call_has_a_bound() -> None:
    calls = {tool.name: tool for tool in (*TOOLS.values(), *OPERATOR_TOOLS)}.values()
    lists = [(tool.name, parameter) for tool in calls for parameter in parameters_of(tool).values()]
    assert [
        (tool, parameter.name)
        for tool, parameter in lists
        if parameter.schema["type"] == "array" and "maxItems" not in parameter.schema
    ] == []


@pytest.mark.promise("AG-7")
def test_null_and_blank_words_mean_not_given() -> None:
    for tool in TOOLS.values():
        for name, parameter in parameters_of(tool).items():
            if parameter.required or (tool.name, name) == ("graph_list_edges", "node_name"):
                continue  # it takes either this or edge_id
            expected = without(tool, name)
            for value in (None, "", *(["null"] if name not in WORDS else [])):
                assert check_arguments(tool, {**MINIMAL[tool.name], name: value}) == expected, (tool.name, name, value)


@pytest.mark.promise("AG-7")
def test_a_word_that_may_be_meant_is_kept() -> None:
    for tool in TOOLS.values():
        for name, parameter in parameters_of(tool).items():
            if name in WORDS and not parameter.required:
                assert parameter.check("null") == "null", (tool.name, name)
    assert {name for tool in TOOLS.values() for name in parameters_of(tool)} >= WORDS


@pytest.mark.promise("AG-7", "AG-9")
def test_what_is_wanted_is_still_wanted() -> None:
    for tool in TOOLS.values():
        for name, parameter in parameters_of(tool).items():
            if parameter.required and kind_of(dict(parameter.schema)) != "any text":
                for value in (None, ""):
                    assert refused(tool.name, **{name: value}) == name, (tool.name, value)
    assert refused("store_memory", speaker=" ") == "speaker"
    assert refused("store_memory", nothing=None) == "nothing"


@pytest.mark.promise("AG-7")
def test_null_counts_as_left_out_in_the_items_of_a_batch() -> None:
    edges = [
        {"source": "a", "target": "b", "note": None, "weight": "", "if_exists": "null"},
        {"source": "a", "target": None},
    ]
    command = check_arguments(TOOLS["connects"], {"edges": edges, "atomic": None}).parameters
    assert isinstance(command, Connects)
    assert command.edges[0].fault is UNSET
    assert command.edges[0].note is UNSET
    assert command.edges[1].fault is not UNSET
    assert command.edges[1].fault.field == "target"


@pytest.mark.promise("AG-8")
def test_the_items_of_a_batch_may_come_as_json() -> None:
    command = checked("connects", edges=['{"source": "a", "target": "b", "weight": "0.5"}', '["a"]'])
    assert (command.edges[0].source, command.edges[0].weight) == ("a", 0.5)
    assert command.edges[1].fault.field == "edges"


@pytest.mark.promise("AG-7")
def test_an_alias_that_is_null_is_left_out() -> None:
    usual = MINIMAL["memory_promote_to_trusted"]["record_id"]
    assert checked("memory_promote_to_trusted", recordId=None).record_id == usual
    tool = TOOLS["memory_promote_to_trusted"]
    for nothing in ("", "null", None):
        assert checked("memory_promote_to_trusted", recordId=nothing).record_id == usual, nothing
    assert check_arguments(tool, {"record_id": None, "recordId": "n"}).parameters.record_id == "n"  # type: ignore[attr-defined]


@pytest.mark.promise("AG-8")
@pytest.mark.parametrize(
    ("tool", "name", "texts"),
    [
        ("search_memories", "limit", {"5": 5, " 7 ": 7, "5.0": 5, "1e1": 10, "50": 50}),
        ("store_memory", "confidence", {"0": 0.0, "0.25": 0.25, "1": 1.0, "5e-1": 0.5, ".9": 0.9}),
    ],
)
def test_numbers_may_come_as_text(tool: str, name: str, texts: dict[str, float]) -> None:
    assert {text: getattr(checked(tool, **{name: text}), name) for text in texts} == texts


@pytest.mark.promise("AG-9")
def test_what_is_no_such_number_is_refused() -> None:
    for text in ["five", "0x5", "NaN", "Infinity", "-inf", "1_0", "5,0", "05", "0", "51", "5.5", "١"]:
        assert refused("search_memories", limit=text) == "limit", text


@pytest.mark.promise("AG-8", "AG-9")
def test_booleans_may_come_as_words() -> None:
    for word, value in (("true", True), ("False", False), (" TRUE ", True)):
        assert checked("search_memories", explain=word).explain is value, word
    for wrong in ("yes", "1", "on", 1, 0):
        assert refused("search_memories", explain=wrong) == "explain", wrong


@pytest.mark.promise("AG-8", "AG-9")
def test_an_object_may_come_as_json_and_nothing_in_it_is_touched() -> None:
    inside = {"a": None, "b": "5", "c": "", "d": ["true", "2026-01-31"], "e": {"f": "null"}}
    for given in (inside, '{"a": null, "b": "5", "c": "", "d": ["true", "2026-01-31"], "e": {"f": "null"}}'):
        assert checked("store_memory", metadata=given).metadata == inside, given
    assert checked("graph_add_node", properties=' {"born": 1815}').properties == {"born": 1815}
    for wrong in ("[1]", "5", "{", '{"a": "\\u0000"}', '{"a": 1e999}', "{" * 100_000, '{"a": "\ud800"}'):
        assert refused("store_memory", metadata=wrong) == "metadata", wrong[:40]


@pytest.mark.promise("AG-8")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2026-01-31T09:00:00Z", DAY.replace(hour=9)),
        ("2026-01-31T09:00:00+02:00", DAY.replace(hour=7)),
        ("2026-01-31T09:00:00", DAY.replace(hour=9)),
        ("2026-01-31 09:00:00.25", DAY.replace(hour=9, microsecond=250_000)),
        ("2026-01-31T09:00", DAY.replace(hour=9)),
        ("2026-01-31", DAY),
    ],
)
def test_a_time_may_have_no_zone_and_be_a_day(given: str, expected: datetime) -> None:
    assert checked("store_memory", occurred_at=given).occurred_at == expected
    assert checked("search_memories", since=given).since == expected


@pytest.mark.promise("AG-8")
def test_a_time_may_have_no_seconds_and_blanks_around_it() -> None:
    for given in ("2026-01-31T09:00Z", " 2026-01-31T09:00:00Z\n", "2026-01-31 11:00+02:00", "2026-01-31 09:00 UTC"):
        assert checked("search_memories", since=given).since == DAY.replace(hour=9), given
    assert checked("search_memories", since=" 2026-01-31 ").since == DAY


@pytest.mark.promise("AG-9")
def test_a_wrong_time_is_told_as_it_was_written() -> None:
    for wrong in ("2026-02-30", "2026-01-31T24:00:00", "2026-01-31T09", "last week", "2026-01"):
        with pytest.raises(EngramqError, match=f"not '{wrong}'"):
            checked("search_memories", since=wrong)


COPIES: Final = [
    (tool.name, name)
    for tool in TOOLS.values()
    for name, parameter in parameters_of(tool).items()
    if OPAQUE in (parameter.schema.get("format"), parameter.schema.get("items", {}).get("format"))
]


@pytest.mark.promise("AG-8")
@pytest.mark.parametrize(
    "around", [" {} ", "`{}`", '"{}"', "'{}'", "**{}**", "<{}>", "({})", "“{}”", "{}.", '"`{}`",\n']
)
def test_what_is_copied_from_a_reply_may_stand_in_quotes(around: str) -> None:
    assert {name for _, name in COPIES} >= {"memory_id", "edge_id", "proposal_id", "command_id", "cursor", "seen"}
    for tool, name in COPIES:
        rest = {"node_name": None} if (tool, name) == ("graph_list_edges", "edge_id") else {}
        plain: Any = ["x-1_y="] if is_list(TOOLS[tool], name) else "x-1_y="
        quoted = [around.format("x-1_y=")] if isinstance(plain, list) else around.format(plain)
        assert checked(tool, **rest, **{name: quoted}) == checked(tool, **rest, **{name: plain}), (tool, name)
    (edge,) = checked("connects", edges=[{"source": around.format("a"), "target": "b"}]).edges
    assert edge.source == "a"
    (cited,) = checked("store_memory", evidence=[{"memory_id": around.format("a")}]).evidence
    assert cited.memory_id == "a"


@pytest.mark.promise("AG-9")
@pytest.mark.parametrize(
    ("evidence", "named"),
    [([{"file": "a.py"}], "not one with 'file' in it"), ([{"path": 5}], r"not one in which \[0\].path is wrong")],
)
def test_evidence_in_another_form_is_refused_with_what_is_wrong_in_it(evidence: list[Any], named: str) -> None:
    with pytest.raises(EngramqError, match=named):
        checked("store_memory", evidence=evidence)


@pytest.mark.promise("AG-8")
def test_a_day_at_the_end_of_a_span_stands_for_its_last_instant() -> None:
    command = checked("search_memories", since="2026-01-31", until="2026-01-31")
    assert isinstance(command, SearchMemories)
    assert (command.since, command.until) == (DAY, DAY + timedelta(days=1, microseconds=-1))


@pytest.mark.promise("KN-6")
@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Europe/Amsterdam", "America/New_York"])
def test_a_day_before_standard_time_is_one(zone: str) -> None:
    given = {**MINIMAL["search_memories"], "since": "1880-01-01"}
    command = check_arguments(TOOLS["search_memories"], given, ZoneInfo(zone)).parameters
    assert isinstance(command, SearchMemories)
    local = datetime(1880, 1, 1, tzinfo=ZoneInfo(zone))
    assert abs(command.since - local) <= timedelta(seconds=30)  # type: ignore[operator]


LISTS: Final = [(tool.name, name) for tool in TOOLS.values() for name in parameters_of(tool) if is_list(tool, name)]


@pytest.mark.promise("CL-3")
def test_every_list_may_come_as_json_text_and_as_its_single_item() -> None:
    for tool, name in LISTS:
        items = FITTING[name]
        expected = getattr(checked(tool, **{name: items}), name)
        assert expected, (tool, name)
        for given in (json.dumps(items), f" {json.dumps(items)}\n", items[0], json.dumps(items[0])):
            if isinstance(items[0], str) and given == json.dumps(items[0]):
                continue  # a text in quotes is a text with quotes
            assert getattr(checked(tool, **{name: given}), name) == expected, (tool, name, given)


@pytest.mark.promise("CL-3")
@pytest.mark.parametrize("form", ["{}, {}", "{},{}", "[{}, {}]", "['{}', '{}']", "{} {}", "`{}`, `{}`", " {};\n{} "])
def test_ids_may_come_in_one_text_and_so_may_words_of_an_enumeration(form: str) -> None:
    for first, second in ((uuid7(), uuid7()), ("@recalled[0]", "@recalled[1]"), (uuid7().upper(), "@stored")):
        assert checked("record_outcome", memory_ids=form.format(first, second)).memory_ids == (first, second)
    both = checked("search_memories", partitions=form.format("trusted", "untrusted").strip("`")).partitions
    assert both == ("trusted", "untrusted")


@pytest.mark.promise("CL-3")
def test_no_id_and_no_word_is_taken_out_of_a_sentence() -> None:
    bad, denied = uuid7(), uuid7()
    for text in (f"{bad} was bad, not {denied}", f"- {bad}\n- {denied}", f"{bad} and {denied}", "a, b", f"[{bad}, x]"):
        assert refused("record_outcome", memory_ids=text) == "memory_ids", text
    for text in ("trusted, not untrusted", "trusted or untrusted", "- trusted\n- untrusted"):
        assert refused("search_memories", partitions=text) == "partitions", text
    assert checked("record_outcome", memory_ids="`a-1`,").memory_ids == ("a-1",)


@pytest.mark.promise("AG-8")
@pytest.mark.parametrize("around", ["'{}'", '"{}"', "`{}`", " “{}”. ", "{} "])
def test_times_and_words_of_an_enumeration_may_stand_in_quotes(around: str) -> None:
    assert checked("search_memories", since=around.format("2026-01-31")).since == DAY
    assert checked("search_memories", since=around.format("2026-01-31T09:00:00Z")).since == DAY.replace(hour=9)
    for given in ([around.format("trusted")], around.format("trusted")):
        assert checked("search_memories", partitions=given).partitions == ("trusted",), given
    assert checked("update_memory", sector=around.format("semantic")).sector == "semantic"


@pytest.mark.promise("CL-3", "AG-8")
def test_all_arguments_may_come_as_json_text() -> None:
    assert check_arguments(TOOLS["search_memories"], '{"query": "tea"}').parameters == SearchMemories(query="tea")


@pytest.mark.promise("CL-3")
def test_two_items_may_come_as_json_text() -> None:
    assert checked("store_memory", tags='["a", "b"]').tags == ("a", "b")
    assert checked("store_memory", tags="[wip] draft").tags == ("[wip] draft",)
    assert checked("update_memory", memory_id="m", clear='["project", "thread"]').clear == ("project", "thread")
    cited = checked("store_memory", evidence=['{"path": "a.py"}', {"path": "b.py"}]).evidence
    assert [each.path for each in cited] == ["a.py", "b.py"]


@pytest.mark.promise("CL-3")
def test_what_is_no_such_list_is_refused_by_name() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("store_memory", {"tags": [["a"]]}), ("store_memory", {"tags": '[["a"]]'}),
        ("store_memory", {"tags": "['a', 'b']"}), ("search_memories", {"tags": ' ["a"', "query": "q"}),
        ("store_memory", {"tags": 5}), ("store_memory", {"tags": {"a": 1}}), ("store_memory", {"evidence": "a.py"}),
        ("store_memory", {"evidence": '[{"path": "a.py"'}), ("search_memories", {"partitions": "untrustworthy"}),
        ("search_memories", {"partitions": "[]"}),
        ("import_memories", {"records": json.dumps([{"content": "x"}] * 1_001)}), ("import_memories", {"records": 5}),
        ("record_outcome", {"memory_ids": "[" * 100_000}),
    ]  # fmt: skip
    for tool, given in wrong:
        assert refused(tool, **given) == next(iter(given)), (tool, str(given)[:80])


@pytest.mark.promise("CL-3")
def test_a_word_in_capitals_is_refused_with_the_word_that_is_wanted() -> None:
    for tool, name, given, wanted in (
        ("search_memories", "sectors", ["Emotional"], "emotional"),
        ("search_memories", "sectors", "SEMANTIC ", "semantic"),
        ("list_recent_memories", "states", '["Archived"]', "archived"),
        ("update_memory", "sector", "Episodic", "episodic"),
    ):
        with pytest.raises(EngramqError) as caught:
            checked(tool, **{name: given})
        fault = caught.value.fault
        assert (fault.field, f"Write {wanted!r}" in fault.recovery) == (name, True), (tool, given)


@pytest.mark.promise("AG-8")
def test_requests_that_mean_the_same_are_the_same_command() -> None:
    plain = StoreMemory(content="x", confidence=0.5, metadata={"a": 1})
    assert checked("store_memory", content="x", confidence="0.5", metadata='{"a": 1}', speaker=None) == plain


def test_what_stands_around_a_command_is_lenient_too() -> None:
    around = {"session": "null", "idempotency_key": "", "detail": None, "max_chars": "900"}
    arguments = check_arguments(TOOLS["store_memory"], {"content": "x", **around})
    assert [getattr(arguments, name) for name in AROUND] == [None, None, None, 900]
    assert arguments.parameters == StoreMemory(content="x")
