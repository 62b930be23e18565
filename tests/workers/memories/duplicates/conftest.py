"""The whole pipeline for what operators see, the handlers alone for what the database holds."""

from tests.scenarios.conftest import agent, settings, stage
from tests.workers.conftest import world
from tests.workers.memories.trust.test_command_lines import terminal

__all__ = ["agent", "settings", "stage", "terminal", "world"]
