"""What all tests of servers beyond one machine need."""

from typing import Final

import pytest

from tests.architecture.source import ROOT

ENVIRONMENT: Final = ROOT / ".environments" / "scale"  # of `make test-scale`


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
