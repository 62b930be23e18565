"""Commands of `engramq`, run in this process as at a terminal."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.cli import main
from engramq.schemas.settings import Settings

SERVERS = ("database_url", "redis_url", "key_prefix")


async def run_command(*arguments: str | Path) -> int:
    """Run `engramq` with these arguments and return its exit code."""
    return await asyncio.to_thread(main, [*map(str, arguments)])


def set_servers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands find the servers of these settings in the environment."""
    for name in SERVERS:
        monkeypatch.setenv(f"ENGRAMQ_{name.upper()}", getattr(settings, name))


@dataclass
class Terminal:
    """Runs commands and keeps what they print."""

    capture: pytest.CaptureFixture[str]

    async def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit code, what was printed, and what was complained about."""
        self.capture.readouterr()
        code = await run_command(*arguments)
        shown = self.capture.readouterr()
        return code, shown.out, shown.err

    async def entries(self, *arguments: str) -> list[dict[str, Any]]:
        code, out, _ = await self("audit", "--json", *arguments)
        assert code == 0
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def terminal(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Terminal:
    # A command may start a stack of its own, whose workers take part: not in the tester's home, and no longer than it.
    set_servers(settings, monkeypatch)
    monkeypatch.setenv("ENGRAMQ_EMBEDDER", settings.embedder)
    monkeypatch.setenv("ENGRAMQ_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ENGRAMQ_TEST_LINGER_S", "0")
    return Terminal(capsys)
