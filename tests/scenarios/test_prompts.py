"""What prompts and files are told unasked: what is right and found first, of what is unrelated next to nothing.

Bounds were chosen on what was written first; what was written later only tests them.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

from engramq.deploy.local.hooks.files import about_file, query_of
from engramq.deploy.local.hooks.recall import is_likely
from tests.scenarios.stage import Agent, with_settings
from tools.relevance.worlds import prompts

pytestmark = [pytest.mark.long, pytest.mark.promise("RC-5")]

FILES: Final = dict(line.split("\t") for line in Path(__file__).with_name("files.tsv").read_text().splitlines()[1:])
# Of the files that nothing names, those that something kept bears on: log lines are JSON, backups are restored.
NEAR: Final = {"config/logging.yaml", "scripts/backup.sh", "tests/test_geometry.py"}
LIMIT = 12  # of a hook's search
AT_ONCE = 8


def facts(when: str) -> dict[str, str]:
    """Return the prompts that bear on a fact, with it."""
    return {prompt: fact for prompt, fact in prompts(when).items() if fact}


def unrelated(when: str) -> list[str]:
    return [prompt for prompt, fact in prompts(when).items() if not fact]


async def keep(agent: Agent, contents: Iterable[str]) -> None:
    """Store these, some at once."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def store(content: str) -> None:
        async with turns:
            await agent.store(content)

    await asyncio.gather(*map(store, contents))


async def told(agent: Agent, prompt: str) -> bool:
    """Say whether a hook tells anything."""
    return any(map(is_likely, await agent.search(prompt, limit=LIMIT)))


async def right(agent: Agent, pairs: dict[str, str]) -> list[bool]:
    """Return of each prompt that finds the right fact first whether it is told it."""
    best = [(prompt, (await agent.search(prompt, limit=LIMIT, min_relevance=0))[0]) for prompt in pairs]
    found = [prompt for prompt, hit in best if hit["content"] == pairs[prompt]]
    likely = {prompt: filter(is_likely, await agent.search(prompt, limit=LIMIT)) for prompt in found}
    return [pairs[prompt] in [hit["content"] for hit in likely[prompt]] for prompt in found]


@with_settings(embedder="minilm", link_threshold="1", min_relevance="")
@pytest.mark.parametrize(
    ("when", "least_right", "share_told", "most_false"), [("first", 36, 0.89, 4), ("later", 18, 0.89, 0)]
)
async def test_what_is_right_is_told_and_what_is_unrelated_is_not(
    agent: Agent, when: str, least_right: int, share_told: float, most_false: int
) -> None:
    await keep(agent, {**facts("first"), **facts(when)}.values())
    told_right = await right(agent, facts(when))
    told_false = [prompt for prompt in unrelated(when) if await told(agent, prompt)]
    assert len(told_right) >= least_right
    assert sum(told_right) >= share_told * len(told_right)
    assert len(told_false) <= most_false


@with_settings(embedder="minilm", link_threshold="1")
@pytest.mark.promise("RC-16")
async def test_a_file_is_told_what_names_it_and_others_next_to_nothing(agent: Agent) -> None:
    await keep(agent, [*facts("first").values(), *filter(None, FILES.values())])
    hits = {path: await agent.search(query_of(path), limit=LIMIT, min_relevance=0) for path in FILES}
    near = {path: about_file(found, path) for path, found in hits.items()}
    # Two memories name one of them: what is made by it, and what it needs.
    assert [path for path, fact in FILES.items() if fact and fact not in [hit["content"] for hit in near[path]]] == []
    assert {path for path, fact in FILES.items() if not fact and near[path]} <= NEAR
