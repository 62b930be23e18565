"""A home whose embedder was changed: killed in the middle, it goes on, and at its end all is found by its meaning."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from engramq.deploy.local.embedded import process
from tests.scenarios.stage import MODERN, Agent
from tests.stack.test_whole_stack import BOUND_S, Installation, installation, kill_everything

__all__ = ["installation"]

pytestmark = pytest.mark.timeout(300)

ROWS = 400
FILLER = "The weekly report lists pumps, valves and pipes with their pressure, age and the names of those who serviced "


def change(installation: Installation) -> dict[str, Any] | None:
    status = installation.status()
    if not status["running"]:
        return {"state": "down", "done": 0, "total": 0}
    shown: dict[str, Any] | None = status["reembedding"]
    return shown


def until(installation: Installation, reached: Callable[[dict[str, Any] | None], bool]) -> None:
    assert process.wait_until(lambda: reached(change(installation)), BOUND_S), change(installation)


@pytest.mark.promise("IM-7")
async def test_a_change_of_model_survives_a_kill_of_everything(installation: Installation) -> None:
    rows = [{"content": FILLER * 2 + f"them in week {number}."} for number in range(ROWS)]
    rows.append({"content": "Our flight to Lisbon departs at half past six in the morning."})
    given = "\n".join(json.dumps(row) for row in rows).encode()
    installation.environment["ENGRAMQ_EMBEDDER"] = "hash"
    assert installation.run("import", "-", given=given).returncode == 0
    assert change(installation) is None
    assert installation.run("down").returncode == 0

    del installation.environment["ENGRAMQ_EMBEDDER"]  # which changes nothing: the home has kept it
    async with installation.client(MODERN) as client:
        assert (await Agent(client).call("memory_stats"))["embedder"]["name"] == "hash"
        assert change(installation) is None
    assert installation.run("down").returncode == 0

    installation.environment["ENGRAMQ_EMBEDDER"] = "minilm"
    async with installation.client(MODERN) as client:
        agent, began = Agent(client), time.monotonic()
        body = await agent.call("search_memories", query="week 17")
        assert "compared by it until embedded anew" in body["notice"]
        until(installation, lambda shown: bool(shown and 0 < shown.get("done", 0) < shown["total"]))
        assert f"of {ROWS + 1:,} memories" in installation.run("status").stdout.decode()
        assert time.monotonic() - began < BOUND_S
    kill_everything(installation.status())

    del installation.environment["ENGRAMQ_EMBEDDER"]
    async with installation.client(MODERN) as client:
        agent = Agent(client)
        until(installation, lambda shown: shown is None)
        (found, *_) = await agent.search("When do we leave for Portugal?", min_relevance=0)
        assert "Lisbon" in found["content"]
        stats = await agent.call("memory_stats")
        assert stats["memories"] == ROWS + 1
        assert stats["embedder"].keys() == {"name", "dimensions", "sha256"}
