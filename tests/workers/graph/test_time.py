"""From when until when a fact holds: written, merged, hidden once it has ended, and shown as of a time."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from engramq.schemas.commands import AddEdge, FindPath, ListEdges, QueryNeighbors
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import format_time
from tests.refusals import refused
from tests.workers.graph.facts import OPEN, asked, fact, reclassified
from tests.workers.graph.harness import BOB, Harness

NOW = datetime.now(UTC)
MAY, JUNE, JULY = (datetime(2024, month, 1, tzinfo=UTC) for month in (5, 6, 7))
LATER = NOW + timedelta(days=30)
TICK = timedelta(microseconds=1)


async def seen(harness: Harness, as_of: datetime | None = None) -> list[bool]:
    """Say whether each read that follows edges sees Ada --KNOWS--> Bob."""
    when: dict[str, Any] = {} if as_of is None else {"as_of": as_of}
    listed = await harness.body(ListEdges(node_name="Ada", **when))
    incoming = await harness.body(ListEdges(node_name="Bob", **when))
    around = await harness.body(QueryNeighbors(node_name="Ada", **when))
    back = await harness.body(QueryNeighbors(node_name="Bob", depth=2, **when))
    path = await harness.body(FindPath(start_node="Ada", end_node="Bob", **when))
    return [
        bool(listed["edges"]),
        bool(incoming["edges"]),
        bool(around["neighbors"]),
        bool(back["neighbors"]),
        bool(path["path_found"]),
    ]


ALL, NONE = [True] * 5, [False] * 5


@pytest.mark.promise("TI-1")
async def test_every_reply_that_shows_an_edge_shows_when_it_holds(harness: Harness) -> None:
    times: dict[str, Any] = {"valid_from": MAY, "valid_until": LATER}
    told = {name: format_time(moment) for name, moment in times.items()}
    plain = await harness.body(fact("Ada", "LIKES", "Cay"))
    assert {name: plain[name] for name in OPEN} == OPEN
    written = await harness.body(fact(properties={"is_constitutive": True}, **times))
    again = await harness.body(fact())
    (listed,) = (await harness.body(ListEdges(node_name="Ada", relation="KNOWS")))["edges"]
    (by_id,) = (await harness.body(ListEdges(edge_id=written["edge_id"])))["edges"]
    read = await harness.body(asked())
    (bob,) = (await harness.body(QueryNeighbors(node_name="Ada", relation="KNOWS")))["neighbors"]
    (step,) = (await harness.body(FindPath(start_node="Ada", end_node="Bob")))["edges"]
    for shown in (written, again, listed, by_id, read, bob["edges"][0], step):
        assert {name: shown[name] for name in OPEN} == told
    assert "notice" not in written | again


@pytest.mark.promise("TI-1", "TI-2")
async def test_what_has_ended_is_hidden_and_what_is_planned_is_shown(harness: Harness) -> None:
    await harness.body(fact(valid_from=MAY, valid_until=JUNE))
    assert await seen(harness) == NONE
    for moment, expected in ((MAY - TICK, NONE), (MAY, ALL), (JUNE - TICK, ALL), (JUNE, NONE), (JULY, NONE)):
        assert await seen(harness, moment) == expected, moment
    await harness.body(fact(valid_from=LATER))
    assert await seen(harness) == ALL
    assert await seen(harness, JULY) == NONE


@pytest.mark.promise("TI-2")
async def test_without_a_beginning_an_edge_held_from_when_it_was_written(harness: Harness) -> None:
    await harness.body(fact(valid_until=LATER))
    written = datetime.fromisoformat((await harness.body(asked()))["created_at"])
    assert await seen(harness, written - TICK) == NONE
    assert await seen(harness, written) == ALL


@pytest.mark.promise("TI-2")
async def test_walks_cross_only_what_held_then(harness: Harness) -> None:
    await harness.body(fact("a", "R", "b", valid_from=MAY, valid_until=JUNE, weight=0.9))
    await harness.body(fact("a", "S", "b", valid_from=JUNE, weight=0.5))
    await harness.body(fact("b", "R", "c", valid_from=JUNE))
    for moment, relations, length in ((MAY, ["R"], None), (JUNE, ["S"], 2), (None, ["S"], 2)):
        when: dict[str, Any] = {} if moment is None else {"as_of": moment}
        first, *further = (await harness.body(QueryNeighbors(node_name="a", depth=2, **when)))["neighbors"]
        assert [edge["relation"] for edge in first["edges"]] == relations
        assert (first["relation"], len(further)) == (relations[0], 0 if length is None else 1)
        path = await harness.body(FindPath(start_node="a", end_node="c", **when))
        assert path["path_length"] == length


@pytest.mark.promise("TI-2", "OV-8")
async def test_pages_of_a_list_are_those_of_that_time(harness: Harness) -> None:
    for number in range(9):
        until = {"valid_until": JUNE} if number % 2 else {}
        await harness.body(fact("Ada", f"R{number}", "Bob", weight=number / 10, valid_from=MAY, **until))

    async def relations(**when: Any) -> list[str]:
        pages, cursor = list[str](), dict[str, Any]()
        while True:
            page = await harness.body(ListEdges(node_name="Ada", limit=2, **when, **cursor))
            pages += [edge["relation"] for edge in page["edges"]]
            if page["next_cursor"] is None:
                return pages
            cursor = {"cursor": page["next_cursor"]}

    assert await relations() == ["R8", "R6", "R4", "R2", "R0"]
    assert await relations(as_of=MAY) == [f"R{number}" for number in reversed(range(9))]


@pytest.mark.promise("TI-1")
async def test_an_ended_edge_is_still_read_by_name_and_by_id_and_reclassified(harness: Harness) -> None:
    edge_id = (await harness.body(fact(valid_from=MAY, valid_until=JUNE)))["edge_id"]
    assert (await harness.body(asked()))["edge_id"] == edge_id
    assert [edge["edge_id"] for edge in (await harness.body(ListEdges(edge_id=edge_id)))["edges"]] == [edge_id]
    assert (await harness.body(reclassified("episodic")))["status"] == "success"
    kept = {"valid_from": MAY, "valid_until": JUNE}
    assert harness.row("select valid_from, valid_until from edges") == kept


@pytest.mark.promise("TI-1")
@pytest.mark.parametrize(
    ("stored", "given", "merged"),
    [
        ((MAY, JUNE), (None, None), (MAY, JUNE)),
        ((MAY, None), (None, JUNE), (MAY, JUNE)),
        ((MAY, JULY), (None, JUNE), (MAY, JUNE)),
        ((JUNE, JULY), (MAY, None), (MAY, JULY)),
        ((MAY, JULY), (JUNE, None), (JUNE, JULY)),
        ((MAY, JUNE), (JUNE, None), (JUNE, None)),
        ((MAY, JUNE), (JULY, None), (JULY, None)),
        ((None, JUNE), (JULY, None), (JULY, None)),
        ((MAY, JUNE), (JULY, LATER), (JULY, LATER)),
        ((None, None), (MAY, JUNE), (MAY, JUNE)),
    ],
)
async def test_writing_an_edge_again_replaces_the_ends_that_are_given(
    harness: Harness, stored: Any, given: Any, merged: Any
) -> None:
    def between(ends: Any) -> AddEdge:
        names = ("valid_from", "valid_until")
        return fact(**{name: end for name, end in zip(names, ends, strict=True) if end is not None})

    await harness.body(between(stored))
    body = await harness.body(between(given))
    row = harness.row("select valid_from, valid_until from edges")
    assert (row["valid_from"], row["valid_until"]) == merged
    assert (body["valid_from"], body["valid_until"]) == tuple(end and format_time(end) for end in merged)


@pytest.mark.promise("TI-7")
@pytest.mark.parametrize("until", [MAY, MAY - TICK])
async def test_an_interval_that_ends_before_it_begins_is_refused_by_name(harness: Harness, until: datetime) -> None:
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await harness.do(fact(valid_from=MAY, valid_until=until))
    assert faults[0].field == "valid_until"
    assert harness.rows("select id from nodes union all select id from edges") == []
    await harness.body(fact(valid_from=MAY))
    before = harness.everything()
    with refused(FaultCode.INVALID_PARAMETER) as faults:  # merged it would be such a one
        await harness.do(fact(valid_until=until))
    assert faults[0].field == "valid_until"
    assert harness.everything() == before


@pytest.mark.promise("TI-1")
async def test_writing_an_ended_edge_again_says_that_it_has_ended(harness: Harness) -> None:
    ended = await harness.body(fact(valid_from=MAY, valid_until=JUNE))
    assert "notice" not in ended  # its writer knows
    again = await harness.body(fact(weight=0.5))
    assert (again["status"], again["weight"]) == ("success", 0.5)
    assert format_time(JUNE) in again["notice"]
    assert "valid_from" in again["notice"]
    opened = await harness.body(fact(valid_from=JULY))
    assert "notice" not in opened
    assert await seen(harness) == ALL


@pytest.mark.promise("TI-1", "OV-3")
async def test_a_changed_interval_is_audited_and_counts_as_a_change(harness: Harness) -> None:
    edge = await harness.body(fact(valid_from=MAY))
    await harness.body(fact(valid_from=MAY), by=BOB)
    assert (harness.audit(edge["edge_id"]), (await harness.body(asked()))["updated_by"]) == ([], "ada")
    await harness.body(fact(valid_until=JUNE), by=BOB)
    (row,) = harness.audit(edge["edge_id"])
    assert (row["action"], row["actor"]) == ("update_edge", "bob")
    assert (row["old"], row["new"]) == ({"valid_until": None}, {"valid_until": format_time(JUNE)})
    assert (await harness.body(asked()))["updated_by"] == "bob"
    await harness.body(fact(valid_from=JULY))
    assert harness.audit(edge["edge_id"])[1]["old"] == {
        "valid_from": format_time(MAY),
        "valid_until": format_time(JUNE),
    }


@pytest.mark.promise("TI-2")
async def test_an_edge_that_had_ended_before_it_was_written_says_that_no_look_back_finds_it(harness: Harness) -> None:
    written = await harness.body(fact(valid_until=MAY))
    assert "valid_from" in written["notice"]
    mended = await harness.body(fact(valid_from=datetime(2020, 1, 1, tzinfo=UTC)))
    assert "no as_of" not in mended["notice"]
