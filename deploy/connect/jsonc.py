"""Change one value in a JSON text and leave every other character as it is: comments, order, indents, commas.

Takes what editors take in their settings: JSON with // and /* */ comments and with commas after a last item (JSONC).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # its stub leaves it out
from typing import Any, Final

from engramq.deploy.connect.files import Unchangeable

Path = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_INDENT: Final = re.compile(r"\n([ \t]+)\S")
_LINE_END: Final = re.compile(r"[ \t]*\r?\n")
_DEPTH: Final = 200  # levels; nobody's settings have as many


@dataclass(slots=True)
class Item:
    """A member of an object or an item of a list: from `start` on, up to its value's end; then perhaps a comma."""

    start: int
    value: Node
    comma: int | None = None


@dataclass(slots=True)
class Node:
    """A value and where it stands. Its items are by key or by number."""

    start: int
    end: int = 0
    plain: Any = None
    items: dict[str | int, Item] = field(default_factory=dict)


def read(text: str) -> Any:
    """Return the value that a text is; raises Unchangeable saying where it is none."""
    return _parse(text).plain


def require_plain(text: str, *, comments: bool) -> None:
    """Raise Unchangeable for what a client cannot read that takes no comma after a last item, and maybe no comments."""
    if not text.strip():
        return
    root = _parse(text)
    nodes = [root]
    for node in nodes:
        nodes += [item.value for item in node.items.values()]
        last = next(reversed(node.items.values()), None)
        if last is not None and last.comma is not None:
            raise _broken(text, last.comma)
    if not comments:
        try:
            json.loads(text)
        except json.JSONDecodeError as problem:
            raise _broken(text, problem.pos) from None


def set_value(text: str, path: Path, value: Any) -> str:
    """Return the text with a value at a path of keys, where objects on the way are made when they are missing.

    Raises Unchangeable when the text is none, or has no object where the path needs one.
    """
    root = _parse(text)
    node, rest = _follow(root, path)
    if not rest:
        if node.plain == value:
            return text
        return text[: node.start] + _dump(value, text, _indent_at(text, node.start)) + text[node.end :]
    if not isinstance(node.plain, dict):
        raise Unchangeable(f"{_name(path[: len(path) - len(rest)])} is no object")
    for key in reversed(rest[1:]):
        value = {key: value}
    return _add_text(text, node, json.dumps(rest[0], ensure_ascii=False) + ": ", value)


def append_item(text: str, path: Path, value: Any) -> str:
    """Return the text with one more value at the end of the list at a path, which is made when it is missing.

    Raises Unchangeable as `with_value` does, and when there is no list.
    """
    node, rest = _follow(_parse(text), path)
    if rest:
        return set_value(text, path, [value])
    if not isinstance(node.plain, list):
        raise Unchangeable(f"{_name(path)} is no list")
    return _add_text(text, node, "", value)


def remove_value(text: str, path: Path) -> str:
    """Return the text without the value at a path, and without what is empty then on the way to it."""
    root = _parse(text)
    if _follow(root, path)[1]:
        return text
    for depth in range(len(path) - 1, 0, -1):
        above, _ = _follow(root, path[:depth])
        if len(above.items) > 1:
            break
        path = path[:depth]
    parent, _ = _follow(root, path[:-1])
    return _remove_text(text, parent, path[-1])


def _parse(text: str) -> Node:
    start = _blank(text, 0)
    try:
        node = _node(text, start, 0)
    except json.JSONDecodeError as problem:
        raise _broken(text, problem.pos) from None
    end = _blank(text, node.end)
    if end != len(text):
        raise _broken(text, end)
    return node


def _node(text: str, at: int, depth: int) -> Node:
    if depth > _DEPTH:
        raise Unchangeable(f"it has more than {_DEPTH} levels")
    opening = text[at : at + 1]
    if opening in {"{", "["}:
        return _container(text, at, depth)
    if opening == '"':
        plain, end = scanstring(text, at + 1)
        return Node(at, end, plain)
    found = _SCALAR.match(text, at)
    if found is None:
        raise _broken(text, at)
    return Node(at, found.end(), json.loads(found[0]))


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    node = Node(start, plain={} if is_object else [])
    at = _blank(text, start + 1)
    while text[at : at + 1] != closing:
        begun = at
        key: str | int = len(node.items)
        if is_object:
            if text[at : at + 1] != '"':
                raise _broken(text, at)
            key, at = scanstring(text, at + 1)
            if key in node.items:
                raise Unchangeable(f"it has {key!r} twice in one object")
            at = _blank(text, at)
            if text[at : at + 1] != ":":
                raise _broken(text, at)
            at = _blank(text, at + 1)
        value = _node(text, at, depth + 1)
        item = Item(begun, value)
        node.items[key] = item
        at = _blank(text, value.end)
        if text[at : at + 1] == ",":
            item.comma = at
            at = _blank(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _broken(text, at)
    node.end = at + 1
    values = {key: item.value.plain for key, item in node.items.items()}
    node.plain = values if is_object else list(values.values())
    return node


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    assert found is not None  # it matches the empty text
    return found.end()


def _broken(text: str, at: int) -> Unchangeable:
    line = text.count("\n", 0, at) + 1
    return Unchangeable(f"line {line}, column {at - text.rfind(chr(10), 0, at)} is no JSON")


def _follow(node: Node, path: Path) -> tuple[Node, Path]:
    """Return the node that is reached on a path, and what is left of the path there."""
    for number, key in enumerate(path):
        if key not in node.items:
            return node, path[number:]
        node = node.items[key].value
    return node, ()


def _add_text(text: str, node: Node, label: str, value: Any) -> str:
    """Return the text with one more item at the end of an object or list."""
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, node.start)
    inner = outer + _unit(text)
    last = list(node.items.values())[-1] if node.items else None
    if last is not None and text[: last.start].rstrip(" \t").endswith("\n"):
        inner = _indent_at(text, last.start)
    end_of_items = _end_of_content(text, node)
    before, between = text[:end_of_items], text[end_of_items : node.end - 1]
    if last is not None and last.comma is None:
        before = before[: last.value.end] + "," + before[last.value.end :]
    comma = "," if last is not None and last.comma is not None else ""
    closing = between if "\n" in between else newline + outer
    return f"{before}{newline}{inner}{label}{_dump(value, text, inner)}{comma}{closing}{text[node.end - 1 :]}"


def _end_of_content(text: str, node: Node) -> int:
    """Return where the last item, comma or comment of an object or list ends."""
    last = list(node.items.values())[-1] if node.items else None
    at = node.start + 1 if last is None else last.value.end if last.comma is None else last.comma + 1
    tail = text[at : node.end - 1]
    return at + len(tail.rstrip())


def _remove_text(text: str, parent: Node, key: str | int) -> str:
    keys = list(parent.items)
    number = keys.index(key)
    item = parent.items[key]
    start, end = item.start, item.value.end if item.comma is None else item.comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    rest = _LINE_END.match(text, end)
    if not text[line_start:start].strip() and rest is not None:
        start, end = line_start, rest.end()
    elif item.comma is not None and rest is None:
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    kept = text[:start] + text[end:]
    if item.comma is None and number > 0:
        before = parent.items[keys[number - 1]].comma
        assert before is not None  # between two items there is one
        kept = kept[:before] + kept[before + 1 :]
    return kept


def _dump(value: Any, text: str, indent: str) -> str:
    """Return a value as this text would write it, its further lines indented."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return (newline + indent).join(lines)


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return "  " if found is None else found[1]


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _name(path: Path) -> str:
    return ".".join(map(str, path)) if path else "the whole"
