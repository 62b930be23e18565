"""Anthropic's memory tool in TypeScript: the documented examples, by the runner of their own SDK."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.auth.tokens import NewToken
from tests.architecture.source import ROOT
from tests.clients.messages_api import EXAMPLES, RECEIPTS, Conversation, running_api
from tests.gateway.test_identity_end_to_end import Served, served, settings
from tests.integrations.two_principals import invite_both, keep_under_one_name
from tests.rest_contract.test_typescript import NODES, node, package, sources

__all__ = ["package", "settings", "sources"]

PROGRAM = Path(__file__).with_name("programs") / "memory_tool.mjs"
PAGE = ROOT / "docs/providers.md"


async def output_of(settings: Settings, api: Conversation, program: Path, folder: str) -> str:
    """Return what a program prints that talks to the model and to a gateway of its own."""
    async with served(settings) as here:
        await here.invite("ada", "files", NewToken(principal="ada", scopes=ALL_SCOPES))
        environment = {
            **os.environ,
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": api.url,
            "ENGRAMQ_URL": f"http://127.0.0.1:{here.site.port}",
            "ENGRAMQ_TOKEN": here.secrets["ada"],
        }
        command = [node(folder), program.name]
        ended = await anyio.run_process(command, cwd=program.parent, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()


class NodeFiles:
    """The files of the memory tool in TypeScript with one token."""

    def __init__(self, program: Path, here: Served, name: str) -> None:
        self._program = program
        self._environment = {
            **os.environ, "ENGRAMQ_URL": f"http://127.0.0.1:{here.site.port}", "ENGRAMQ_TOKEN": here.secrets[name]
        }  # fmt: skip

    async def keep(self, key: str, text: str) -> None:
        await self._run("keep", key, text)

    async def read(self, key: str) -> str:
        return await self._run("read", key)

    async def _run(self, *words: str) -> str:
        command = [node(), self._program.name, *words]
        ended = await anyio.run_process(command, cwd=self._program.parent, env=self._environment, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()


@pytest.mark.promise("PV-1")
async def test_files_of_one_path_are_two_where_one_is_private(settings: Settings, package: Path) -> None:
    program = Path(shutil.copy(PROGRAM.with_name("memory_files.mjs"), package.parents[1]))
    async with served(settings) as here:
        await invite_both(here, is_private=True)
        await keep_under_one_name(NodeFiles(program, here, "ada"), NodeFiles(program, here, "bob"))


@pytest.mark.promise("RC-18")
@pytest.mark.parametrize("folder", NODES)
async def test_the_documented_examples_run_in_the_tool_runner_of_the_sdk(
    settings: Settings, package: Path, folder: str
) -> None:
    program = Path(shutil.copy(PROGRAM, package.parents[1]))
    with running_api() as api:
        said: dict[str, Any] = json.loads(await output_of(settings, api, program, folder))
    assert api.tools == [{"type": "memory_20250818", "name": "memory"}]
    assert [text for text, _ in api.results] == [expected for _, expected in EXAMPLES]
    fails = [text.startswith(("Error: ", "No replacement", "The path ")) for text, _ in api.results]
    assert [is_error for _, is_error in api.results] == fails
    assert (said["said"], len(said["receipts"])) == ("Noted.", RECEIPTS)
    path = "/memories/shop/notes.md"
    assert said["edited"] == ["", "a", "b", "c", "d", "first"]
    (kept,) = said["kept"]
    assert (re.sub(r"\d+$", "N", kept[0]), *kept[1:]) == (f"{path}#N", "shop", "/memories/shop", path)
    assert said["blank"].splitlines()[1:] == ["     1\t ", "     2\t"]


@pytest.mark.promise("RC-18")
async def test_the_example_of_the_page_runs(settings: Settings, package: Path) -> None:
    (example,) = re.findall(r"```ts\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    program = package.parents[1] / "example.mjs"
    program.write_text(example, encoding="utf-8")
    with running_api(EXAMPLES[:2]) as api:
        printed = await output_of(settings, api, program, NODES[0])
    assert (printed.splitlines()[-1:], len(printed.splitlines())) == (["Noted."], 2)
    assert [text for text, _ in api.results] == [expected for _, expected in EXAMPLES[:2]]
