"""`python -m engramq.deploy.local.supervisor`: detach, and run the stack that the environment asks for."""

from __future__ import annotations

import os
import sys

from engramq.deploy.local.home import DeployError
from engramq.deploy.local.secret_files import take_secrets
from engramq.deploy.local.supervisor.entry import main

if __name__ == "__main__":
    try:
        take_secrets(os.environ)
    except DeployError as problem:
        sys.exit(f"engramq: {problem}")
    sys.exit(main(os.environ))
