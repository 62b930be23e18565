"""What all tests of servers beyond one machine need."""

from pathlib import Path
from typing import Final

import pytest

ENVIRONMENT: Final = Path(__file__).parents[2] / ".environments" / "scale"  # of `make test-scale`


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
