#!/bin/sh
# Pydantic AI 2.68: the second refused call of a tool ends the whole run, and of a refusal with structured content the
# model is not shown the text.
#
# Load: an MCP server whose tool refuses with a text and structured content, and a scripted model that calls it each turn.
# Expected: each refusal goes to the model, text included, as a result.
# Real: after the second one UnexpectedModelBehavior, and the retry prompt holds the structured content alone. With
# tool_error_behavior="failed" the run goes on.
#
# Output seen on 2026-11-30:
#   pydantic-ai-slim 2.68.0: (calls, end, text shown) (2, 'UnexpectedModelBehavior', False); as failed (4, 'done', False)
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet 'pydantic-ai-slim[mcp]==2.68.0'
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

SCHEMA = {"type": "object", "properties": {"content": {"type": "string"}}}
REFUSAL = {
    "content": [{"type": "text", "text": "text: give the words that are missing"}],
    "structuredContent": {"code": "missing"},
    "isError": True,
}
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {
        "initialize": {
            "protocolVersion": request.get("params", {}).get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "look", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "keep", "description": "Keep.", "inputSchema": SCHEMA}]},
        "tools/call": REFUSAL,
        "ping": {},
    }.get(request["method"])
    error = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **error}), flush=True)
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import asyncio
import sys
from importlib.metadata import version

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

CALLS = 4


async def run(**options):
    """Return how many calls the model made, whether the run ended well, and what the model was told of the first."""
    seen = []

    def answer(messages, _info):
        seen.append(messages)
        if len(seen) > CALLS:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart("keep", {"content": "x"})])

    toolset = MCPToolset(StdioTransport(sys.executable, [sys.argv[1]]), **options)
    try:
        async with Agent(FunctionModel(answer), toolsets=[toolset]) as agent:
            await agent.run("Go on.")
        ended = "done"
    except UnexpectedModelBehavior as problem:
        ended = type(problem).__name__
    told = str(seen[1][-1].parts[0].content) if len(seen) > 1 else ""
    return min(len(seen), CALLS), ended, "words that are missing" in told


usual, failed = asyncio.run(run()), asyncio.run(run(tool_error_behavior="failed"))
print(f"pydantic-ai-slim {version('pydantic-ai-slim')}: (calls, end, text shown) {usual}; as failed {failed}")
assert usual == (2, "UnexpectedModelBehavior", False)
assert failed[:2] == (CALLS, "done")
PYTHON
"$folder/venv/bin/python" "$folder/look.py" "$folder/server.py"
