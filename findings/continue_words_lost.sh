#!/bin/sh
# Continue CLI 1.5.47 loses words in a terminal: a prompt that another follows while the model works, and what is typed
# behind the name of a skill.
#
# Load: in a terminal, with a model played on loopback: one prompt is answered; while the model works on a second one, a
# third is typed and sent, and waits until the second is answered. Then "/brew green fennel, no sugar" names a skill of
# the project, once there and once by `cn -p`.
# Expected: three prompts and the words behind the skill's name in the session's file and before the model, as when Esc
# ends the work on the second prompt, and as with prompts of the configuration, which get such words appended.
# Real: the third takes the place of the second. "Buy a pot." and its answer stay on the screen at most, and the model
# is asked the third without them. In a terminal the skill's line becomes a sentence of the program ("Load the skill
# using the **Skills** tool ..."), its words are gone; by -p they are told. Nobody says so.
#
# Output seen on 2026-11-30:
#   Continue 1.5.47: typed 3; in the file: ['The kettle is blue.', 'Of two litres, please.']; the model was last told: ['The kettle is blue.', 'Of two litres, please.']
#   '/brew green fennel, no sugar' is told by -p; in a terminal 'Load the skill using the **Skills** tool and then set the **skill_name** parameter to "brew".' is, and the words are in the file: False
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
FIRST, SECOND, THIRD = "The kettle is blue.", "Buy a pot.", "Of two litres, please."
WORDS = "green fennel, no sugar"
TYPED = f"/brew {WORDS}"
LOADED = "Load the skill using the **Skills** tool"
asked = []  # what the person has said, by each request
released = threading.Event()


def words(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Model(BaseHTTPRequestHandler):
    """Notes what it is told, at once but for the second prompt."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body.get("tools"):  # else it is to name the session
            asked.append([words(each) for each in body["messages"] if each["role"] == "user"])
            if asked[-1][-1] == SECOND:
                released.wait(120)
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
        try:
            self.wfile.write(text.encode())
        except ConnectionError:
            pass  # nobody waits for it any more


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


def is_asked(text):
    return any(each[-1] == text for each in asked)


def is_queued():
    """Say whether the line to type in is empty again, below what waits."""
    return shown().rfind("Ask anything") > shown().rfind(f"\u25cf {THIRD}") and f"  {THIRD}\r\n" in shown()


def in_file():
    """Return what the person says in the file of the session in the terminal."""
    (path,) = {*sessions.glob("*.json")} - by_itself - {sessions / "sessions.json"}
    try:
        history = json.loads(path.read_text())["history"]
    except ValueError:  # it is being written
        return []
    return [words(each["message"]) for each in history if each["message"]["role"] == "user"]


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
skill = folder / "work" / ".continue" / "skills" / "brew" / "SKILL.md"
skill.parent.mkdir(parents=True)
skill.write_text("---\nname: brew\ndescription: Brew tea\n---\n\nBoil the water first.\n")
sessions = folder / ".continue" / "sessions"
sessions.mkdir(parents=True)
config = folder / ".continue" / "config.yaml"
config.write_text(
    "name: t\nversion: 1.0.0\nschema: v1\nmodels:\n  - {name: m, provider: openai, model: m, apiKey: none, "
    f'apiBase: "http://127.0.0.1:{server.server_address[1]}/v1", roles: [chat], capabilities: [tool_use]}}\n'
)
environment = os.environ | {"HOME": str(folder), "TERM": "xterm-256color", "CONTINUE_TELEMETRY_ENABLED": "0"}
command = [program, "--config", str(config)]
quiet = {"stdin": subprocess.DEVNULL, "capture_output": True}
subprocess.run([*command, "-p", TYPED], cwd=folder / "work", env=environment, check=True, **quiet)
assert asked[-1] == [TYPED], "by -p the words are told"
by_itself = {*sessions.glob("*.json")}
process, descriptor = pty.fork()
if not process:
    os.chdir(folder / "work")
    os.execve(program, command, environment)
fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
threading.Thread(target=read_on, daemon=True).start()
wait_until(lambda: "Ask anything" in shown(), "the prompt")
time.sleep(5)  # the prompt is shown before it can be typed into
submit(FIRST, lambda: is_asked(FIRST))
wait_until(lambda: "Noted." in shown(), "the answer")
time.sleep(2)
submit(SECOND, lambda: is_asked(SECOND))
time.sleep(2)
submit(THIRD, is_queued)
released.set()
wait_until(lambda: is_asked(THIRD) and in_file()[-1:] == [THIRD], "the third prompt")
told = asked[-1]
time.sleep(5)  # so that whatever is still to be written is
prompts = in_file()
submit(TYPED, lambda: asked[-1][-1].startswith(LOADED))
wait_until(lambda: in_file()[-1:] == asked[-1][-1:], "the skill")
time.sleep(5)
kept = WORDS in "".join(in_file())
os.kill(process, signal.SIGKILL)
os.waitpid(process, 0)
server.shutdown()
version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
print(f"Continue {version}: typed 3; in the file: {prompts}; the model was last told: {told}")
print(f"{TYPED!r} is told by -p; in a terminal {asked[-1][-1]!r} is, and the words are in the file: {kept}")
assert prompts == told == [FIRST, THIRD]
assert [each for each in asked if SECOND in each] == [[FIRST, SECOND]], "the model was told it once, and answered"
assert not kept and WORDS not in "".join(asked[-1])
PYTHON
python3 "$folder/look.py" "$folder"
