"""The `engramq` command over the fake stack: `python fake_engramq.py stdio|up|down|status ...`."""

import os
import sys
from pathlib import Path

from engramq.deploy.commands import run
from engramq.deploy.stdio import main as stdio

FAKE_STACK = (sys.executable, "-P", str(Path(__file__).with_name("fake_stack.py")))

if __name__ == "__main__":
    supervisor = (*FAKE_STACK, *os.environ.get("FAKE_SERVICES", "").split())
    if sys.argv[1] == "stdio":
        sys.exit(stdio(sys.argv[2:], supervisor))
    sys.exit(run(sys.argv[1:], supervisor))
