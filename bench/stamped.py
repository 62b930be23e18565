"""`python -m bench.stamped FOLDER gateway|worker ...`: that command of engramq, which writes time stamps at its end."""

import os
import sys
from pathlib import Path

from bench.stamps import POINTS, Stamps
from engramq.deploy.cli import main as engramq


def main() -> int:
    """Serve with time stamps until asked to stop."""
    folder, *arguments = sys.argv[1:]
    stamps = Stamps()
    stamps.wrap(POINTS[arguments[0]])
    try:
        return engramq(arguments)
    finally:
        stamps.write(Path(folder) / f"{os.getpid()}.jsonl")


if __name__ == "__main__":
    raise SystemExit(main())
