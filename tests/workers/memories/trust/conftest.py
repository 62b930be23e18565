"""The whole pipeline for what agents see, the handlers alone for what the database holds."""

from tests.scenarios.conftest import agent, settings, stage
from tests.workers.conftest import world

__all__ = ["agent", "settings", "stage", "world"]
