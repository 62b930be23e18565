"""A fixed loop of calls: four hosts, two windows of each at once, on a stack as a user has it."""

import asyncio
from collections.abc import Iterator

import pytest

from bench.common import ENGRAMQ
from bench.replies import Doors, stack
from tests.agents.hosts import HOSTS, Host
from tests.agents.loop import Figures, added, play

pytestmark = pytest.mark.timeout(300)

WITHOUT_BRIEF = 117_310  # tokens of the same loop before replies were brief and null was taken (commit b6a5a06)


@pytest.fixture(scope="module")
def doors() -> Iterator[Doors]:
    with stack(ENGRAMQ) as opened:
        yield opened


@pytest.fixture(scope="module")
def played(doors: Doors) -> dict[Host, Figures]:
    """Each host, in the order of the benchmark: the later ones find what the earlier ones stored."""
    return {host: asyncio.run(play(doors, host, rounds=1)) for host in HOSTS}


@pytest.mark.promise("AG-10", "AG-12")
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_two_windows_at_once_never_touch_each_others_memories(host: Host, played: dict[Host, Figures]) -> None:
    assert played[host].crossed == []


@pytest.mark.promise("AG-7")
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_no_call_is_refused_for_how_the_host_fills_it_in(host: Host, played: dict[Host, Figures]) -> None:
    assert played[host].refused == []
    assert played[host].calls >= 40


@pytest.mark.promise("AG-1")
def test_the_replies_cost_half_of_what_they_did(played: dict[Host, Figures]) -> None:
    assert added([*played.values()]).tokens.total() <= WITHOUT_BRIEF / 2
