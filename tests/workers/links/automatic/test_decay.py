"""Links that no agent asserted fade by active hours, and go when next to nothing is left of them."""

from typing import Any
from uuid import UUID

import pytest

from engramq.schemas.ids import pair_of, uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.links import writer
from tests.running import opened
from tests.workers.conftest import World, world

__all__ = ["world"]


async def link(
    world: World,
    relation: str = "similar",
    weight: float = 0.8,
    origin: str = "similarity",
    count: int = 0,
    used: float = 0.0,
) -> UUID:
    """Make a link between two new memories and return its id."""
    low, high = pair_of(*[UUID((await world.keep(f"word{uuid7()}")).stored.id) for _ in range(2)])
    link_id = UUID(uuid7())
    world.rows(
        "insert into edges (id, tenant, layer, source_id, target_id, relation, weight, origin, reinforcement_count, "
        "last_active_hours) values (%s, make_tenant(%s), 'association', %s, %s, %s, %s, %s, %s, %s)",
        *(link_id, DEFAULT_NAMESPACE, low, high, relation, weight, origin, count, used),
    )
    return link_id


def weights(world: World) -> dict[UUID, float]:
    return {row["id"]: row["weight"] for row in world.rows("select id, weight from edges")}


async def worn_at(world: World, hours: float) -> dict[UUID, Any]:
    """Let the clock show this, decay the links down, and return their weights."""
    world.rows("update namespaces set active_hours = %s", hours)
    await world.upkeep.decay_links()
    return weights(world)


async def test_half_of_an_unused_automatic_link_is_left_after_its_half_life(world: World) -> None:
    plain, late = await link(world), await link(world, "co_occurs", origin="co_retrieval", used=900.0)
    for hours in (150.0, 400.0, 400.5, 1000.0):
        found = await worn_at(world, hours)
    assert found[plain] == pytest.approx(0.4)
    assert found[late] == pytest.approx(0.8 * 0.5**0.1)
    world.rows("update edges set last_active_hours = 2000 where id = %s", plain)
    assert (await worn_at(world, 2000.0))[plain] == pytest.approx(0.4), "its use at the very end spared it"


@pytest.mark.parametrize("hours", [1e7, 1e300])
async def test_a_clock_far_ahead_ends_no_upkeep(world: World, hours: float) -> None:
    """Security finding 14: such a clock came by an export, and every namespace behind this one kept its links."""
    gone, counted = await link(world), await link(world, count=1)
    found = await worn_at(world, hours)
    assert gone not in found
    assert 0 <= found[counted] < 1e-20


async def test_a_few_hours_are_not_worth_a_write(world: World) -> None:
    await link(world)
    found = await worn_at(world, writer.DECAYED_AT_ONCE_HOURS - 1)
    assert set(found.values()) == {0.8}


async def test_what_weighs_next_to_nothing_goes_unless_it_was_counted(world: World) -> None:
    gone, counted = await link(world, weight=0.15), await link(world, weight=0.15, count=1)
    lightest = await link(world, weight=0.05, used=1000.0)
    found = await worn_at(world, 1000.0)
    assert gone not in found
    assert lightest not in found
    assert found[counted] == pytest.approx(0.075)


async def test_what_agents_outcomes_and_imports_made_and_protected_relations_do_not_fade(world: World) -> None:
    spared = [
        await link(world, weight=0.05, origin="agent"),
        await link(world, "outcome", weight=0.05, origin="outcome"),
        await link(world, weight=0.05, origin="import"),
        await link(world, "supports", weight=0.05),
        await link(world, "supersedes", weight=1.0, origin="agent"),
    ]
    before = weights(world)
    assert await worn_at(world, 5000.0) == before
    assert set(before) == set(spared)


async def test_every_link_is_looked_at_in_steps_of_a_bounded_size(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOKED_AT", 2)
    for number in range(5):
        await link(world, weight=0.8 if number % 2 else 0.12)
    found = await worn_at(world, 1000.0)
    assert sorted(found.values()) == [pytest.approx(0.4)] * 2


async def test_a_link_that_somebody_is_changing_is_left_for_the_next_time(world: World) -> None:
    busy, free = await link(world), await link(world)
    world.rows("update namespaces set active_hours = 1000")
    async with opened(world.store, DEFAULT_NAMESPACE) as tx:
        await tx.row(b"select id from edges where id = %(id)s for update", id=busy)
        await world.upkeep.decay_links()
        assert weights(world) == {busy: 0.8, free: pytest.approx(0.4)}


async def test_pairs_that_nobody_finds_together_any_more_are_forgotten(world: World) -> None:
    ids = sorted([UUID((await world.keep(word)).stored.id) for word in ("one", "two", "three")])
    for high, age in ((ids[1], 91), (ids[2], 89)):
        world.rows(
            "insert into co_retrievals values (make_tenant(%s), %s, %s, '{x}', now() - make_interval(days => %s))",
            *(DEFAULT_NAMESPACE, ids[0], high, age),
        )
    await world.upkeep.trim()
    assert [row["high_id"] for row in world.rows("select high_id from co_retrievals")] == [ids[2]]
