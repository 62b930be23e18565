"""The store for LangGraph: LangGraph's own InMemoryStore and ours pass one suite, over a real stack."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import INSTALLED, PROGRAMS, Stack

BOUND_S = 300.0


@pytest.mark.promise("RC-9")
@pytest.mark.timeout(BOUND_S + 30)
def test_one_suite_is_passed_by_theirs_and_by_ours(stack: Stack, tmp_path: Path) -> None:
    python = str(INSTALLED / "frameworks" / "bin" / "python")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # not our own
    how = (
        "-c",
        str(tmp_path / "pytest.ini"),
        "--rootdir",
        str(PROGRAMS),
        "--confcutdir",
        str(PROGRAMS),
        "--import-mode=importlib",
    )
    ended = subprocess.run(
        [python, "-m", "pytest", *how, "-q", "-p", "no:cacheprovider", "-W", "error", "langgraph_suite.py"],
        cwd=PROGRAMS,
        env=stack.environment | {"PYTHONPATH": str(ROOT), "ENGRAMQ_URL": stack.url},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None
    assert int(passed[1]) >= 80
    assert "skipped" not in ended.stdout
