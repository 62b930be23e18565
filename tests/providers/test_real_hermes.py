"""The memory provider in Hermes Agent itself, over a real stack: `make test-providers`."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import ENGRAMQ, Stack, stack
from tests.integrations.hermes import PLUGIN

__all__ = ["stack"]

PYTHON = ROOT / ".environments" / "providers" / "bin" / "python"


@pytest.mark.promise("RC-17")
@pytest.mark.timeout(300)
def test_hermes_loads_the_provider_recalls_and_captures(stack: Stack, tmp_path: Path) -> None:
    shutil.copytree(PLUGIN, tmp_path / "plugins" / "engramq", ignore=shutil.ignore_patterns("__pycache__"))
    ended = subprocess.run(
        [str(PYTHON), str(Path(__file__).with_name("with_hermes.py")), str(tmp_path)],
        cwd=tmp_path,
        env=stack.environment | {"HERMES_HOME": str(tmp_path), "ENGRAMQ_URL": stack.address},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["tools"] == ["engramq_search", "engramq_store"]
    assert "engramq keeps memories across conversations" in report["prompt"]
    assert (report["stored"]["status"], report["drained"]) == ("stored", True)
    assert ("walnuts" in report["recalled"], "peanuts" in report["recalled"]) == (True, False)
    assert "kept in engramq" in report["summary"]
    listed = subprocess.run(
        ["engramq", "list", "--json", "--partition", "untrusted"],
        executable=ENGRAMQ,
        env=stack.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert listed.stdout.count("says a web page") == 1
