#!/bin/sh
# Gemini CLI 0.61: of a tool's reply over 40,000 characters the model is shown the first 8,000 and the last 32,000.
#
# Load: a model played on loopback calls a tool that answers 60,000 characters.
# Expected: of a ranked list the head, since what matters most stands there.
# Real: 8,000 characters of the head, 32,000 of the tail; the rest is in a file.
#
# Output seen on 2026-11-30:
#   Gemini CLI 0.61.0: of 60000 characters [7980, 31970] are shown, of the head and of the tail
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund @google/gemini-cli@0.61.0
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
gemini = str(folder / "node_modules" / ".bin" / "gemini")
calls, requests = [60_000], []


class Model(BaseHTTPRequestHandler):
    """Makes the calls that are planned, one a turn, then says that it is done."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part = {"text": "Done."}
        if body.get("tools"):
            requests.append(body)
            if calls:
                (name,) = re.findall(r'"name": "(\w*look\w*write)"', json.dumps(body["tools"]))
                part = {"functionCall": {"name": name, "args": {"characters": calls.pop(0)}}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 9}
        whole = json.dumps({"candidates": [candidate], "usageMetadata": usage})
        is_stream = "stream" in self.path
        data = (f"data: {whole}\n\n" if is_stream else whole).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
settings = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "mcpServers": {"look": {"command": sys.executable, "args": [str(folder / "server.py")]}},
}
(folder / ".gemini").mkdir()
(folder / ".gemini" / "settings.json").write_text(json.dumps(settings))
environment = os.environ | {
    "HOME": str(folder), "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
}
subprocess.run(
    [gemini, "--yolo", "-m", "gemini-2.5-flash", "-p", "Go."], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
    check=True, capture_output=True, timeout=300,
)
server.shutdown()
parts = [part for turn in requests[-1]["contents"] for part in turn["parts"]]
(told,) = [json.dumps(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
runs = [len(run[0]) for run in re.finditer(r"(?:<\d{8}>)+", told)]
version = subprocess.run([gemini, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f"Gemini CLI {version}: of 60000 characters {runs} are shown, of the head and of the tail")
assert [round(run, -3) for run in runs] == [8_000, 32_000] and "<00000000>" in told and "<00059990>" in told
PYTHON
python3 "$folder/look.py" "$folder"
