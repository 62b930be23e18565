"""An upgrade from the previous release, one process after the other under load, and back: nothing fails or is lost."""

import signal
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from engramq.schemas.vocabulary import WorkerKind
from tests.faults.load import Load
from tests.faults.processes import gateway_replaced, worker_replaced
from tests.faults.verdict import verdict
from tests.faults.world import ENGRAMQ, World, new_world
from tests.scale.releases import PREVIOUS, Release, previous_release

pytestmark = [pytest.mark.anyio, pytest.mark.promise("SC-8"), pytest.mark.timeout(240)]

CALLERS = 6
STEP = 25  # stores that each pair of versions has to acknowledge


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return previous_release(tmp_path_factory.mktemp("previous"))


async def test_both_releases_serve_each_other_while_one_replaces_the_other(
    previous: Release, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        sys.stdout.write(f"\nThe previous release is {previous.source}.\n")
    run = uuid4().hex[:8]
    async with new_world(workers=1, doors=1, engramq=previous.program) as world:
        load = Load(await world.callers(CALLERS), run, seed=1)
        load.start()
        await load.more(STEP)

        world.engramq = ENGRAMQ
        world.migrate()
        await gateway_replaced(world)  # this gateway, the previous worker
        assert programs(world) == (ENGRAMQ, previous.program)
        await load.more(STEP)

        await worker_replaced(world)
        await load.more(STEP)

        world.engramq = previous.program
        await gateway_replaced(world)  # the previous gateway, this worker
        assert programs(world) == (previous.program, ENGRAMQ)
        await load.more(STEP)

        world.engramq = ENGRAMQ
        await gateway_replaced(world)
        await load.more(STEP)
        await load.stop()

        told = load.account.told
        assert set(told) == {"done"}, told
        found = await verdict(world, load.account, run)
        assert found.is_clean, found
        assert found.unknown == 0
        assert await world.dead_letters() == []


def programs(world: World) -> tuple[str, str]:
    """What the only gateway and the only worker were started by."""
    (door,), (worker,) = world.doors, world.workers
    return str(door.process.args[0]), str(worker.args[0])  # type: ignore[index]


async def test_work_that_the_previous_release_left_is_done_by_this_one(previous: Release) -> None:
    """What its gateway has queued while no worker ran, this release's workers carry out, and only once."""
    run = uuid4().hex[:8]
    async with new_world(workers=1, doors=1, engramq=previous.program) as world:
        (caller,) = await world.callers(1)
        await caller.call("store_memory", content=f"The parcel zq{run}x0 waits on its shelf")
        await world.kill(world.workers.pop(), signal.SIGKILL)
        records = [{"content": f"The parcel zq{run}x{number} waits on its shelf"} for number in range(1, 30)]
        accepted = await caller.call("import_memories", records=records)
        assert accepted["status"] == "pending", accepted  # nobody is there to answer
        mailbox = world.keys.of[WorkerKind.IMPORTS].mailbox
        assert int(await world.redis("ZCARD", mailbox)) == 1
        world.engramq = ENGRAMQ
        world.migrate()
        world.new_worker()
        await world.ready()
        report = await caller.call("get_command", command_id=accepted["command_id"])
        while report["status"] in {"pending", "running"}:
            report = await caller.call("get_command", command_id=accepted["command_id"])
        assert report["status"] == "done", report
        rows = world.rows("select content from memories where content like %s", f"The parcel zq{run}x%")
        assert len(rows) == len({row["content"] for row in rows}) == 30
        await caller.aclose()


def test_a_clone_without_history_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bare").mkdir()
    monkeypatch.delenv(PREVIOUS, raising=False)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "bare"))
    release = previous_release(tmp_path / "made")
    assert "no history" in release.source
    assert Path(release.program).exists()
