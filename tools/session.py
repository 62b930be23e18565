"""Records the terminal session of the README: runs `engramq demo`, and draws what it printed.

    python -m tools.session docs/session.svg

Nothing is made up; of the temporary home's path the name alone is shown, and lines are broken at the width.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ENGRAMQ: Final = Path(sys.executable).with_name("engramq")
BOUND_S: Final = 300.0
COLUMNS: Final = 110
LINE: Final = 17  # pixels
CHARACTER: Final = 7.83  # pixels of one column at 13 px
MARGIN: Final = 14
SVG: Final = "http://www.w3.org/2000/svg"
COMMAND: Final = "engramq demo"
CALL: Final = "> "  # behind the name of the agent that calls


def recorded() -> str:
    """Return what the command printed, on both outputs."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)  # PostgreSQL may run under an account of its own
        done = subprocess.run(
            [ENGRAMQ, *COMMAND.split()[1:]],
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BOUND_S,
            check=True,
        )
    return done.stdout.replace(f"{folder}/", "")


def svg(printed: str) -> str:
    """Return the session as a picture of text, in which a reader can search and copy."""
    lines = [("command", f"$ {COMMAND}")]
    for line in printed.rstrip().splitlines():
        kind = "call" if CALL in line else "output" if line.startswith((" ", "$")) else "heading"
        lines += [(kind, part) for part in textwrap.wrap(line, COLUMNS, subsequent_indent="    ") or [""]]
    width, height = round(COLUMNS * CHARACTER) + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    drawn = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * (number + 1) - 5}" class="{kind}">{escape(text)}</text>'
        for number, (kind, text) in enumerate(lines)
        if text
    ]
    return "\n".join(
        [
            f'<svg xmlns="{SVG}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            "<title>A terminal: an agent learns, another client knows, and what was superseded stays away</title>",
            "<style>text { font: 13px monospace; white-space: pre }",
            ".command, .call { fill: #8bd5ca } .output { fill: #cad3f5 } .heading { fill: #eed49f }</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#1e2030"/>',
            *drawn,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(recorded()), encoding="utf-8")
