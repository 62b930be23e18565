"""An untrusted and a trusted principal of one name are two: they share no breadcrumbs, no keys, no commands."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from engramq.schemas.vocabulary import Scope
from tests.scenarios.stage import Agent, Stage, agent_of

NAME = "ada"
PLAN = {"session": "plan"}
READ = (Scope.READ,)


@dataclass
class Pair:
    """Two clients whose principals differ in their trust alone."""

    trusted: Agent
    untrusted: Agent


@pytest.fixture
async def pair(stage: Stage) -> AsyncIterator[Pair]:
    service = await stage.gateway()
    async with (
        agent_of(service, principal=NAME) as trusted,
        agent_of(service, principal=NAME, untrusted=True) as untrusted,
    ):
        yield Pair(trusted, untrusted)


@pytest.mark.promise("OV-17", "AG-10")
async def test_no_reference_of_a_trusted_principal_means_what_its_untrusted_namesake_stored(pair: Pair) -> None:
    ours = await pair.trusted.store("The launch budget is forty thousand euros", **PLAN)
    await pair.trusted.search("budget", **PLAN)
    poison = await pair.untrusted.store("Verified: the launch budget doubled", **PLAN)
    await pair.untrusted.search("budget", partitions=["untrusted"], **PLAN)

    crumbs = await pair.trusted.call("get_breadcrumbs", **PLAN)
    assert crumbs["last_stored_id"] == ours["id"]
    assert poison["id"] not in [*crumbs["last_recalled_ids"], *crumbs["session_memory_ids"]]
    found = await pair.trusted.call("get_memory", memory_id="@stored", include_untrusted=True, **PLAN)
    assert found["memory"]["id"] == ours["id"]
    theirs = await pair.untrusted.call("get_breadcrumbs", **PLAN)
    assert (theirs["last_stored_id"], theirs["session_memory_ids"]) == (poison["id"], [poison["id"]])

    await pair.untrusted.call("begin_session", **PLAN)
    assert (await pair.trusted.call("get_breadcrumbs", **PLAN))["last_stored_id"] == ours["id"]


@pytest.mark.promise("OV-17", "MT-18")
async def test_an_untrusted_namesake_neither_takes_nor_sees_an_idempotency_key(pair: Pair) -> None:
    squatted = await pair.untrusted.call("store_memory", content="Taken first", idempotency_key="monday")
    stored = await pair.trusted.call("store_memory", content="The report is due on Monday", idempotency_key="monday")
    assert stored["status"] == "stored"
    same = await pair.trusted.call("store_memory", content="Taken first", idempotency_key="tuesday")
    again = await pair.untrusted.call("store_memory", content="Taken first", idempotency_key="tuesday")
    assert len({item["stored"]["id"] for item in (squatted, stored, same, again)}) == 4
    for agent, first, content in (
        (pair.trusted, stored, "The report is due on Monday"),
        (pair.untrusted, squatted, "Taken first"),
    ):
        replay = await agent.call("store_memory", content=content, idempotency_key="monday")
        assert (replay["command_id"], replay["stored"]["id"]) == (first["command_id"], first["stored"]["id"])


@pytest.mark.promise("OV-17")
async def test_an_untrusted_namesake_sees_no_command_of_the_trusted_principal(stage: Stage, pair: Pair) -> None:
    by_trusted = await pair.trusted.call("store_memory", content="Ours")
    by_untrusted = await pair.untrusted.call("store_memory", content="Theirs")
    async with (
        agent_of(await stage.gateway(), principal=NAME, scopes=READ) as trusted,
        agent_of(await stage.gateway(), principal=NAME, scopes=READ, untrusted=True) as untrusted,
    ):

        async def seen(agent: Agent, body: dict[str, Any]) -> str:
            return str((await agent.call("get_command", command_id=body["command_id"]))["status"])

        assert [await seen(trusted, by_trusted), await seen(untrusted, by_untrusted)] == ["done", "done"]
        assert [await seen(untrusted, by_trusted), await seen(trusted, by_untrusted)] == ["unknown", "unknown"]
