"""The examples of docs/examples, each with a scripted model: what one conversation keeps, another one finds."""

import json
import subprocess

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import INSTALLED, Stack

BOUND_S = 240.0
EXAMPLES = {
    "openai_agents": "frameworks",
    "pydantic_ai": "frameworks",
    "llama_index": "frameworks",
    "langchain": "mcp-1.30",
    "crewai": "crewai",
}
QUIET = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}  # nothing leaves this machine


@pytest.mark.promise("RC-10")
@pytest.mark.timeout(BOUND_S + 30)
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_remembers(stack: Stack, example: str) -> None:
    python = str(INSTALLED / EXAMPLES[example] / "bin" / "python")
    ended = subprocess.run(
        [python, "-m", f"tests.clients.programs.example_{example}"],
        cwd=ROOT,
        env=stack.environment | QUIET | {"ENGRAMQ_URL": stack.address},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout.splitlines()[-1])
    assert report["answer"] == "No walnuts."
    assert report["turns"] == 4
    assert {"store_memory", "search_memories"} <= set(report["tools"])
