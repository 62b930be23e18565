"""The store for LangGraph: LangGraph's own InMemoryStore and ours pass one suite, over a real stack."""

import re
import subprocess
import tomllib
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
        env=stack.environment | {"PYTHONPATH": str(ROOT), "ENGRAMQ_URL": stack.address},
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


@pytest.mark.promise("RC-9")
def test_the_example_of_the_page_runs_with_what_the_extra_brings(stack: Stack) -> None:
    """As docs/frameworks.md has it (finding D9 of newcomers): what is installed is the extra, the block the program."""
    page = (ROOT / "docs/frameworks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = Path(__file__).with_name("requirements-frameworks.in").read_text(encoding="utf-8")
    assert re.findall(r"^(lang[^=]*)", installed, re.MULTILINE) == [
        re.split("[<>=]", needed)[0] for needed in extras["langgraph"]
    ]
    ended = subprocess.run(
        [str(INSTALLED / "frameworks/bin/python"), "-c", example],
        env=stack.environment | {"PYTHONPATH": str(ROOT), "ENGRAMQ_URL": stack.address},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("allergic to walnuts\n", 0), ended.stderr
