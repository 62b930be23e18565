"""`server.json` by the schema that the MCP registry has released, as skillsaw has it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.packaging.installed.conftest import RELEASE
from tools.release.__main__ import ROOT

pytestmark = [pytest.mark.promise("RC-12"), pytest.mark.timeout(120)]


def problems(text: str, folder: Path) -> list[str]:
    """Return the rules that an entry breaks."""
    (folder / "server.json").write_text(text, encoding="utf-8")
    command = [str(RELEASE / "skillsaw"), "lint", "--strict", "--no-plugins", "--format", "json", str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    found = json.loads(done.stdout)
    assert "mcp-registry" in done.stdout, done.stdout + done.stderr
    assert bool(found["violations"]) == bool(done.returncode)
    return [each["rule_id"] for each in found["violations"]]


def test_the_registry_would_take_our_entry(tmp_path: Path) -> None:
    assert problems((ROOT / "server.json").read_text(encoding="utf-8"), tmp_path) == []


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        ('"name": "io.github.engramq/engramq"', '"name": "engramq"'),
        ('"transport": { "type": "stdio" }', '"transport": { "type": "sse" }'),
        ('"format": "filepath"', '"format": "path"'),
    ],
)
def test_an_entry_that_it_would_refuse_is_found(ours: str, wrong: str, tmp_path: Path) -> None:
    text = (ROOT / "server.json").read_text(encoding="utf-8")
    assert ours in text
    assert "mcp-registry-server-json-valid" in problems(text.replace(ours, wrong), tmp_path)
