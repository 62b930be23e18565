"""The tutorials as they stand: every block for a shell is run, in one shell, in a home of its own."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from bench.common import ENGRAMQ
from tests.architecture.source import ROOT
from tests.stack.test_whole_stack import Installation

pytestmark = [pytest.mark.promise("RC-13"), pytest.mark.timeout(500)]

BOUND_S = 400.0
DOCS = ROOT / "docs"
MEM0 = {"results": [{"id": "m-1", "memory": "Ada drinks green tea", "created_at": "2026-01-05T08:00:00Z"}]}
CLAUDE_MEM = (3, "shop", "decision", "Queue", "We chose Redis over RabbitMQ", None, "2026-02-03T10:00:00.000Z")


@pytest.fixture
def installation() -> Iterator[Installation]:
    # Not pytest's own folder, whose path would be too long for sockets.
    folder = Path(tempfile.mkdtemp(prefix="eqt-"))
    folder.chmod(0o711)
    (folder / "work").mkdir()
    path = f"{Path(ENGRAMQ).parent}:{os.environ['PATH']}"
    place = Installation(folder / "home", HOME=str(folder), PATH=path)
    # On a busy machine a first start takes longer than the 25 s that a command waits for it.
    subprocess.run([ENGRAMQ, "up", "--detach"], env=place.environment, check=True, capture_output=True, timeout=BOUND_S)
    yield place
    place.run("down")
    shutil.rmtree(folder)


def script(page: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return "".join(dedent(block) for _, language, block in blocks if not language)


def run(installation: Installation, page: str) -> str:
    done = subprocess.run(
        ["sh", "-e", "-x"],
        input=script(page),
        env=installation.environment,
        cwd=Path(installation.environment["HOME"]) / "work",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def after(told: str, command: str) -> str:
    """Return what was printed between the last call of a command and the next one; the shell shows each behind a +."""
    return re.split(r"^\+ ", told.rpartition(f"+ {command}")[2], flags=re.MULTILINE)[0]


def test_the_first_week_works_as_written(installation: Installation) -> None:
    told = run(installation, "first-week.md")
    assert "nothing goes out on a Friday" in after(told, "engramq search --project shop can I ship this on Friday")
    assert "8443" in after(told, "engramq search --project shop which port does staging use")
    asked = "which PostgreSQL does the shop run"
    now = after(told, f"engramq search --project shop {asked}")
    assert "PostgreSQL 18" in now
    assert "PostgreSQL 16" not in now
    assert "PostgreSQL 16" in after(told, f"engramq search --project shop --include-superseded {asked}")
    assert "stored 0" in after(told, "engramq import notes.jsonl")
    assert "Stopped engramq" in told


def test_mem0_and_claude_mem_come_in_as_written(installation: Installation) -> None:
    home = Path(installation.environment["HOME"])
    (home / "work" / "mem0.json").write_text(json.dumps(MEM0))
    (home / ".claude-mem").mkdir()
    with sqlite3.connect(home / ".claude-mem" / "claude-mem.db") as base:
        columns = "id integer primary key, project, type, title, narrative, text, created_at"
        base.execute(f"create table observations ({columns})")
        base.execute("insert into observations values (?, ?, ?, ?, ?, ?, ?)", CLAUDE_MEM)
    base.close()
    told = run(installation, "from-mem0-or-claude-mem.md")
    assert "Ada drinks green tea" in after(told, "engramq list\n")
    [memory] = json.loads(installation.run("list", "--project", "shop", "--partition", "untrusted", "--json").stdout)[
        "memories"
    ]
    assert memory["content"] == "Queue\n\nWe chose Redis over RabbitMQ"
    assert (memory["project"], memory["occurred_at"][:10]) == ("shop", "2026-02-03")
