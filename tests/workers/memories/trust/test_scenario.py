"""The example of the documentation, run as its reader would run it."""

import asyncio
import importlib.util
import sys

import pytest

from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from tests.architecture.source import ROOT
from tests.gateway.conftest import gateway_over
from tests.gateway.test_http import site_of
from tests.gateway.test_identity_end_to_end import served
from tests.scenarios.stage import Agent, agent_of, running_workers, staged

SCRIPT = ROOT / "docs" / "examples" / "trust_scenario.py"
BOUND_S = 60.0


async def run(*arguments: str) -> tuple[int | None, str]:
    """Return exit code and output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(BOUND_S):
            shown, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode, shown.decode()


@pytest.mark.promise("TP-25")
@pytest.mark.long
async def test_the_scenario_exits_0_over_http(settings: Settings) -> None:
    async with (
        running_workers(settings),
        gateway_over(settings.redis_url, Keys(settings.key_prefix), 20.0) as gateway,
        site_of(gateway) as site,
    ):
        code, shown = await run(site.url)
    assert code == 0, shown
    assert "All four steps" in shown


@pytest.mark.promise("TP-25")
@pytest.mark.long
async def test_the_scenario_exits_0_with_the_token_of_a_verifier(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(settings) as here:
        monkeypatch.setenv("TOKEN", here.secrets["verifier"])
        code, shown = await run(here.site.url)
    assert code == 0, shown
    assert "All four steps" in shown


@pytest.mark.promise("TP-25")
async def test_the_scenario_stops_at_a_step_that_goes_another_way(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("trust_scenario", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        await script.scenario(agent.client)
        assert await agent.recent(partitions=["trusted", "untrusted"]) == []

        async def sloppy(client: object, tool: str, **arguments: object) -> object:
            if tool == "verify_memory":
                arguments["verification"] = "rejected"
            return await Agent(agent.client).call(tool, **arguments)

        monkeypatch.setattr(script, "call", sloppy)
        with pytest.raises(script.Surprise, match="verified"):
            await script.scenario(agent.client)
