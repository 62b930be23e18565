"""`python -m engramq.deploy.supervisor`: detach, and run the stack that the environment asks for."""

from __future__ import annotations

import os
import sys

from engramq.deploy.supervisor.entry import main

if __name__ == "__main__":
    sys.exit(main(os.environ))
