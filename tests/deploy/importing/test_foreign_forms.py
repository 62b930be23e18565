"""Forms in which others really write: the text comes in, what cannot be read is named, other documents are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.exports import Choices, Entry, ExportedEdge, LeftOut
from engramq.deploy.importing.foreign import READERS
from engramq.deploy.importing.records import Given, Rejection
from engramq.schemas.vocabulary import ForeignFormat

pytestmark = pytest.mark.promise("SN-3")

OBSIDIAN, BASIC, CLAUDE, CHATGPT, MEM0, GRAPH = (
    ForeignFormat.OBSIDIAN,
    ForeignFormat.BASIC_MEMORY,
    ForeignFormat.CLAUDE,
    ForeignFormat.CHATGPT,
    ForeignFormat.MEM0,
    ForeignFormat.MCP_MEMORY,
)


def read(path: Path, kind: ForeignFormat, choices: Choices = Choices()) -> list[Entry]:  # noqa: B008 - frozen
    found = list(READERS[kind](path, choices))
    assert not [item for item in found if isinstance(item, Rejection)]
    return found


def rows(found: list[Entry]) -> list[dict[str, Any]]:
    return [item.values for item in found if isinstance(item, Given)]


def left_out(found: list[Entry]) -> list[str]:
    return [item.what for item in found if isinstance(item, LeftOut)]


def edges(found: list[Entry]) -> list[tuple[str, str, str]]:
    return [(item.source, item.relation, item.target) for item in found if isinstance(item, ExportedEdge)]


def written(path: Path, document: Any, *, lines: bool = False, indent: int | None = None) -> Path:
    several = document if lines else [document]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each, indent=indent) + "\n" for each in several))
    return path


def note(folder: Path, text: str, name: str = "Kettle.md") -> list[Entry]:
    vault = folder / "vault"
    (vault / ".obsidian").mkdir(parents=True, exist_ok=True)
    (vault / name).write_text(text)
    return read(vault, OBSIDIAN)


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ("status: Kettle: a history", {"status": "Kettle: a history"}),
        ("author: @someone", {"author": "@someone"}),
        ("maker: {{who}}", {"maker": "{{who}}"}),
        ("up:\n\t- Tea\n\t- Pots", {"up": ["Tea", "Pots"]}),
        ("kind:[[Tool]]", {"kind": "[[Tool]]"}),
        ("note: *x\nstatus: done", {"note": "*x", "status": "done"}),
        ("list: [a, b\nstatus: done", {"list": "a, b", "status": "done"}),
        ("status: done\nodd: %\n  more: here", {"status": "done", "odd": "%"}),
    ],
)
def test_properties_that_are_no_yaml_cost_no_text(tmp_path: Path, properties: str, kept: dict[str, Any]) -> None:
    found = note(tmp_path, f"---\n{properties}\n---\nThe kettle is blue.")
    (row,) = rows(found)
    assert row["content"] == "Kettle\n\nThe kettle is blue."
    assert row["metadata"] == kept
    assert left_out(found) == ["lines of properties that cannot be read (their notes are in)"] * properties.count("mor")
