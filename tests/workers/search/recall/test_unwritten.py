"""A copy that has seen the last write of any memory is current without a look at rows; any other one is not."""

import asyncio

import msgspec
import psycopg
import pytest

from engramq.schemas.commands import PromoteMemory, VerifyMemory
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Partition, Verification
from engramq.workers.db.vectors import Sizes
from engramq.workers.db.viewers import PUBLIC, Viewer
from engramq.workers.search import copies as module
from engramq.workers.search.copies import Copies
from engramq.workers.search.question import Question
from tests.assignments import OWNER, assignment
from tests.workers.search.recall.conftest import Scene

TRUSTED = (Partition.TRUSTED,)


class Looks:
    """Copies of a namespace that somebody has searched, and whether a proof looked at rows."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = Copies(scene.world.store, Sizes())
        self.states: list[module._State] = []
        decode = module._state.decode

        class Decoder(msgspec.Struct):
            states: list[module._State]

            def decode(self, answer: str) -> module._State:
                self.states.append(decode(answer))
                return self.states[-1]

        monkeypatch.setattr(module, "_state", Decoder(self.states))

    async def prepare(self) -> "Looks":
        for _ in range(module.SEARCHES_FIRST):
            await self.copies.prepare(DEFAULT_NAMESPACE, TRUSTED)
        return self

    async def has_looked(self, viewer: Viewer = PUBLIC) -> bool:
        await self.copies.find_current(DEFAULT_NAMESPACE, TRUSTED, Question("kettle"), viewer)
        return not self.states[-1].is_same


async def test_rows_are_looked_at_once_after_a_write(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.keep("The red kettle whistles")
    looks = await Looks(scene, monkeypatch).prepare()
    assert [await looks.has_looked() for _ in range(3)] == [True, False, False]
    await scene.keep("The blue kettle sings")
    assert [await looks.has_looked() for _ in range(2)] == [True, False]
    await scene.found("kettle")  # what a search notes is no write of a memory
    await scene.keep("The blue kettle sings", namespace="another")
    assert not await looks.has_looked()


async def test_a_write_under_way_is_looked_for_until_it_is_over(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = await scene.keep("The red kettle whistles")
    looks = await Looks(scene, monkeypatch).prepare()
    with psycopg.connect(scene.world.database.owner_url) as slow:
        slow.execute("update memories set speaker = 'Ada' where node_id = %s", (kept,))
        assert [await looks.has_looked() for _ in range(2)] == [True, True]
        slow.commit()
    assert await looks.has_looked()
    assert looks.states[-1].changed == [kept]
    assert not await looks.has_looked()


async def test_the_first_write_of_all_is_not_missed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent searches some times before it stores anything: its first memory is found at once."""
    looks = await Looks(scene, monkeypatch).prepare()
    assert [await looks.has_looked() for _ in range(2)] == [True, False]
    kept = await scene.keep("The red kettle whistles")
    assert await looks.has_looked()
    assert looks.states[-1].changed == [kept]


async def test_each_viewer_has_looked_himself(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.keep("The red kettle whistles")
    looks = await Looks(scene, monkeypatch).prepare()
    ada = Viewer.of(OWNER)
    assert [await looks.has_looked(viewer) for viewer in (PUBLIC, ada, ada, PUBLIC)] == [True, True, False, False]


async def test_a_promotion_is_a_write(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """It writes the node, whose foreign key moves the memory."""
    await scene.keep("The red kettle whistles")
    other = await scene.keep("The blue kettle sings", partition=Partition.UNTRUSTED)
    await scene.world.complete(assignment(VerifyMemory(memory_id=other, verification=Verification.VERIFIED)))
    looks = await Looks(scene, monkeypatch).prepare()
    assert [await looks.has_looked() for _ in range(2)] == [True, False]
    await scene.world.complete(assignment(PromoteMemory(record_id=other)))
    assert await looks.has_looked()
    found = await scene.found("blue kettle", partitions=TRUSTED)
    assert other in [memory.id for memory in found]


async def test_a_write_between_the_two_statements_of_a_proof_is_looked_for_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof has seen no write, and its later snapshot calls the writer's transaction over."""
    kept = await scene.keep("The red kettle whistles")
    looks = await Looks(scene, monkeypatch).prepare()
    assert [await looks.has_looked() for _ in range(2)] == [True, False]
    with psycopg.connect(scene.world.database.owner_url) as slow:
        slow.execute(
            "lock table memories in access exclusive mode"
        )  # the second statement waits, and sees all after it
        proof = asyncio.create_task(looks.has_looked())
        while slow.execute("select from pg_locks where not granted").fetchone() is None:
            await asyncio.sleep(0)
        slow.execute("update memories set speaker = 'Ada' where node_id = %s", (kept,))
        slow.commit()
        assert not await proof
    assert await looks.has_looked()
    assert looks.states[-1].changed == [kept]
