"""Records the terminal session of the README: runs each command in a home of its own, and draws what it printed.

    python -m tools.session docs/session.svg

Nothing is made up or left out; the temporary home is shown as `~`, and lines are broken at the width.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import urlopen
from xml.sax.saxutils import escape

BIN: Final = Path(sys.executable).parent
BOUND_S: Final = 120.0
COLUMNS: Final = 110
LINE: Final = 17  # pixels
CHARACTER: Final = 7.83  # pixels of one column at 13 px
MARGIN: Final = 14
SVG: Final = "http://www.w3.org/2000/svg"

# What the session calls a tool with: curl, and the text of the reply.
CALL: Final = """\
call() { curl --silent http://127.0.0.1:$ENGRAMQ_PORT/mcp \
-H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
-d '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "'"$1"'", "arguments": '"$2"'}}' \
| python3 -c 'import json, sys; print(json.load(sys.stdin)["result"]["content"][0]["text"])'; }
"""
STEPS: Final = (
    "curl --silent http://127.0.0.1:$ENGRAMQ_PORT/readyz",
    """call store_memory '{"content": "Ada prefers green tea in the morning"}'""",
    """call store_memory '{"content": "The launch is on 3 March, and Ben writes the announcement"}'""",
    """call search_memories '{"query": "what does Ada drink?"}'""",
    "engramq status",
    "engramq doctor",
    "engramq down",
)


def recorded() -> Iterator[tuple[str, str]]:
    """Yield each command with what it printed, on both outputs."""
    with tempfile.TemporaryDirectory(prefix="engramq-session-") as folder:
        port = _free_port()
        variables = {"HOME": folder, "ENGRAMQ_PORT": str(port), "COLUMNS": str(COLUMNS)}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
        environment |= {**variables, "PATH": f"{BIN}:{os.environ['PATH']}"}
        with _up(environment) as banner:
            yield "engramq up", _shown(banner, folder)
            for step in STEPS:
                done = subprocess.run(
                    ["/bin/sh", "-c", CALL + step],
                    env=environment,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=BOUND_S,
                    check=False,
                )
                yield step, _shown(done.stdout, folder)


def _shown(printed: str, folder: str) -> str:
    """Return what was printed, the temporary home as `~` (in URLs too), the command without its folder."""
    return printed.replace(folder, "~").replace(quote(folder, safe=""), "~").replace(f"{BIN}/", "")


@contextmanager
def _up(environment: dict[str, str]) -> Iterator[str]:
    """Run `engramq up` for the length of a block; yields what it printed until it served."""
    with subprocess.Popen([BIN / "engramq", "up"], env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "Ctrl-C" in line:
                break
        _await_ready(f"http://127.0.0.1:{environment['ENGRAMQ_PORT']}/readyz")
        try:
            yield "".join(lines)
        finally:
            process.send_signal(signal.SIGINT)


def _await_ready(url: str) -> None:
    until = time.monotonic() + BOUND_S
    while time.monotonic() < until:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except URLError:
            time.sleep(0.2)
    raise TimeoutError(url)


def _free_port() -> int:
    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
        return port


def svg(session: list[tuple[str, str]]) -> str:
    """Return the session as a picture of text, in which a reader can search and copy."""
    lines: list[tuple[str, str]] = []
    for command, printed in session:
        lines += [("command", line) for line in textwrap.wrap(f"$ {command}", COLUMNS, subsequent_indent="  ")]
        for line in printed.rstrip().splitlines():
            lines += [("output", part) for part in _broken(line)]
        lines.append(("output", ""))
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, (len(lines) - 1) * LINE + 2 * MARGIN
    drawn = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}" class="{kind}">{escape(text)}</text>'
        for number, (kind, text) in enumerate(lines)
        if text
    ]
    return "\n".join(
        [
            f'<svg xmlns="{SVG}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            "<title>A terminal session: engramq is started, two memories are stored, one is found</title>",
            "<style>text { font: 13px monospace; white-space: pre }",
            ".command { fill: #8bd5ca } .output { fill: #cad3f5 }</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e2030"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


def _broken(line: str) -> list[str]:
    """Break a line at the width, at any character, as a terminal does."""
    return [line[start : start + COLUMNS] for start in range(0, len(line), COLUMNS)] or [""]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(list(recorded())), encoding="utf-8")
