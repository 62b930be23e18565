#!/bin/sh
# Gemini CLI 0.61: a refused tool writes the whole session once more into its file, with other ids and times.
#
# Load: in a terminal one prompt is answered, then a tool that the model played on loopback asks for is refused (Esc).
# Expected: three prompts and answers in the session's file, each with one id: what was said, and what was refused.
# Real: what the model still has in sight is added anew, with new ids and the time of the refusal. Each refusal does so
# again. Who keeps memories by these ids keeps every turn twice; only a line that follows lists the new ids.
#
# Output seen on 2026-11-30:
#   Gemini CLI 0.61.0: "The kettle is blue." has 2 ids and 2 times, "Noted." has 2 ids and 2 times
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund @google/gemini-cli@0.61.0
cat > "$folder/look.py" <<'PYTHON'
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

folder = Path(sys.argv[1])
gemini = str(folder / "node_modules" / ".bin" / "gemini")


class Model(BaseHTTPRequestHandler):
    """Asks for a command of the shell once it is told to; else notes what it is told."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        part = {"text": "Noted."}
        if body.get("tools") and "Touch it." in json.dumps(body["contents"][-1]):
            part = {"functionCall": {"name": "run_shell_command", "args": {"command": "touch it"}}}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        whole = json.dumps({"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9}})
        is_stream = "stream" in self.path
        data = (f"data: {whole}\n\n" if is_stream else whole).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if is_stream else "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Terminal:
    """Types as a person does, and reads what is shown meanwhile: the program stands still while its terminal is full."""

    def __init__(self, descriptor):
        self.descriptor, self.output = descriptor, b""
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while data := os.read(self.descriptor, 65_536):
                self.output += data
        except OSError:
            pass  # the program has ended

    def shown(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.output.decode(errors="replace"))

    def is_shown(self, wanted, bound_s):
        end = time.monotonic() + bound_s
        while wanted not in self.shown() and time.monotonic() < end:
            time.sleep(0.2)
        return wanted in self.shown()

    def wait_for(self, wanted, bound_s=100):
        assert self.is_shown(wanted, bound_s), f"{wanted!r} was not shown: {self.shown()[-2000:]!r}"

    def submit(self, text, wanted):
        for sign in text:
            os.write(self.descriptor, sign.encode())
            time.sleep(0.03)
        self.wait_for(f"> {text}")
        for _ in range(4):  # on a busy machine the line's end may be taken for a part of what is pasted
            time.sleep(1)
            os.write(self.descriptor, b"\r")
            if self.is_shown(wanted, 20):
                return
        self.wait_for(wanted, 0)


def messages():
    lines = [json.loads(line) for path in folder.glob(".gemini/tmp/*/chats/*.jsonl") for line in path.open()]
    return [line for line in lines if line.get("type") in ("user", "gemini")]


def is_copied(bound_s=90):
    end = time.monotonic() + bound_s
    while time.monotonic() < end:
        if sum("The kettle is blue." in json.dumps(each["content"]) for each in messages()) > 1:
            return
        time.sleep(0.5)


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
work = folder / "work"
work.mkdir()
(folder / ".gemini").mkdir()
settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"disableAutoUpdate": True}}
(folder / ".gemini" / "settings.json").write_text(json.dumps(settings))
environment = os.environ | {
    "HOME": str(folder), "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true", "TERM": "xterm-256color",
    "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
}
process, descriptor = pty.fork()
if not process:
    os.chdir(work)
    os.execve(gemini, [gemini, "-m", "gemini-2.5-flash"], environment)
fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
terminal = Terminal(descriptor)
terminal.wait_for("Type your message")
time.sleep(15)  # the prompt is shown before it can be typed into
terminal.submit("The kettle is blue.", "Noted.")
time.sleep(5)
terminal.submit("Touch it.", "Allow execution")
time.sleep(1)
os.write(descriptor, b"\x1b")
is_copied()
os.kill(process, signal.SIGKILL)
os.waitpid(process, 0)
server.shutdown()
seen = []
for text in ("The kettle is blue.", "Noted."):
    said = [each for each in messages() if text in json.dumps(each["content"])]
    ids, times = ({each[name] for each in said} for name in ("id", "timestamp"))
    seen.append(f'"{text}" has {len(ids)} ids and {len(times)} times')
version = subprocess.run([gemini, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f"Gemini CLI {version}: {', '.join(seen)}")
assert all(each.endswith("has 2 ids and 2 times") for each in seen)
PYTHON
python3 "$folder/look.py" "$folder"
