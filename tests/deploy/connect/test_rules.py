"""`engramq rules`, what agents read between two marks, and how a client is told to start engramq."""

import sys
from pathlib import Path
from typing import Protocol

import pytest

from engramq.deploy.cli import main
from engramq.deploy.cli.rules import BEGIN, END, RULES
from engramq.deploy.connect.catalogue import how_started
from engramq.gateway.mcp.audience import ALL_TOOLS

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


@pytest.mark.promise("RC-6")
def test_they_are_printed_and_name_tools_that_there_are(types: Types) -> None:
    assert types() == RULES
    named = {word.strip("`,:.") for word in RULES.split() if word.startswith("`")}
    assert named
    assert named <= {tool.name for tool in ALL_TOOLS}


@pytest.mark.promise("RC-6")
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


@pytest.mark.promise("RC-6")
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_taken_out_the_file_is_as_it_was_with_its_own_line_ends(types: Types, tmp_path: Path, newline: str) -> None:
    file = tmp_path / "AGENTS.md"
    mine = MINE.replace("\n", newline).encode()
    file.write_bytes(mine)
    types(str(file))
    assert file.read_bytes().count(b"\n") == file.read_bytes().count(newline.encode())
    types(str(file), "--remove")
    assert file.read_bytes() == mine


@pytest.mark.promise("RC-6")
@pytest.mark.parametrize("torn", [f"a\n{BEGIN}\nb", f"{END}\nx\n{BEGIN}\n"])
def test_torn_marks_are_said_and_nothing_is_written(types: Types, tmp_path: Path, torn: str) -> None:
    file = tmp_path / "AGENTS.md"
    file.write_text(torn)
    assert "Nothing was written" in types(str(file), code=1)
    assert file.read_text() == torn


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.promise("RC-4")
@pytest.mark.parametrize("cache", ["archive-v0/x1y2", "environments-v2/engramq-12ab"])
def test_uvx_starts_it_again_where_uvx_started_it(tmp_path: Path, cache: str) -> None:
    uvx = script(tmp_path / "bin" / "uvx")
    prefix = tmp_path / ".cache" / "uv" / cache
    started = how_started({"PATH": str(uvx.parent)}, str(prefix), str(script(prefix / "bin" / "engramq")), "")
    assert started.command("stdio") == (str(uvx), "engramq", "stdio")
    wheel = "/tmp/engramq-0.1.0-py3-none-any.whl"  # finding D15: another version, or nobody's, was run
    assert how_started({"PATH": str(uvx.parent)}, str(prefix), "engramq", wheel).words == (
        str(uvx), "--from", wheel, "engramq",
    )  # fmt: skip


@pytest.mark.promise("RC-4")
def test_pipx_run_starts_it_again_where_pipx_run_started_it(tmp_path: Path) -> None:
    prefix = tmp_path / ".local" / "pipx" / ".cache" / "12ab"
    assert how_started({"PATH": ""}, str(prefix), "engramq", "").words == ("pipx", "run", "engramq")
    source = "git+https://git.example.com/engramq"
    assert how_started({"PATH": ""}, str(prefix), "engramq", source).words == (
        "pipx", "run", "--spec", source, "engramq",
    )  # fmt: skip


@pytest.mark.promise("RC-4")
def test_the_script_is_named_where_it_was_called_not_where_it_leads(tmp_path: Path) -> None:
    real = script(tmp_path / "pipx" / "venvs" / "engramq" / "bin" / "engramq")
    link = tmp_path / "local bin" / "engramq"
    link.parent.mkdir()
    link.symlink_to(real)
    assert how_started({}, str(real.parent.parent), str(link)).words == (str(link),)


@pytest.mark.promise("RC-4")
def test_without_a_script_the_interpreter_starts_it(tmp_path: Path) -> None:
    assert how_started({}, str(tmp_path), "__main__.py").words == (sys.executable, "-P", "-m", "engramq")
