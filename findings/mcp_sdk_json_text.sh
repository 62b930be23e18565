#!/bin/sh
# MCP SDK for Python 2.3: a text that is JSON does not reach a parameter of type `str | None` as it was sent.
#
# Load: a tool `keep(content: str, note: str | None = None)` gets the same text for both parameters.
# Expected: the text, since the tool's schema says string or null, and a string was sent.
# Real: "null" arrives as None, so that a note that says null is lost without an error; an object or a list is refused
# with "Input should be a valid string". A parameter of type `str` gets each text as it was sent.
# A server of memories that takes optional texts loses or refuses JSON, which is what agents often keep.
#
# Output seen on 2026-11-30:
#   mcp 2.3.0: plain -> plain; null -> None; {"port": 8080} -> refused; ["mint"] -> refused; 12 -> 12
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mcp==2.3.0
cat > "$folder/look.py" <<'PYTHON'
import asyncio
import json
from importlib.metadata import version

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("look")


@server.tool()
def keep(content: str, note: str | None = None) -> str:
    """Say what arrived."""
    return json.dumps([content, note])


async def arrives(text):
    try:
        result = await server.call_tool("keep", {"content": text, "note": text})
    except ToolError as refusal:
        assert "Input should be a valid string" in str(refusal)
        return "refused"
    content, note = json.loads(result.content[0].text)
    assert content == text
    return note


async def main():
    texts = ("plain", "null", '{"port": 8080}', '["mint"]', "12")
    return "; ".join([f"{text} -> {await arrives(text)}" for text in texts])


seen = asyncio.run(main())
print(f"mcp {version('mcp')}: {seen}")
assert seen == 'plain -> plain; null -> None; {"port": 8080} -> refused; ["mint"] -> refused; 12 -> 12'
PYTHON
"$folder/venv/bin/python" "$folder/look.py"
