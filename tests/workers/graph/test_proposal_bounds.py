"""Proposals are bounded: how many one principal has open, how long they are kept, how large a page of them is."""

import asyncio
from functools import partial
from typing import Any

import pytest

from engramq.schemas import limits
from engramq.schemas.command_line import count_of, join_words
from engramq.schemas.commands import ListProposals, ProposalList
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import parse_time
from engramq.schemas.vocabulary import Decision
from engramq.workers.graph import proposals
from engramq.workers.upkeep.schedule import trim
from tests.assignments import assignment
from tests.refusals import refused
from tests.workers.graph.facts import decided, fact
from tests.workers.graph.harness import ADA, CAY, Harness

FLAG = {"is_constitutive": True}


async def proposed(harness: Harness, number: int, **how: Any) -> str:
    """Propose a change of the constitutive edge and return the proposal's id."""
    body = await harness.body(fact(properties={"n": number}), **{"by": CAY, **how})
    assert body["status"] == "consent_required", body
    return str(body["proposal_id"])


async def test_a_principal_has_so_many_open_proposals_and_no_more(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OPEN_PROPOSALS", 3)
    edge = await harness.body(fact(properties=FLAG))
    ids = [await proposed(harness, number) for number in range(3)]
    before = harness.everything()
    with refused(FaultCode.QUOTA_EXCEEDED) as faults:
        await harness.carry_out(assignment(fact(properties={"n": 3}), principal=CAY))
    assert "3 open proposals" in faults[0].error
    assert "list_proposals" in faults[0].recovery
    assert harness.everything() == before
    assert await proposed(harness, 1) == ids[1]  # joins the open one
    assert await proposed(harness, 3, by=ADA)
    assert (await decided(harness, ids[0], Decision.REJECT))["state"] == "rejected"
    await proposed(harness, 4)
    harness.rows("update proposals set expires_at = now() where id = %s", ids[1])
    await proposed(harness, 5)
    assert edge["edge_id"]


async def test_of_many_at_once_no_more_are_made(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OPEN_PROPOSALS", 3)
    for target in range(8):
        await harness.body(fact(target=f"T{target}", properties=FLAG))

    commands = [assignment(fact(target=f"T{target}", weight=0.1), principal=CAY) for target in range(8)]
    outcomes = await asyncio.gather(*(harness.carry_out(command) for command in commands), return_exceptions=True)
    refusals = [outcome.fault.code for outcome in outcomes if isinstance(outcome, EngramqError)]
    assert refusals == [FaultCode.QUOTA_EXCEEDED] * 5
    assert len(harness.rows("select id from proposals")) == 3


async def test_what_ended_long_ago_is_forgotten_with_its_approvals(harness: Harness) -> None:
    await harness.body(fact(properties=FLAG))
    used, rejected, expired, late, waiting = [await proposed(harness, number) for number in range(5)]
    await decided(harness, used)
    await harness.body(fact(properties={"n": 0}), by=CAY)
    await decided(harness, rejected, Decision.REJECT)
    days = limits.PROPOSAL_DAYS
    for column, item in (("used_at", used), ("rejected_at", rejected), ("expires_at", expired)):
        harness.rows(f"update proposals set {column} = now() - interval '{days} days' where id = %s", item)
    harness.rows(
        f"update proposals set expires_at = now() - interval '{days} days' + interval '1 hour' where id = %s", late
    )
    assert await harness.store.write("default_user", partial(trim, query="trim_proposals")) == 3
    assert {str(row["id"]) for row in harness.rows("select id from proposals")} == {late, waiting}
    assert {str(row["proposal_id"]) for row in harness.rows("select proposal_id from approvals")} == {late, waiting}
    assert (await decided(harness, rejected))["status"] == "not_found"


async def test_a_page_has_so_many_bytes_and_its_cursor_goes_on(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposals, "PAGE_BYTES", 35_000)
    await harness.body(fact(properties=FLAG))
    made = [
        (await harness.body(fact(properties={"n": number, "k": "x" * size}), by=CAY))["proposal_id"]
        for number, size in enumerate((9_000, 9_000, 9_000, 50_000, 9_000))
    ]
    pages, cursor = list[list[str]](), ListProposals()
    while True:
        page = await harness.do(cursor)
        assert isinstance(page, ProposalList)
        pages.append([proposal.proposal_id for proposal in page.proposals])
        assert page.truncated is (page.next_cursor is not None)
        if page.next_cursor is None:
            break
        cursor = ListProposals(cursor=page.next_cursor)
    assert [item for page in pages for item in page] == made[::-1]
    assert [len(page) for page in pages] == [1, 1, 3]


async def test_a_proposal_says_that_reads_will_leave_the_edge_out(harness: Harness) -> None:
    await harness.body(fact(properties=FLAG))
    await harness.body(
        fact(weight=0.5, valid_from=parse_time("2019-01-01T00:00:00Z"), valid_until=parse_time("2020-01-01T00:00:00Z")),
        by=CAY,
    )
    await harness.body(fact(valid_until=parse_time("2999-01-01T00:00:00Z")), by=CAY)
    later, past = (await harness.body(ListProposals()))["proposals"]
    assert past["effect"].endswith(
        " It has ended then: lists, neighbours and paths leave it out, except for an as_of before that."
    )
    assert "It has ended then" not in later["effect"]


async def test_a_change_of_much_is_told_as_a_list(harness: Harness) -> None:
    await harness.body(fact(properties=FLAG))
    body = await harness.body(
        fact(weight=0.5, properties={"a": 1}, valid_from=parse_time("2019-01-01T00:00:00Z")), by=CAY
    )
    assert body["error"].endswith("must approve this change of properties, valid_from and weight.")


@pytest.mark.parametrize(
    ("words", "told"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c"), ([], "")]
)
def test_lists_in_words(words: list[str], told: str) -> None:
    assert join_words(words) == told
    assert [count_of(number, "edge") for number in (0, 1, 2)] == ["0 edges", "1 edge", "2 edges"]
