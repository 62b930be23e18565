#!/bin/sh
# Hermes Agent 0.19: what a memory provider prefetched for one turn stays in that turn for good.
#
# Load: a memory provider that prefetches "RECALLED 1", "RECALLED 2" ... and a model played on loopback; three turns of one
# conversation.
# Expected: recalled text is of its turn; the next one has what is recalled for it.
# Real: the third request holds all three, so a provider that recalls the same memory again repeats it in the context.
#
# Output seen on 2026-11-30:
#   hermes-agent 0.19.0: recalled text in the last request ['RECALLED 1', 'RECALLED 2', 'RECALLED 3']
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet hermes-agent==0.19.0
mkdir -p "$folder/plugins/played"
printf 'memory:\n  provider: played\n' > "$folder/config.yaml"
printf 'name: played\nversion: 1.0.0\n' > "$folder/plugins/played/plugin.yaml"
cat > "$folder/plugins/played/__init__.py" <<'PYTHON'
from agent.memory_provider import MemoryProvider


class Played(MemoryProvider):
    turns = 0

    @property
    def name(self):
        return "played"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        pass

    def get_tool_schemas(self):
        return []

    def prefetch(self, query, *, session_id=""):
        self.turns += 1
        return f"RECALLED {self.turns}"


def register(context):
    context.register_memory_provider(Played())
PYTHON
cat > "$folder/look.py" <<'PYTHON'
import contextlib
import io
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version

requests = []


class Model(BaseHTTPRequestHandler):
    """Says that it is done."""

    def log_message(self, *_):
        pass

    def do_GET(self):  # a list of models, which it can do without
        self.send_error(404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        requests.append(body)
        reply = {"role": "assistant", "content": "Done."}
        head = {"id": "c", "created": 1, "model": "m"}
        if body.get("stream"):
            chunks = [
                {**head, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}
                for delta, end in ((reply, None), ({}, "stop"))
            ]
            data = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": reply, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
            data = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data.encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
with contextlib.redirect_stdout(io.StringIO()):
    from run_agent import AIAgent

    url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    agent = AIAgent(base_url=url, api_key="none", model="m", quiet_mode=True, enabled_toolsets=[])
    history = []
    for number in range(3):
        history = agent.run_conversation(f"PROMPT {number}", conversation_history=history)["messages"]
turns = [body for body in requests if "PROMPT" in json.dumps(body)]
recalled = [sorted(set(re.findall(r"RECALLED \d", json.dumps(body)))) for body in turns]
print(f"hermes-agent {version('hermes-agent')}: recalled text in the last request {recalled[-1]}")
sys.stdout.flush()
assert recalled[-1] == ["RECALLED 1", "RECALLED 2", "RECALLED 3"]
PYTHON
HERMES_HOME="$folder" "$folder/venv/bin/python" "$folder/look.py"
