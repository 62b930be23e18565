"""The whole pipeline for what operators see, the handlers alone for what the database holds."""

from tests.pipeline.conftest import agent, settings, stage
from tests.trust.test_command_lines import terminal
from tests.workers.conftest import world

__all__ = ["agent", "settings", "stage", "terminal", "world"]
