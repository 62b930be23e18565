"""A running pipeline and a gateway without one."""

from collections.abc import AsyncIterator

import pytest

from engramq.gateway.service import Service
from tests.scenarios.conftest import settings, stage
from tests.scenarios.stage import Agent, agent_of

__all__ = ["guided", "settings", "stage"]


class Nobody:
    """A queue and a Redis that must not be asked."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"the guide asked for {name}")


@pytest.fixture
async def guided() -> AsyncIterator[Agent]:
    """A client of a gateway that can reach nothing."""
    nobody = Nobody()
    async with agent_of(Service(nobody, nobody, nobody)) as agent:  # type: ignore[arg-type]
        yield agent
