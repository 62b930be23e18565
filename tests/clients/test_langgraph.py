"""The store for LangGraph: LangGraph's own three stores and ours pass one suite, ours over a real stack."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import anyio
import pytest

from engramq.schemas.settings import Settings
from tests.architecture.source import ROOT
from tests.clients.conftest import INSTALLED, PROGRAMS, Stack
from tests.conftest import Database
from tests.gateway.conftest import keys, redis_url
from tests.gateway.test_identity_end_to_end import Served, served, settings
from tests.integrations.two_principals import invite_both, keep_under_one_name

__all__ = ["keys", "redis_url", "settings"]

BOUND_S = 300.0


@pytest.mark.promise("RC-9")
@pytest.mark.timeout(BOUND_S + 30)
def test_one_suite_is_passed_by_theirs_and_by_ours(stack: Stack, database: Database, tmp_path: Path) -> None:
    python = str(INSTALLED / "frameworks" / "bin" / "python")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # not our own
    how = (
        "-c",
        str(tmp_path / "pytest.ini"),
        "--rootdir",
        str(PROGRAMS),
        "--confcutdir",
        str(PROGRAMS),
        "--import-mode=importlib",
        "-p",
        "tests.clients.programs.loadable_sqlite",
    )
    ended = subprocess.run(
        [python, "-m", "pytest", *how, "-q", "-p", "no:cacheprovider", "-W", "error", "langgraph_suite.py"],
        cwd=PROGRAMS,
        env=stack.environment
        | {"PYTHONPATH": str(ROOT), "ENGRAMQ_URL": stack.address, "POSTGRES_URL": database.owner_url},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    passed = re.search(r"(\d+) passed", ended.stdout)
    assert passed is not None
    assert int(passed[1]) >= 160
    assert "skipped" not in ended.stdout


class Items:
    """Items of LangGraph's store with one token."""

    def __init__(self, here: Served, name: str) -> None:
        self._environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "ENGRAMQ_URL": f"http://127.0.0.1:{here.site.port}",
            "ENGRAMQ_TOKEN": here.secrets[name],
        }  # fmt: skip

    async def keep(self, key: str, text: str) -> None:
        await self._run("keep", key, text)

    async def read(self, key: str) -> str:
        return await self._run("read", key)

    async def _run(self, *words: str) -> str:
        command = [str(INSTALLED / "frameworks" / "bin" / "python"), str(PROGRAMS / "langgraph_items.py"), *words]
        ended = await anyio.run_process(command, env=self._environment, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()


@pytest.mark.promise("PV-1")
async def test_items_of_one_key_are_two_where_one_is_private(settings: Settings) -> None:
    async with served(settings) as here:
        await invite_both(here, is_private=True)
        await keep_under_one_name(Items(here, "ada"), Items(here, "bob"))


@pytest.mark.promise("RC-9")
def test_the_example_of_the_page_runs_with_what_the_extra_brings(stack: Stack) -> None:
    """As docs/frameworks.md has it (finding D9 of newcomers): what is installed is the extra, the block the program."""
    page = (ROOT / "docs/frameworks.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    installed = Path(__file__).with_name("requirements-frameworks.in").read_text(encoding="utf-8")
    # Beside the extra there are the stores that LangGraph brings, which its suite compares ours with.
    assert [name for name in re.findall(r"^(lang[^=]*)", installed, re.MULTILINE) if "checkpoint" not in name] == [
        re.split("[<>=]", needed)[0] for needed in extras["langgraph"]
    ]
    ended = subprocess.run(
        [str(INSTALLED / "frameworks/bin/python"), "-c", example],
        env=stack.environment | {"PYTHONPATH": str(ROOT), "ENGRAMQ_URL": stack.address},
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("allergic to walnuts\n", 0), ended.stderr
