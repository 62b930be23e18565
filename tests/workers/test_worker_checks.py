"""What a worker tells with its answer to a ping: schema, clock, model and vectors, each wrong for real."""

from contextlib import AsyncExitStack

import pytest

from engramq.schemas.checks import Check
from engramq.schemas.commands import Ping, Pong
from engramq.workers import checks as worker_checks
from engramq.workers.checks import WorkerChecks
from engramq.workers.embedders.vectorizer import Vectorizer
from tests.workers.conftest import World
from tests.workers.upkeep.test_reembedding import Change, OtherModel, change, stop_halfway

__all__ = ["change"]

pytestmark = pytest.mark.own_database


async def checks(world: World) -> dict[str, Check]:
    """Ask as a gateway does, of a worker that has just begun."""
    world.use()
    pong = await world.ask(Pong, Ping(database=True, checks=True))
    return {check.name: check for check in pong.checks}


async def test_all_is_well_with_one_model_and_this_schema(world: World) -> None:
    await world.keep("Pumps leak")
    found = await checks(world)
    assert {name: check.state for name, check in found.items()} == dict.fromkeys(
        ("schema", "clock", "model", "vectors"), "ok"
    )
    assert (await world.ask(Pong, Ping(database=True))).checks == []


async def test_a_database_that_a_newer_version_migrated_is_named(world: World) -> None:
    world.rows("insert into schema_migrations (version, name, checksum) values (999, 'newer', 'x')")
    check = (await checks(world))["schema"]
    assert (check.state, "schema 999" in check.told) == ("degraded", True)
    assert "Upgrade" in check.mend


async def test_a_model_that_makes_no_vectors_is_named_until_it_does(world: World) -> None:
    world.model.down = True
    check = (await checks(world))["model"]
    assert (check.state, check.told) == ("degraded", "The model hash makes no vectors: switched off.")
    world.model.down = False
    assert (await checks(world))["model"].state == "ok"


@pytest.mark.promise("AG-20")
async def test_vectors_that_nobody_makes_anew_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AsyncExitStack() as owned:
        change = Change(world, owned)
        await world.keep("Pumps leak")
        await world.keep("Valves stick", namespace="other")
        work = await change.to(OtherModel())
        count = "2 vectors are of hash, while openai:other runs"
        check = (await checks(world))["vectors"]
        assert (check.state, check.told) == ("ok", f"{count}: they are about to be made anew."), "it has just begun"
        monkeypatch.setattr(worker_checks, "SILENT_S", 0.0)
        check = (await checks(world))["vectors"]
        assert (check.state, check.told) == ("degraded", f"{count}: nobody makes them anew.")
        assert "upkeep" in check.mend
        await work.run()
        assert (await checks(world))["vectors"] == Check(name="vectors")


@pytest.mark.promise("AG-20")
async def test_vectors_that_are_being_made_anew_are_progress_and_no_fault(change: Change) -> None:
    for number in range(4):
        await change.world.keep(f"pump {number}")
    work = await change.to(change.other)
    await stop_halfway(change, work, 2)
    check = (await checks(change.world))["vectors"]
    assert check.state == "ok"
    assert check.told.startswith("Vectors are being made anew by openai:other: 2 of 4, ")

    change.other.down = True
    await change.upkeep().run()
    check = (await checks(change.world))["vectors"]
    assert (check.state, check.told) == ("degraded", "2 vectors are of hash, while openai:other runs: switched off.")


@pytest.mark.promise("AG-20")
async def test_a_worker_that_was_asked_before_the_work_began_tells_its_progress(
    change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_checks, "KEPT_S", 0.0)
    for number in range(4):
        await change.world.keep(f"pump {number}")
    work = await change.to(change.other)
    asked = WorkerChecks(change.world.store, change.world.services[Vectorizer], change.world.embedder)

    async def told() -> str:
        return next(check.told for check in await asked.look() if check.name == "vectors")

    assert await told() == "4 vectors are of hash, while openai:other runs: they are about to be made anew."
    await stop_halfway(change, work, 2)
    assert "2 of 4" in await told()
