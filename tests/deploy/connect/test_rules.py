"""`engramq rules`: what agents read in AGENTS.md or CLAUDE.md, between two marks."""

from pathlib import Path
from typing import Protocol

import pytest

from engramq.deploy.cli import main
from engramq.deploy.cli.rules import BEGIN, END, RULES
from engramq.gateway.mcp.audience import ALL_TOOLS

pytestmark = pytest.mark.promise("RC-6")

MINE = "# My project\n\nUse tabs.\n"


class Types(Protocol):
    def __call__(self, *arguments: str, code: int = 0) -> str: ...


@pytest.fixture
def types(capsys: pytest.CaptureFixture[str]) -> Types:
    """Return what runs `engramq rules` and gives what it prints."""

    def typed(*arguments: str, code: int = 0) -> str:
        assert main(["rules", *arguments]) == code
        shown = capsys.readouterr()
        return shown.out + shown.err

    return typed


def test_they_are_printed_and_name_tools_that_there_are(types: Types) -> None:
    assert types() == RULES
    named = {word.strip("`,:.") for word in RULES.split() if word.startswith("`")}
    assert named
    assert named <= {tool.name for tool in ALL_TOOLS}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"{BEGIN}\n{RULES}{END}\n"),
        (MINE, f"{MINE}\n{BEGIN}\n{RULES}{END}\n"),
        (f"{MINE}\n{BEGIN}\nold words\n{END}\n\n# After\n", f"{MINE}\n{BEGIN}\n{RULES}{END}\n\n# After\n"),
    ],
    ids=["alone in a new file", "behind what is there", "in the place of older ones"],
)
def test_they_come_in_once_and_the_file_before_is_kept(types: Types, tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "AGENTS.md"
    if before:
        file.write_text(before)
    types(str(file))
    assert file.read_text() == after
    assert "already" in types(str(file))
    assert [backup.read_text() for backup in tmp_path.glob("*.engramq-backup")] == ([before] if before else [])


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_taken_out_the_file_is_as_it_was_with_its_own_line_ends(types: Types, tmp_path: Path, newline: str) -> None:
    file = tmp_path / "AGENTS.md"
    mine = MINE.replace("\n", newline).encode()
    file.write_bytes(mine)
    types(str(file))
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(newline.encode())
    types(str(file), "--remove")
    assert file.read_bytes() == mine


@pytest.mark.parametrize("torn", [f"a\n{BEGIN}\nb", f"{END}\nx\n{BEGIN}\n"])
def test_torn_marks_are_said_and_nothing_is_written(types: Types, tmp_path: Path, torn: str) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(torn)
    assert "Nothing was written" in types(str(file), code=1)
    assert file.read_text() == torn
