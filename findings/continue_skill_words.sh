#!/bin/sh
# Continue CLI 1.5.47: what is typed behind the name of a skill is dropped in a terminal, and kept without one.
#
# Load: a skill of the project, and "/brew green fennel, no sugar", once by `cn -p` and once typed in a terminal; a model
# is played on loopback.
# Expected: the model is told the words in both, as it is for prompts of the configuration, which get them appended.
# Real: in a terminal the whole line becomes a sentence of the program ("Load the skill using the **Skills** tool ...").
# The words are neither told to the model nor written into the session's file; nobody says so.
#
# Output seen on 2026-11-30:
#   Continue 1.5.47: by -p the model is told '/brew green fennel, no sugar', in a terminal 'Load the skill using the **Skills** tool and then set the **skill_name** parameter to "brew".', and the words are in 1 of 2 files
#
# Fails if that is no longer so.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder" --silent --no-audit --no-fund @continuedev/cli@1.5.47
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
program = str(folder / "node_modules" / ".bin" / "cn")
WORDS = "green fennel, no sugar"
TYPED = f"/brew {WORDS}"
asked = []  # the last that the person has said, by each request


def words(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Model(BaseHTTPRequestHandler):
    """Notes what it is told."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("tools"):  # else it is to name the session
            asked.append(words(body["messages"][-1]))
        base = {"id": "c1", "created": 1, "model": "m"}
        if body.get("stream"):
            deltas = ({"role": "assistant", "content": "Noted."}, None), ({}, "stop")
            events = [
                {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": say, "finish_reason": end}]}
                for say, end in deltas
            ]
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "Noted."}, "finish_reason": "stop"}
            text = json.dumps({**base, "object": "chat.completion", "choices": [choice]})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if body.get("stream") else "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())


def wait_until(is_so, what, bound_s=120):
    end = time.monotonic() + bound_s
    while not is_so():
        assert time.monotonic() < end, f"{what} did not come: {shown()[-2000:]!r}"
        time.sleep(0.2)


output = b""


def read_on():
    """Read what is shown meanwhile: the program stands still while its terminal is full."""
    global output
    try:
        while data := os.read(descriptor, 65_536):
            output += data
    except OSError:
        pass  # the program has ended


def shown():
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.decode(errors="replace"))


def submit(text, is_sent):
    """Type as a person does; on a busy machine a line's end may be taken for a part of what is pasted."""
    for sign in text:
        os.write(descriptor, sign.encode())
        time.sleep(0.03)
    wait_until(lambda: text in shown(), text)
    for _ in range(6):
        time.sleep(1)
        os.write(descriptor, b"\r")
        end = time.monotonic() + 10
        while not is_sent() and time.monotonic() < end:
            time.sleep(0.2)
        if is_sent():
            return
    raise AssertionError(f"{text!r} was not sent: {shown()[-2000:]!r}")


def files():
    return [each.read_text() for each in (folder / ".continue/sessions").glob("*.json") if each.name != "sessions.json"]


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
skill = folder / "work" / ".continue" / "skills" / "brew" / "SKILL.md"
skill.parent.mkdir(parents=True)
skill.write_text("---\nname: brew\ndescription: Brew tea\n---\n\nBoil the water first.\n")
(folder / ".continue").mkdir()
config = folder / ".continue" / "config.yaml"
config.write_text(
    "name: t\nversion: 1.0.0\nschema: v1\nmodels:\n  - {name: m, provider: openai, model: m, apiKey: none, "
    f'apiBase: "http://127.0.0.1:{server.server_address[1]}/v1", roles: [chat], capabilities: [tool_use]}}\n'
)
environment = os.environ | {"HOME": str(folder), "TERM": "xterm-256color", "CONTINUE_TELEMETRY_ENABLED": "0"}
command = [program, "--config", str(config)]
headless = [*command, "-p", TYPED]
quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
subprocess.run(headless, cwd=folder / "work", env=environment, check=True, **quiet)
by_itself = asked[-1]
asked.clear()
process, descriptor = pty.fork()
if not process:
    os.chdir(folder / "work")
    os.execve(program, command, environment)
fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
threading.Thread(target=read_on, daemon=True).start()
wait_until(lambda: "Ask anything" in shown(), "the prompt")
time.sleep(5)  # the prompt is shown before it can be typed into
submit(TYPED, lambda: asked)
wait_until(lambda: "Noted." in shown() and len(files()) == 2, "the answer")
time.sleep(5)  # so that whatever is still to be written is
os.kill(process, signal.SIGKILL)
os.waitpid(process, 0)
server.shutdown()
version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
kept = sum(WORDS in each for each in files())
print(
    f"Continue {version}: by -p the model is told {by_itself!r}, in a terminal {asked[0]!r}, and the words are in "
    f"{kept} of {len(files())} files"
)
assert by_itself == TYPED
assert asked[0].startswith("Load the skill using the **Skills** tool") and WORDS not in asked[0]
assert (kept, len(files())) == (1, 2)
PYTHON
python3 "$folder/look.py" "$folder"
