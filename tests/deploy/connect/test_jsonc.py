"""Changing one value of a JSON or TOML text leaves everything else as it was."""

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.deploy.connect.configuration import set_table, without_table
from engramq.deploy.connect.files import Unchangeable
from engramq.deploy.connect.jsonc import Path, append_item, read, remove_value, set_value

VALUE: dict[str, Any] = {"command": "x", "args": ["y"]}


@pytest.mark.parametrize(
    ("text", "path", "value", "changed"),
    [
        (
            '{\n    "a": {\n        "b": 1\n    }\n}\n',
            ("a", "c"),
            2,
            '{\n    "a": {\n        "b": 1,\n        "c": 2\n    }\n}\n',
        ),
        ('{\n  "a": 1 // one\n}', ("b",), 2, '{\n  "a": 1, // one\n  "b": 2\n}'),
        ('{\n\t"a": 1,\n}', ("b",), 2, '{\n\t"a": 1,\n\t"b": 2,\n}'),
        ("{\n  // nothing yet\n}", ("a",), 1, '{\n  // nothing yet\n  "a": 1\n}'),
        ('{"a": [1, 2], /* x */ "b": {"c": 3}}', ("b", "c"), 4, '{"a": [1, 2], /* x */ "b": {"c": 4}}'),
    ],
    ids=["in its indent", "before a comment", "with a last comma", "under comments alone", "in the old one's place"],
)
def test_a_value_is_written_the_way_of_the_file(text: str, path: Path, value: int, changed: str) -> None:
    assert set_value(text, path, value) == changed


def test_objects_on_the_way_are_made() -> None:
    assert read(set_value("{}", ("a", "b", "c"), VALUE)) == {"a": {"b": {"c": VALUE}}}


def test_the_same_value_changes_nothing() -> None:
    text = '{ "a" : {"b":1} }'
    assert set_value(text, ("a",), {"b": 1}) is text


def test_lines_of_windows_stay_so() -> None:
    changed = set_value('{\r\n  "a": 1\r\n}\r\n', ("b",), VALUE)
    assert changed.count("\n") == changed.count("\r\n") > 3
    assert read(changed) == {"a": 1, "b": VALUE}


def test_an_item_comes_to_the_end_of_a_list() -> None:
    assert read(append_item('{"a": [1, 2,]}', ("a",), 3)) == {"a": [1, 2, 3]}
    assert read(append_item("{}", ("a", "b"), 3)) == {"a": {"b": [3]}}


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ('{\n  "a": 1,\n  "b": 2\n}', ("b",), '{\n  "a": 1\n}'),
        ('{\n  "a": 1,\n  "b": 2\n}', ("a",), '{\n  "b": 2\n}'),
        ('{"a": {"b": {"c": 1}}, "d": 2}', ("a", "b", "c"), '{"d": 2}'),
        ('{"a": [1, 2, 3]}', ("a", 1), '{"a": [1, 3]}'),
        ('{"a": 1}', ("b",), '{"a": 1}'),
    ],
)
def test_a_value_goes_with_its_comma(text: str, path: Path, left: str) -> None:
    assert remove_value(text, path) == left


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"}', '{"a": }', "{'a': 1}", '{"a": 1 "b": 2}', '{"a": 1}}', "nonsense", '{"a": 01}', '{"a": "\n"}'],
)
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(Unchangeable):
        read(text)


def test_a_key_that_is_there_twice_is_refused() -> None:
    with pytest.raises(Unchangeable, match="'a' twice"):
        read('{"a": 1, "b": 2, "a": 3}')


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(Unchangeable, match="levels"):
        read("[" * 10_000)


def test_a_path_through_what_is_no_object_is_refused() -> None:
    with pytest.raises(Unchangeable, match="a is no object"):
        set_value('{"a": [1]}', ("a", "b"), 1)
    with pytest.raises(Unchangeable, match="a is no list"):
        append_item('{"a": {}}', ("a",), 1)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(max_size=3), plain, max_size=4), plain, st.sampled_from([None, 0, 2, "\t"]), st.booleans()
)
def test_added_and_taken_out_any_object_is_what_it_was(
    given_object: dict[str, Any], value: Any, indent: int | str | None, ascii_only: bool
) -> None:
    given_object.pop("new", None)
    text = json.dumps(given_object, indent=indent, ensure_ascii=ascii_only)
    changed = set_value(text, ("new", "one"), value)
    assert json.loads(changed) == {**given_object, "new": {"one": value}}
    assert json.loads(remove_value(changed, ("new", "one"))) == given_object


PATH = ("mcp_servers", "engramq")
ENTRY: dict[str, Any] = {"command": "/a b/engramq", "args": ["stdio"], "env": {"ENGRAMQ_HOME": "/home"}}


@pytest.mark.promise("RC-4")
@pytest.mark.parametrize(
    "text",
    [
        "",
        'model = "x"\n',
        "[mcp_servers]\n",
        'mcp_servers = {zed = {command = "z"}} # on one line\n',
        'mcp_servers = {engramq = {command = "old"}, zed = {command = "z"}}\n',
        'mcp_servers.zed.command = "z"\n',
        "[mcp_servers.a]\nx = 1\n[other]\ny = 2\n[mcp_servers.engramq]\nz = 1\n[mcp_servers.b]\nx = 1\n",
        '[mcp_servers.engramq.env]\nOLD = "1"\n[mcp_servers.zed]\ncommand = "z"\n',
        '["mcp_servers".\'engramq\']\ncommand = "old"\n',
    ],
)
def test_the_table_comes_in_and_out_and_all_else_stays(text: str) -> None:
    others = tomllib.loads(text).get("mcp_servers", {})
    others.pop("engramq", None)
    rest = {name: value for name, value in tomllib.loads(text).items() if name != "mcp_servers"}
    there = set_table(text, PATH, ENTRY)
    assert tomllib.loads(there) == {**rest, "mcp_servers": {**others, "engramq": ENTRY}}
    assert set_table(there, PATH, ENTRY) == there
    assert tomllib.loads(without_table(there, PATH)) == {**rest, **({"mcp_servers": others} if others else {})}


@pytest.mark.promise("RC-4")
def test_what_would_become_part_of_the_table_is_not_written() -> None:
    """Behind dotted keys there is no place for a table but the end, which tomlkit does not take."""
    with pytest.raises(Unchangeable, match="make it a table"):
        set_table('mcp_servers.zed.command = "z"\nmodel = "x"\n[tui]\ntheme = "dark"\n', PATH, ENTRY)
