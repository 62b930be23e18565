#!/bin/sh
# OpenCode 1.18: a resource_link in a tool's reply reaches no model.
#
# Load: a model played on loopback calls a tool that answers a text and a resource_link.
# Expected: the model is shown both, or at least the link's address.
# Real: the text alone.
#
# Output seen on 2026-11-30:
#   OpenCode 1.18.34: text shown True, link shown False
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund opencode-linux-x64@1.18.34
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

TOOL = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {}}}
LINK = {"type": "resource_link", "uri": "look://LINKED", "name": "LINKED"}
for line in sys.stdin:
    request = json.loads(line)
    params = request.get("params", {})
    result = {
        "initialize": {
            "protocolVersion": params.get("protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "look", "version": "1"},
        },
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "TEXT"}, LINK]},
    }.get(request["method"])
    if "id" in request:
        told = {"error": {"code": -32601, "message": "none"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}), flush=True)
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(sys.argv[1])
opencode = str(folder / "node_modules" / "opencode-linux-x64" / "bin" / "opencode")
requests = []


class Model(BaseHTTPRequestHandler):
    """Calls the tool once, then says that it is done."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn"
        if body.get("tools"):
            requests.append(body)
            if len(requests) == 1:
                (name,) = [tool["name"] for tool in body["tools"] if "look" in tool["name"]]
                block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": {}}
                delta, stop = {"type": "input_json_delta", "partial_json": "{}"}, "tool_use"
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
        }
        ending = {"stop_reason": stop, "stop_sequence": None}
        events = (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        )
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
options = {"baseURL": f"http://127.0.0.1:{server.server_address[1]}/v1", "apiKey": "none"}
settings = {
    "provider": {"played": {"npm": "@ai-sdk/anthropic", "options": options, "models": {"m": {}}}},
    "model": "played/m",
    "small_model": "played/m",
    "mcp": {"look": {"type": "local", "command": [sys.executable, str(folder / "server.py")], "enabled": True}},
}
place = folder / ".config" / "opencode"
place.mkdir(parents=True)
(place / "opencode.json").write_text(json.dumps(settings))
environment = os.environ | {
    "HOME": str(folder), "PWD": str(folder), "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
}
subprocess.run(
    [opencode, "run", "Go."], cwd=folder, env=environment, stdin=subprocess.DEVNULL, check=True, capture_output=True,
    timeout=300,
)
server.shutdown()
parts = [part for turn in requests[-1]["messages"] if isinstance(turn["content"], list) for part in turn["content"]]
(told,) = [json.dumps(part["content"]) for part in parts if part["type"] == "tool_result"]
version = subprocess.run([opencode, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f"OpenCode {version}: text shown {'TEXT' in told}, link shown {'LINKED' in told}")
assert "TEXT" in told and "LINKED" not in told
PYTHON
python3 "$folder/look.py" "$folder"
