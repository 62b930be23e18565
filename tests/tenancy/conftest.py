"""A pipeline of its own for each test that asks for one."""

from tests.pipeline.conftest import settings, stage

__all__ = ["settings", "stage"]
