"""Sharing takes a look at what is shared, and what nobody judged stays private (PV-2)."""

import pytest

from engramq.schemas.commands import Connect, Connected, Reply, ShareMemory, UpdateMemory
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE, Visibility
from engramq.workers.db.readiness import packaged
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.viewers import EVERYTHING
from engramq.workers.tenants.export import ExportChoice, lines
from engramq.workers.tenants.export_check import ExportWatch
from tests.refusals import refused
from tests.workers.conftest import World
from tests.workers.memories.trust.test_sharing import (
    ADA,
    BOB,
    CANTEEN,
    asked_and_approved,
    configured,
    connected,
    kept,
    links,
    sees,
    shown,
)


@pytest.mark.promise("PV-2")
async def test_notes_on_links_which_nobody_judged_stay_private_where_consent_was_asked_for(world: World) -> None:
    private, shared, other = await kept(world, CANTEEN), await kept(world, "The pond"), await kept(world, "The shore")
    for memory_id in (shared, other):
        await world.share(memory_id, ADA)
    await configured(world, consent=True)
    await asked_and_approved(world, private)
    await world.ask(Connected, Connect(source=private, target=shared, note="Bob is a heron"), principal=ADA)
    await connected(world, ADA, private, other)
    done = await world.share(private, ADA)
    assert done.status == "shared"
    assert await links(world, BOB, private) == {other}
    assert await links(world, ADA, private) == {shared, other}
    watch = ExportWatch(packaged().version)  # such a link comes back

    async def check(tx: Transaction) -> None:
        async for line in lines(tx, ExportChoice(), "1.2.3"):
            watch.check(line)

    await world.store.seen_by(EVERYTHING).snapshot(DEFAULT_NAMESPACE, check)


@pytest.mark.promise("PV-2")
async def test_nothing_is_shared_that_nobody_has_looked_at(world: World) -> None:
    private = await kept(world, "The heron nests by the pond")
    update = UpdateMemory(memory_id=private, visibility=Visibility.SHARED, speaker="Ada")
    for command in (update, ShareMemory(memory_id=private)):
        with refused(FaultCode.INVALID_PARAMETER) as faults:
            await world.ask(Reply, command, principal=ADA)
        assert "seen" in faults[0].error
        assert "get_memory" in str(faults[0].recovery)
    assert not await sees(world, BOB, private)
    assert await shown(world, ADA, private, Visibility.SHARED, speaker="Ada") is Visibility.SHARED
