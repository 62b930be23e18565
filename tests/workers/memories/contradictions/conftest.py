"""The whole pipeline, and a terminal beside it."""

from tests.scenarios.conftest import agent, settings, stage
from tests.terminal import terminal

__all__ = ["agent", "settings", "stage", "terminal"]
