#!/bin/sh
# Codex 0.171: of a tool's reply the middle is lost, and of an error with structured content the text.
#
# Load: a model played on loopback calls a tool that answers 20,000 characters, then one that fails with a text and
# structured content.
# Expected: the reply whole, or its true loss told; of the error both.
# Real: some 12,000 characters, half of them from each end, with "8 tokens truncated" between (2,000 are missing); of the
# error the structured content alone.
#
# Output seen on 2026-11-30:
#   codex-cli 0.171.0: of 20000 characters 11960 are shown, "8 tokens truncated"; of the error {"code":"STRUCTURED"}
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund @openai/codex@0.171.0
cat > "$folder/server.py" <<'PYTHON'
import json
import sys

NUMBER = {"type": "object", "properties": {"characters": {"type": "integer"}}, "required": ["characters"]}


def marked(characters):
    return "".join(f"<{at:08}>" for at in range(0, characters, 10))


def answer(characters):
    if characters:
        return {"content": [{"type": "text", "text": marked(characters)}]}
    told = [{"type": "text", "text": "TEXT"}]
    return {"content": told, "structuredContent": {"code": "STRUCTURED"}, "isError": True}


for line in sys.stdin:
    request = json.loads(line)
    params = request.get("params", {})
    result = {
        "initialize": lambda: {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "look", "version": "1"},
        },
        "tools/list": lambda: {"tools": [{"name": "write", "description": "Write.", "inputSchema": NUMBER}]},
        "tools/call": lambda: answer(params["arguments"]["characters"]),
    }.get(request["method"])
    if "id" in request:
        told = {"error": {"code": -32601, "message": "none"}} if result is None else {"result": result()}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **told}), flush=True)
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
codex = str(folder / "node_modules" / ".bin" / "codex")
calls, requests = [20_000, 0], []


class Model(BaseHTTPRequestHandler):
    """Makes the calls that are planned, one a turn, then says that it is done."""

    def log_message(self, *_):
        pass

    def do_GET(self):  # a list of models, which it can do without
        self.send_error(404)

    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        item = {
            "type": "message", "id": "msg_1", "role": "assistant",
            "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
        }
        if calls:
            number = len(requests)
            item = {
                "type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "namespace": "mcp__look",
                "name": "write", "arguments": json.dumps({"characters": calls.pop(0)}),
            }
        usage = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}
        events = (
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
        )
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v1"
place = folder / "server.py"
settings = (
    "model_provider='played'",
    f'model_providers.played={{name="played",base_url="{url}",wire_api="responses",env_key="NO_KEY"}}',
    f"mcp_servers.look.command='{sys.executable}'",
    f"mcp_servers.look.args=['{place}']",
    "mcp_servers.look.default_tools_approval_mode='approve'",
)
options = ["--skip-git-repo-check", "-m", "gpt-5.1", *(word for each in settings for word in ("-c", each))]
subprocess.run(
    [codex, "exec", *options, "Go."], cwd=folder, env=os.environ | {"HOME": str(folder), "NO_KEY": "none"},
    stdin=subprocess.DEVNULL, check=True, capture_output=True, timeout=300,
)
server.shutdown()
told = [json.dumps(item["output"], ensure_ascii=False) for item in requests[-1]["input"] if item["type"] == "function_call_output"]
shown = 10 * len(re.findall(r"<\d{8}>", told[0]))
(mark,) = re.findall(r"\d+ tokens truncated", told[0])
(error,) = re.findall(r"{.*}", json.loads(told[1]))
version = subprocess.run([codex, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f'{version}: of 20000 characters {shown} are shown, "{mark}"; of the error {error}')
assert 11_900 <= shown <= 12_000 and "<00000000>" in told[0] and "<00019990>" in told[0] and mark[0] == "8"
assert "STRUCTURED" in told[1] and "TEXT" not in told[1]
PYTHON
python3 "$folder/look.py" "$folder"
