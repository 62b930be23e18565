"""Anthropic's memory tool: the documented examples, by the runner of their own SDK, over a real stack."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import INSTALLED, Stack
from tests.clients.messages_api import EXAMPLES, RECEIPTS, running_api

LONGEST_S = 250.0  # of some 80 calls, on a busy machine
pytestmark = pytest.mark.timeout(LONGEST_S + 30)


@pytest.mark.promise("RC-18")
@pytest.mark.parametrize("how", ["sync", "async"])
def test_the_documented_examples_run_in_the_tool_runner_of_the_sdk(stack: Stack, how: str) -> None:
    with running_api() as api:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url, "ENGRAMQ_URL": stack.address}
        ended = subprocess.run(
            [str(INSTALLED / "python/bin/python"), "-m", "tests.clients.programs.memory_tool", how],
            cwd=ROOT,
            env=stack.environment | keys,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert api.tools == [{"type": "memory_20250818", "name": "memory"}]
    assert [text for text, _ in api.results] == [expected for _, expected in EXAMPLES]
    fails = [text.startswith(("Error: ", "No replacement", "The path ")) for text, _ in api.results]
    assert [is_error for _, is_error in api.results] == fails
    said = json.loads(ended.stdout)
    assert (said["said"], len(said["receipts"])) == ("Noted.", RECEIPTS)


@pytest.mark.promise("RC-18")
def test_the_example_of_the_page_runs(stack: Stack) -> None:
    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    with running_api(EXAMPLES[:2]) as api:
        keys = {"ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": api.url, "ENGRAMQ_URL": stack.address}
        ended = subprocess.run(
            [str(INSTALLED / "python/bin/python"), "-c", example],
            cwd=ROOT,
            env=stack.environment | keys,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["Noted."]), ended.stderr
    assert len(ended.stdout.splitlines()) == 2
    assert [text for text, _ in api.results] == [expected for _, expected in EXAMPLES[:2]]


def test_the_extra_names_the_package_that_is_tried() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = Path(__file__).with_name("requirements.in").read_text(encoding="utf-8")
    tried = re.search(r"^anthropic\[mcp\]==(\d+)", installed, re.MULTILINE)
    assert tried is not None
    assert extras["anthropic"] == [f"anthropic>={tried[1]}"]
