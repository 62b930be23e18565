"""The MCP Inspector's command line, over HTTP and stdio: it lists, calls, and shows what is refused."""

import json
import subprocess
from typing import Any

import pytest

from tests.clients.conftest import BOUND_S, ENGRAMQ, INSTALLED, Stack

LAUNCHER = INSTALLED / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


class Inspector:
    """Runs one method a time, as a person does who tries a server out."""

    def __init__(self, node: str, stack: Stack, door: str) -> None:
        self._command = [node, str(LAUNCHER), "--cli"]
        self._environment = stack.environment
        home = f"ENGRAMQ_HOME={stack.environment['ENGRAMQ_HOME']}"
        self._target = [stack.url, "--transport", "http"] if door == "http" else ["-e", home, ENGRAMQ, "stdio"]

    def run(self, method: str, *options: str) -> tuple[int, dict[str, Any]]:
        """Return the exit code and what was printed as JSON."""
        ended = subprocess.run(
            [*self._command, *self._target, "--method", method, *options],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert ended.stdout, ended.stderr
        return ended.returncode, json.loads(ended.stdout)

    def call(self, tool: str, **arguments: str) -> tuple[int, dict[str, Any]]:
        given = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
        return self.run("tools/call", "--tool-name", tool, *given)


@pytest.fixture(params=["http", "stdio"])
def inspector(request: pytest.FixtureRequest, node: str, stack: Stack) -> Inspector:
    return Inspector(node, stack, request.param)


@pytest.mark.promise("AG-23")
def test_it_lists_the_tools_and_finds_no_fault_with_their_schemas(inspector: Inspector) -> None:
    code, listed = inspector.run("tools/list", "--strict")
    assert code == 0
    named = {tool["name"]: tool for tool in listed["tools"]}
    assert {"store_memory", "search_memories", "guide"} <= set(named)
    assert all(tool["description"] and tool["inputSchema"]["type"] == "object" for tool in named.values())


@pytest.mark.promise("AG-23")
def test_it_stores_and_finds_what_it_stored(inspector: Inspector) -> None:
    content = "The spare key lies beneath the third flowerpot"
    code, stored = inspector.call("store_memory", content=content)
    assert (code, stored["structuredContent"]["status"]) == (0, "stored")

    code, found = inspector.call("search_memories", query="where is the spare key?", limit="1")
    assert code == 0
    assert [memory["content"] for memory in found["structuredContent"]["memories"]] == [content]
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]


@pytest.mark.promise("AG-23")
def test_it_shows_what_is_refused_and_why(inspector: Inspector) -> None:
    code, refused = inspector.call("store_memory", content=" ")
    assert code != 0
    assert refused["isError"] is True
    assert refused["structuredContent"]["code"] == "invalid_parameter"
    assert "content" in refused["structuredContent"]["error"]
