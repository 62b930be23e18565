"""`engramq rules`: what agents read in AGENTS.md or CLAUDE.md, between two marks."""

import subprocess
import sys
from pathlib import Path

import pytest

from engramq.deploy.connect.rules import BEGIN, END, RULES
from engramq.gateway.mcp.audience import ALL_TOOLS

pytestmark = pytest.mark.promise("RC-6")

ENGRAMQ = str(Path(sys.executable).parent / "engramq")
MINE = "# My project\n\nUse tabs.\n"


def types(*arguments: str, code: int = 0) -> str:
    ended = subprocess.run([ENGRAMQ, "rules", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_they_are_printed() -> None:
    assert types() == RULES


def test_they_name_tools_that_there_are() -> None:
    named = {word.strip("`,:.") for word in RULES.split() if word.startswith("`")}
    assert named
    assert named <= {tool.name for tool in ALL_TOOLS}


def test_they_come_behind_what_is_there_once(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(MINE)
    types(str(file))
    assert file.read_text() == f"{MINE}\n{BEGIN}\n{RULES}{END}\n"
    assert "already" in types(str(file))
    (backup,) = tmp_path.glob("*.engramq-backup")
    assert backup.read_text() == MINE


def test_older_ones_are_replaced_in_their_place(tmp_path: Path) -> None:
    file = tmp_path / "CLAUDE.md"
    file.write_text(f"{MINE}\n{BEGIN}\nold words\n{END}\n\n# After\n")
    types(str(file))
    assert file.read_text() == f"{MINE}\n{BEGIN}\n{RULES}{END}\n\n# After\n"


def test_taken_out_the_file_is_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(MINE)
    types(str(file))
    types(str(file), "--remove")
    assert file.read_text() == MINE


def test_a_new_file_has_nothing_else(tmp_path: Path) -> None:
    types(str(tmp_path / "AGENTS.md"))
    assert (tmp_path / "AGENTS.md").read_text() == f"{BEGIN}\n{RULES}{END}\n"


@pytest.mark.parametrize("torn", [f"a\n{BEGIN}\nb", f"{END}\nx\n{BEGIN}\n"])
def test_torn_marks_are_said_and_nothing_is_written(tmp_path: Path, torn: str) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(torn)
    assert "Nothing was written" in types(str(file), code=1)
    assert file.read_text() == torn


def test_a_file_of_windows_keeps_its_line_ends(tmp_path: Path) -> None:
    file = tmp_path / "AGENTS.md"
    mine = MINE.replace("\n", "\r\n").encode()
    file.write_bytes(mine)
    types(str(file))
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(b"\r\n")
    assert "already" in types(str(file))
    types(str(file), "--remove")
    assert file.read_bytes() == mine
