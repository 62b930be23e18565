"""The whole pipeline for what operators see, the handlers alone for what the database holds."""

from tests.scenarios.conftest import agent, settings, stage
from tests.terminal import terminal
from tests.workers.conftest import world

__all__ = ["agent", "settings", "stage", "terminal", "world"]
