"""The first quarter of an hour: installed, connected and hooked in by a line each, then used from everywhere."""

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from engramq.deploy.local.embedded.process import wait_until
from tests.deploy.local.hooks.sessions import Session
from tests.faults.world import free_port
from tests.packaging.installed.conftest import BOUND_S, UV, Root, serving
from tools.release.__main__ import ROOT

pytestmark = pytest.mark.timeout(3 * BOUND_S)

WITHIN_S = 60.0
MEM0 = {
    "results": [
        {
            "id": "0d9c4a5e-1111-4b6e-9d0a-000000000001",
            "memory": "The walnut tree in the yard was planted by Grandfather",
            "metadata": None,
            "created_at": "2025-03-01T08:00:00-07:00",
            "user_id": "ana",
        }
    ]
}


def until(found: Callable[[], Any], bound_s: float = WITHIN_S) -> Any:
    """Return what is found as soon as it is something."""
    deadline = time.monotonic() + bound_s
    while not (result := found()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.2)
    return result


@pytest.fixture
def engramq(root: Root, index: str) -> Iterator[str]:
    """The command, installed by one line for this user alone."""
    places = {"UV_TOOL_DIR": str(root.home / "tools"), "UV_TOOL_BIN_DIR": str(root.home / "bin"), "PYTHONPATH": ""}
    root.run(UV, "tool", "install", "--quiet", "--index", index, "engramq", **places)
    installed = str(root.home / "bin" / "engramq")
    yield installed
    root.run(installed, "down")


@pytest.fixture
def http(root: Root, engramq: str) -> Iterator[str]:
    """The address of `engramq up`."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [engramq, "up", "--port", str(port)], cwd=root.project, env=root.environment, stdout=subprocess.DEVNULL
    ) as process:
        try:
            assert wait_until(lambda: _ready(url), WITHIN_S)
            yield url
        finally:
            process.terminate()
            process.wait(WITHIN_S)


def _ready(url: str) -> bool:
    try:
        with urlopen(f"{url}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def test_one_line_installs_one_connects_and_the_next_session_knows(root: Root, engramq: str) -> None:
    root.run(engramq, "connect", "claude-code")
    root.run(engramq, "hooks", "install", "claude-code", "--recall-captured")
    configured = json.loads((root.home / ".claude.json").read_text())["mcpServers"]["engramq"]
    with serving(root, configured["command"], *configured["args"]) as call:
        assert call("store_memory", content="The zebra server runs on port 4711.")["status"] == "stored"
        hooks = json.loads((root.home / ".claude" / "settings.json").read_text())["hooks"]
        env, home, command, *words = shlex.split(hooks["Stop"][0]["hooks"][0]["command"])
        assert [env, home] == ["env", f"ENGRAMQ_HOME={root.environment['ENGRAMQ_HOME']}"]
        assert words == ["hook", "claude-code", "--recall-captured"]

        def session(name: str) -> Session:
            transcript = root.home / f"{name}.jsonl"
            transcript.touch()
            folder = str(root.project)
            return Session(transcript, root.environment, folder=folder, options=tuple(words[2:]), engramq=command)

        first = session("first")
        first.says("user", "The zebra server has a blue door.")
        assert first.tell("Stop", stop_hook_active=False).code == 0
        first.tell("SessionEnd", reason="exit")
        second = session("second")
        prompt = "What do we know of the zebra server?"
        told = until(lambda: _with_both(second.tell("UserPromptSubmit", prompt=prompt).context))
        trusted, _, captured = told.partition("<engramq-captured>")
        assert "4711" in trusted
        assert "blue door" not in trusted
        assert "blue door" in captured


def _with_both(context: str) -> str:
    return context if "4711" in context and "blue door" in context else ""


def test_the_python_page_runs_and_what_mem0_kept_is_found(root: Root, engramq: str, http: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "python.md").read_text()
    example = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "example.py").write_text(example)
    interpreter = str(root.home / "tools" / "engramq" / "bin" / "python")
    root.run(interpreter, str(tmp_path / "example.py"), ENGRAMQ_URL=http, PYTHONPATH="")
    (tmp_path / "mem0.json").write_text(json.dumps(MEM0))
    root.run(engramq, "import", str(tmp_path / "mem0.json"), "--format", "mem0")
    words = [engramq, "search", "who planted the tree?", "--json"]
    found = until(
        lambda: [memory for memory in json.loads(root.run(*words))["memories"] if "walnut" in memory["content"]]
    )
    assert found[0]["content"] == MEM0["results"][0]["memory"]
