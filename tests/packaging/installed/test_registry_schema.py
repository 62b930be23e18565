"""`server.json` by the schema that the MCP registry has released, as skillsaw has it."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.packaging.installed.conftest import RELEASE
from tools.release.__main__ import ROOT

pytestmark = [pytest.mark.promise("RC-12"), pytest.mark.timeout(120)]


def test_the_registry_would_take_our_entry(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_bytes((ROOT / "server.json").read_bytes())
    command = [str(RELEASE / "skillsaw"), "lint", "--strict", "--no-plugins", "--format", "json", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "mcp-registry" in done.stdout, done.stdout + done.stderr
    assert (json.loads(done.stdout)["violations"], done.returncode) == ([], 0)
