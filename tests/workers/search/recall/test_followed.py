"""What followed a hit is told besides: it costs no more for many hits, and its failure costs no hit."""

from collections.abc import Sequence

import msgspec
import pytest

from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.transaction import Lookup, LookupResult
from engramq.workers.search.candidates import Filters
from engramq.workers.search.search import ASKING, add_replies
from tests.gateway.any_replies import memory

pytestmark = pytest.mark.promise("KN-9")

FILTERS = Filters(partitions=(Partition.TRUSTED,))


async def test_only_the_first_hits_that_ask_are_looked_up() -> None:
    memories = [memory("Which boat is it?", thread="t") for _ in range(50)]
    asked: list[str] = []

    async def ask(lookups: Sequence[Lookup]) -> list[LookupResult]:
        asked.extend(lookup.values["ids"] for lookup in lookups)
        return [msgspec.json.encode([[memories[0].id, uuid7(), None, "The green one."]])]

    await add_replies(ask, memories, "boat", FILTERS)
    assert asked[0].count(",") == ASKING - 1
    assert memories[0].followed_by.passage == "The green one."  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "problem", [StatementTimeout("too long"), refuse(FaultCode.UNAVAILABLE, "The database took too long.")]
)
async def test_a_failure_leaves_out_what_followed(problem: Exception) -> None:
    hit = memory("Which boat is it?", thread="t")

    async def ask(_lookups: object) -> list[LookupResult]:
        raise problem

    await add_replies(ask, [hit], "boat", FILTERS)
    assert hit.followed_by is msgspec.UNSET
