#!/bin/sh
# LlamaIndex (llama-index-tools-mcp 0.6.0) and Haystack (mcp-haystack 2.1.1): an agent has the first page of a server's tools.
#
# Load: an MCP server that lists its three tools on three pages, each but the last with a nextCursor, as the protocol
# allows. As a control, the same server with one page, and the client of FastMCP 4.1.6.
# Expected: three tools, however many pages they take; at least a word that there are more.
# Real: of three pages McpToolSpec and MCPToolset know one tool, and say nothing. Neither asks for the page that the cursor
# names. FastMCP's client asks for all. So an agent of a memory server may be able to keep memories and not to find them.
#
# Output seen on 2026-12-01:
#   one page: LlamaIndex 3, Haystack 3, FastMCP 3; three pages: LlamaIndex ['keep'], Haystack ['keep'], FastMCP ['keep', 'find', 'forget']
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet llama-index-tools-mcp==0.6.0 llama-index-core==0.14.25 mcp-haystack==2.1.1 haystack-ai==3.4.1 \
	fastmcp==4.1.6 mcp==2.3.0
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

size = int(sys.argv[1])
TOOLS = [
    {"name": name, "description": f"{name} a memory.", "inputSchema": {"type": "object", "properties": {}}}
    for name in ("keep", "find", "forget")
]
for line in sys.stdin:
    request = json.loads(line)
    params = request.get("params", {})
    first = int(params.get("cursor") or 0)
    page = {"tools": TOOLS[first : first + size]}
    if first + size < len(TOOLS):
        page["nextCursor"] = str(first + size)
    result = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "look", "version": "1"},
        },
        "tools/list": page,
        "ping": {},
    }.get(request["method"])
    if "id" in request:
        told = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}), flush=True)
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import asyncio
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from haystack_integrations.tools.mcp import MCPToolset, StdioServerInfo
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

SERVER = sys.argv[1]


async def by_llama_index(size):
    client = BasicMCPClient(sys.executable, args=[SERVER, size])
    return [tool.metadata.name for tool in await McpToolSpec(client).to_tool_list_async()]


async def by_fastmcp(size):
    async with Client(StdioTransport(sys.executable, [SERVER, size])) as client:
        return [tool.name for tool in await client.list_tools()]


def by_haystack(size):
    toolset = MCPToolset(StdioServerInfo(command=sys.executable, args=[SERVER, size]))
    toolset.warm_up()
    names = [tool.name for tool in toolset]
    toolset.close()
    return names


def names(size):
    """Return the tools that each client knows of, with so many tools on a page."""
    llama_index, fastmcp = asyncio.run(by_llama_index(size)), asyncio.run(by_fastmcp(size))
    return {"LlamaIndex": llama_index, "Haystack": by_haystack(size), "FastMCP": fastmcp}


whole, paged = names("3"), names("1")
counts = ", ".join(f"{name} {len(tools)}" for name, tools in whole.items())
print(f"one page: {counts}; three pages: {', '.join(f'{name} {tools}' for name, tools in paged.items())}")
assert all(tools == ["keep", "find", "forget"] for tools in [*whole.values(), paged["FastMCP"]])
assert paged["LlamaIndex"] == paged["Haystack"] == ["keep"]
PYTHON
"$folder/venv/bin/python" "$folder/look.py" "$folder/server.py"
