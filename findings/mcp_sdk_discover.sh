#!/bin/sh
# The MCP SDK for Python 2.3 as a client: it sends no initialize, keeps a list for as long as the server says, and its
# server hides what an exception says.
#
# Load: the SDK's own server over stdio, with a tool that raises an exception and lists that hold for a minute; a client
# lists the tools twice and calls that tool.
# Expected by servers of before: initialize first, each list asked for, the exception's text in the result.
# Real: server/discover first (revision 2026-07-28), one tools/list, "Error executing tool keep" without the text.
#
# Output seen on 2026-11-30:
#   mcp 2.3.0: revision 2026-07-28; sent server/discover, tools/list, tools/call; told "Error executing tool keep"
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet mcp==2.3.0
cat > "$folder/server.py" <<'PYTHON'
from mcp.server import MCPServer
from mcp.server.caching import CacheHint

server = MCPServer("look", cache_hints={"tools/list": CacheHint(ttl_ms=60_000)})


@server.tool()
def keep(content: str) -> str:
    raise RuntimeError("say which words are missing")


server.run("stdio")
PYTHON
cat > "$folder/tee.py" <<'PYTHON'
import subprocess
import sys

server = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
with open(sys.argv[2], "wb") as sent:
    for line in sys.stdin.buffer:
        for to in (sent, server.stdin):
            to.write(line)
            to.flush()
server.stdin.close()
server.wait()
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import asyncio
import json
import sys
from importlib.metadata import version
from pathlib import Path

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

folder = Path(sys.argv[1])
sent = folder / "sent"


async def main():
    command = [str(folder / name) for name in ("tee.py", "server.py", "sent")]
    async with Client(stdio_client(StdioServerParameters(command=sys.executable, args=command))) as client:
        await client.list_tools()
        await client.list_tools()
        result = await client.call_tool("keep", {"content": "x"})
        return client.protocol_version, result.content[0].text


revision, told = asyncio.run(main())
methods = [json.loads(line)["method"] for line in sent.read_text().splitlines()]
print(f'mcp {version("mcp")}: revision {revision}; sent {", ".join(methods)}; told "{told}"')
assert (revision, methods) == ("2026-07-28", ["server/discover", "tools/list", "tools/call"])
assert "words" not in told
PYTHON
"$folder/venv/bin/python" "$folder/look.py" "$folder"
