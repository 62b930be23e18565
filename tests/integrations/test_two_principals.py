"""Two principals at the doors in Python: the memory tool and Hermes (PV-1). The others need Node or LangGraph."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engramq.client import AsyncMemory
from engramq.client.file_commands import MemoryFiles
from engramq.client.files import FileProblem
from engramq.schemas.settings import Settings
from tests.gateway.test_identity_end_to_end import Served, served, settings
from tests.integrations.test_hermes import off, patient, provider_in
from tests.integrations.two_principals import capture_apart, invite_both, keep_under_one_name

__all__ = ["patient", "settings"]

pytestmark = pytest.mark.promise("PV-1")


class Files:
    """The files of Anthropic's memory tool."""

    def __init__(self, memory: AsyncMemory) -> None:
        self._memory = memory
        self._files = MemoryFiles()

    async def keep(self, key: str, text: str) -> None:
        path = f"/memories/{key}"
        is_there = bool(await self.read(key))
        writing = self._files.insert(path, 0, text) if is_there else self._files.create(path, f"{text}\n")
        await self._memory.converse(writing)

    async def read(self, key: str) -> str:
        try:
            return await self._memory.converse(self._files.view(f"/memories/{key}"))
        except FileProblem:
            return ""


class Hermes:
    """What Hermes captures and finds again."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    async def keep(self, _key: str, text: str) -> None:
        await off(self._provider.sync_turn, text, "I see.")

    async def read(self, key: str) -> str:
        asked = {"query": key, "include_untrusted": True, "limit": 20}
        found = await off(self._provider.handle_tool_call, "engramq_search", asked)
        return str(json.loads(found)["memories"])


@pytest.fixture
async def here(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as here:
        yield here


async def test_files_of_one_path_are_two_where_one_is_private(here: Served) -> None:
    await invite_both(here, is_private=True)
    address = f"http://127.0.0.1:{here.site.port}"
    async with AsyncMemory(address, here.secrets["ada"]) as ada, AsyncMemory(address, here.secrets["bob"]) as bob:
        await keep_under_one_name(Files(ada), Files(bob))


async def test_a_shared_file_that_is_called_as_a_private_folder_hides_none_of_it(here: Served) -> None:
    await invite_both(here, is_private=True)
    address = f"http://127.0.0.1:{here.site.port}"
    async with AsyncMemory(address, here.secrets["ada"]) as memory, AsyncMemory(address, here.secrets["bob"]) as other:
        ada, bob = Files(memory), Files(other)
        await ada.keep("plans/job.md", "Ada looks for another job")
        await bob.keep("plans", "bait of Bob")
        assert "bait" not in await ada.read("plans")
        assert "job.md" in await ada.read("plans")
        await ada.keep("plans/boat.md", "Ada buys a boat")
        await memory.converse(MemoryFiles().rename("/memories/plans", "/memories/dreams"))
        assert "boat" in await ada.read("dreams/boat.md")
        assert "bait" in await bob.read("plans")
        assert "boat" not in await bob.read("dreams") + await bob.read("dreams/boat.md")


async def test_what_hermes_captures_of_one_the_other_does_not_find(
    here: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await invite_both(here, is_private=False)
    monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{here.site.port}")
    doors = []
    for name in ("ada", "bob"):
        monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets[name])
        doors.append(Hermes(provider_in(tmp_path / name)))
    await capture_apart(*doors)
