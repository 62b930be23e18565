"""The `engramq` command over the fake stack: `python fake_engramq.py stdio|up|holding|down|status ...`."""

import os
import sys
from pathlib import Path

from engramq.deploy.cli import main, up
from engramq.deploy.local import holding, stack_hold

FAKE_STACK = (sys.executable, "-P", str(Path(__file__).with_name("fake_stack.py")))

if __name__ == "__main__":
    stack_hold.SUPERVISOR_COMMAND = (*FAKE_STACK, *os.environ.get("FAKE_SERVICES", "").split())
    up.HOLDER_COMMAND = (sys.executable, "-P", __file__, "up", "--held")
    holding.HOLDING_COMMAND = (sys.executable, "-P", __file__, "holding")
    sys.exit(holding.main(*sys.argv[2:]) if sys.argv[1] == "holding" else main(sys.argv[1:]))
