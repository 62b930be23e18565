"""What all tests of servers beyond one machine need."""

from typing import Final

from tests.architecture.source import ROOT

ENVIRONMENT: Final = ROOT / ".environments" / "scale"  # of `make test-scale`
