#!/bin/sh
# Claude Code 2.1.332: it cuts what an MCP server and a hook say, and defers tools, in five ways that no server is told of.
#
# Load: a model played on loopback; an MCP server with 8,013 characters of instructions and three tools that answer as
# many characters as they are asked for (one plain, one with _meta anthropic/alwaysLoad, one with a lifted
# anthropic/maxResultSizeChars too); a hook of UserPromptSubmit with 12,000 and with 9,000 characters.
# Expected: tools with their schemas, the instructions, replies and hook texts whole, a hook's text as data of the user.
# Real: only tools that are always loaded have a schema; 4,080 characters of instructions; of a reply of 60,000 a preview
# of 2 KB, of 120,000 none; of 12,000 from a hook some 2 KB; for claude-opus-4-8 that text is a system message after the
# prompt, for claude-haiku-4-5 a part of the user's.
#
# Output seen on 2026-11-30:
#   Claude Code 2.1.332: schemas of ['lifted', 'loaded'], instructions 4080, replies [1960, 0, 60000]
#     hook texts [1990, 9000], as ['system', 'user']
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

NUMBER = {"type": "object", "properties": {"characters": {"type": "integer"}}, "required": ["characters"]}
LOADED = {"anthropic/alwaysLoad": True}
TOOLS = [
    {"name": name, "description": "Write text.", "inputSchema": NUMBER, "_meta": meta}
    for name, meta in (
        ("plain", {}),
        ("loaded", LOADED),
        ("lifted", LOADED | {"anthropic/maxResultSizeChars": 200_000}),
    )
]


def marked(characters):
    return "".join(f"<{at:08}>" for at in range(0, characters, 10))


for line in sys.stdin:
    request = json.loads(line)
    params = request.get("params", {})
    result = {
        "initialize": lambda: {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "look", "version": "1"},
            "instructions": f"INSTRUCTIONS {marked(8_000)}",
        },
        "tools/list": lambda: {"tools": TOOLS},
        "tools/call": lambda: {"content": [{"type": "text", "text": marked(params["arguments"]["characters"])}]},
    }.get(request["method"])
    if "id" in request:
        told = {"error": {"code": -32601, "message": "none"}} if result is None else {"result": result()}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}), flush=True)
PYTHON
cat > "$folder/hook.py" <<'PYTHON'
import json
import sys

text = "HOOK " + "".join(f"[{at:08}]" for at in range(0, int(sys.argv[1]), 10))
print(json.dumps({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}))
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(sys.argv[1])
claude = str(folder / "node_modules" / ".bin" / "claude")
turns, calls = [], []


class Model(BaseHTTPRequestHandler):
    """Makes the calls that are planned, one a turn, then says that it is done."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        call = None
        if body.get("tools") and "count_tokens" not in self.path:
            turns.append(body)
            call = calls.pop(0) if calls else None
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
        if call:
            block = {"type": "tool_use", "id": f"toolu_{len(turns)}", "name": f"mcp__look__{call[0]}", "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"characters": call[1]})}
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
        }
        ending = {"stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None}
        events = (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        )
        whole = json.dumps(message | {"content": [{"type": "text", "text": "{}"}], "stop_reason": "end_turn"})
        streamed = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        data = (streamed if body.get("stream") else whole).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def ask(model, hook_characters, *planned):
    """Return the requests of one prompt."""
    turns.clear()
    calls[:] = planned
    hook = {"type": "command", "command": f"{sys.executable} {folder / 'hook.py'} {hook_characters}"}
    servers = {"mcpServers": {"look": {"command": sys.executable, "args": [str(folder / "server.py")]}}}
    options = (
        "--model", model, "--mcp-config", json.dumps(servers), "--strict-mcp-config", "--allowedTools", "mcp__look",
        "--settings", json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}),
    )
    environment = os.environ | {
        "HOME": str(folder), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    subprocess.run(
        [claude, "-p", "PROMPT", *options], cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True,
        capture_output=True, timeout=300,
    )
    return list(turns)


def holder(request, text):
    """Return the role of the message that holds a text, and its place."""
    return next((m["role"], at) for at, m in enumerate(request["messages"]) if text in json.dumps(m))


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
large = ask("claude-opus-4-8", 12_000, ("loaded", 60_000), ("loaded", 120_000), ("lifted", 60_000))
small = ask("claude-haiku-4-5", 9_000)
first = json.dumps(large[0])
schemas = sorted(tool["name"][11:] for tool in large[0]["tools"] if tool["name"].startswith("mcp__look__"))
instructions = 10 * len(re.findall(r"<\d{8}>", first))
hooks = [10 * len(re.findall(r"\[\d{8}\]", json.dumps(turn))) for turn in (large[0], small[0])]
roles = [holder(turn, "HOOK ")[0] for turn in (large[0], small[0])]
parts = [part for message in large[-1]["messages"] if isinstance(message["content"], list) for part in message["content"]]
results = [json.dumps(part["content"]) for part in parts if part.get("type") == "tool_result"]
shown = [10 * len(re.findall(r"<\d{8}>", result)) for result in results]
version = subprocess.run([claude, "--version"], capture_output=True, text=True, check=True).stdout.split()[0]
print(f"Claude Code {version}: schemas of {schemas}, instructions {instructions}, replies {shown}")
print(f"  hook texts {hooks}, as {roles}")
server.shutdown()
assert schemas == ["lifted", "loaded"]
assert 4_000 <= instructions <= 4_200
assert [number // 1_000 for number in shown] == [1, 0, 60]
assert hooks[0] < 2_100 and hooks[1] == 9_000
assert roles == ["system", "user"] and holder(large[0], "HOOK ")[1] > holder(large[0], "PROMPT")[1]
PYTHON
python3 "$folder/look.py" "$folder"
