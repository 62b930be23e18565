"""The main road is short: how much code a call passes in production, from the socket to the reply."""

import json
import subprocess
import sys
from typing import Final

# Functions and files that each of several calls passes over HTTP, at most. What follows calls is gathered, so that a
# store passes 202 or 211. They may only sink. A call that passes more needs another way, or a reason that is worth it.
MOST: Final = {"store_memory": (213, 55), "search_memories": (327, 71), "connect": (172, 47), "get_edge": (108, 34)}
BOUND_S: Final = 300


def test_no_call_passes_more_code_than_was_reached() -> None:
    measuring = [sys.executable, "-m", "bench.trace", "--door", "http"]
    printed = subprocess.run(measuring, capture_output=True, text=True, check=True, timeout=BOUND_S).stdout
    lines = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    passed = {line["measure"]: (line["functions"], line["files"]) for line in lines}
    assert passed.keys() == MOST.keys()
    longer = {
        tool: (found, MOST[tool])
        for tool, found in passed.items()
        if any(now > most for now, most in zip(found, MOST[tool], strict=True))
    }
    assert longer == {}, "a call passes more functions or files than before; `python -m bench.trace --show` names them"
