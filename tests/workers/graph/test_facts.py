"""Writing facts and verifying them at once."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engramq.schemas import limits
from engramq.schemas.codec import encode
from engramq.schemas.commands import AddEdge, AddNode, DeleteEdge, DeleteNode, GetNodeByName
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from engramq.workers.memories import reading
from tests.assignments import assignment
from tests.conftest import TestServers
from tests.refusals import refused
from tests.workers.graph.facts import NOWHERE, UNKNOWN_ID, asked, fact, reclassified
from tests.workers.graph.harness import Harness

DEEP = {
    "é": {"ß": [1, 2.5, None, True, {"𝄞": "雪"}]},
    "big": 2**64 - 1,
    "small": -(2**63),
    "vast": 1e300,
    "tiny": 1e-300,
}


@pytest.mark.promise("GE-2", "GE-3", "GE-4", "GE-5")
async def test_whatever_is_not_exactly_there_is_null_and_not_found(harness: Harness) -> None:
    await harness.body(fact())
    for question in (
        asked(relation="LIKES"),
        asked(source="Nobody"),
        asked(target="Nobody"),
        asked(source="No", target="body"),
        asked(source="Bob", target="Ada"),
        asked(relation="knows"),
        asked(relation="KNOWS "),
        asked(source="ada"),
        asked(source_label="Person"),
        asked(target_label="entity"),
    ):
        assert await harness.body(question) == NOWHERE


@pytest.mark.promise("GE-10")
async def test_nested_and_unicode_properties_come_back_as_they_were(harness: Harness) -> None:
    written = await harness.do(fact(properties=DEEP), idempotency_key="k")
    read = await harness.do(asked())
    replayed = await harness.do(fact(properties=DEEP), idempotency_key="k")
    node = await harness.do(AddNode(name="Deep", properties=DEEP))
    found = await harness.do(GetNodeByName(name="Deep"))
    for reply in (written, read, replayed, node, found):
        assert msgspec.to_builtins(reply)["properties"] == DEEP
        assert encode(Answer(id="x", reply=reply))


# jsonb writes a float beyond 2**53 as a whole number, whose decimal digits are those of the float's shortest form.
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(-(2.0**53), 2.0**53)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
PROPERTIES = st.dictionaries(KEYS, JSON, max_size=4)


@pytest.mark.promise("GE-10")
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROPERTIES)
async def test_any_properties_come_back_as_they_were(harness: Harness, properties: dict[str, Any]) -> None:
    target = uuid7()
    await harness.body(fact(target=target, properties=properties))
    assert (await harness.body(asked(target=target)))["properties"] == properties


@pytest.mark.promise("GE-11", "GE-22")
async def test_the_same_triple_again_is_one_edge_that_keeps_its_weight(harness: Harness) -> None:
    first = await harness.body(fact(weight=0.3, properties={"a": 1, "b": {"x": 1}}))
    again = await harness.body(fact(properties={"b": {"y": 2}, "c": 3}))
    assert again == {**first, "created": False, "properties": {"a": 1, "b": {"y": 2}, "c": 3}}
    assert (await harness.body(fact(weight=0.9)))["weight"] == 0.9
    assert (await harness.body(fact()))["weight"] == 0.9
    assert (await harness.body(asked()))["properties"] == {"a": 1, "b": {"y": 2}, "c": 3}
    assert harness.row("select count(*) as n from edges")["n"] == 1
    assert (await harness.body(fact("Cay", "KNOWS", "Dan")))["weight"] == 1.0


@pytest.mark.promise("GE-11")
async def test_twenty_writers_of_one_fact_make_one_edge_and_two_nodes(harness: Harness) -> None:
    bodies = await asyncio.gather(*(harness.body(fact(properties={f"p{n}": n})) for n in range(20)))
    assert {body["status"] for body in bodies} == {"success"}
    assert len({body["edge_id"] for body in bodies}) == 1
    assert [body["created"] for body in bodies].count(True) == 1
    assert (await harness.body(asked()))["properties"] == {f"p{n}": n for n in range(20)}
    assert harness.row("select count(*) as n from nodes")["n"] == 2


@pytest.mark.promise("GE-11")
async def test_writers_of_crossing_facts_do_not_lose_any(harness: Harness) -> None:
    names = [f"n{n}" for n in range(4)]
    pairs = [(a, b) for a in names for b in names]
    bodies = await asyncio.gather(*(harness.body(fact(a, "R", b)) for a, b in pairs))
    assert {body["status"] for body in bodies} == {"success"}
    assert harness.row("select count(*) as n from edges")["n"] == len(pairs)
    assert harness.row("select count(*) as n from nodes")["n"] == len(names)


@pytest.mark.promise("GE-12")
async def test_writers_deleters_and_correctors_that_race_leave_nothing_half(harness: Harness) -> None:
    edge = await harness.body(fact())
    work = [
        command
        for number in range(8)
        for command in (
            fact(),
            fact("Bob", "KNOWS", f"n{number}"),
            reclassified("episodic"),
            DeleteNode(node_id=edge["source_id"]),
            DeleteEdge(edge_id=edge["edge_id"]),
        )
    ]
    bodies = await asyncio.gather(*(harness.body(command) for command in work))
    assert {body["status"] for body in bodies} <= {"success", "deleted", "not_found"}
    assert harness.rows("select e.id from edges e left join nodes n on n.id = e.source_id where n.id is null") == []
    assert harness.row("select count(*) as n from edges where relation = 'KNOWS' and source_id <> target_id")["n"] >= 8
    assert (await harness.body(fact()))["status"] == "success"


@pytest.mark.promise("GE-12")
async def test_deleting_a_node_removes_its_edges_in_both_directions(harness: Harness) -> None:
    edge = await harness.body(fact())
    await harness.body(fact("Cay", "KNOWS", "Ada"))
    await harness.body(fact("Ada", "KNOWS", "Ada"))
    kept = await harness.body(fact("Cay", "KNOWS", "Bob"))
    body = await harness.body(DeleteNode(node_id=edge["source_id"], reason="mistaken"))
    assert (body["status"], body["node_id"], body["edges_deleted"]) == ("deleted", edge["source_id"], 3)
    assert await harness.body(asked()) == NOWHERE
    assert [str(row["id"]) for row in harness.rows("select id from edges")] == [kept["edge_id"]]
    (noted,) = harness.audit(edge["source_id"])
    assert (noted["action"], noted["actor"], noted["reason"]) == ("delete_node", "ada", "mistaken")
    assert noted["old"] == {"label": "Entity", "edges": 3}


@pytest.mark.promise("GE-14")
async def test_reading_changes_nothing(harness: Harness) -> None:
    await harness.body(fact())
    before = harness.everything()
    for _ in range(3):
        await harness.body(asked())
        await harness.body(GetNodeByName(name="Ada"))
    assert harness.everything() == before


@pytest.mark.promise("GE-16")
async def test_a_node_is_read_by_name_and_label(harness: Harness) -> None:
    person = await harness.body(AddNode(name="Ada", label="Person", properties={"born": 1815}))
    ship = await harness.body(AddNode(name="Ada", label="Ship"))
    read = await harness.body(GetNodeByName(name="Ada"))
    assert read.pop("created_at") == read.pop("updated_at")
    assert read == {
        "status": "success",
        "node_id": person["node_id"],
        "label": "Person",
        "name": "Ada",
        "properties": {"born": 1815},
        "match_count": 2,
        "created_by": "ada",
        "updated_by": "ada",
    }
    read = await harness.body(GetNodeByName(name="Ada", label="Ship"))
    assert (read["node_id"], read["match_count"]) == (ship["node_id"], 1)


@pytest.mark.promise("GE-16")
async def test_a_miss_suggests_names_that_resemble_it(harness: Harness) -> None:
    for name in ("Ada Lovelace", "Ada Byron", "Adam", "100% pure", "Zoe"):
        await harness.body(AddNode(name=name))

    async def suggested(name: str, **more: Any) -> list[str]:
        body = await harness.body(GetNodeByName(name=name, **more))
        assert (body["node"], body["status"]) == (None, "not_found")
        return [suggestion["name"] for suggestion in body["suggestions"]]

    assert (await suggested("Ada Lovelance"))[0] == "Ada Lovelace"
    assert (await suggested("ada byron"))[0] == "Ada Byron"
    assert await suggested("Zoe", label="Person") == ["Zoe"]
    assert await suggested("100") == ["100% pure"]
    assert await suggested("%") == []
    assert await suggested("A_a") == []
    assert await suggested("Q\\") == []


@pytest.mark.promise("GE-16")
async def test_adding_a_node_again_merges_its_properties(harness: Harness) -> None:
    first = await harness.body(AddNode(name="Ada", properties={"a": 1, "b": 1}))
    again = await harness.body(AddNode(name="Ada", properties={"b": 2, "c": 3}))
    assert again == {**first, "created": False, "properties": {"a": 1, "b": 2, "c": 3}}
    assert await harness.body(AddNode(name="Ada")) == again
    racing = await asyncio.gather(*(harness.body(AddNode(name="New", properties={f"p{n}": n})) for n in range(8)))
    assert [body["created"] for body in racing].count(True) == 1
    assert len((await harness.body(GetNodeByName(name="New")))["properties"]) == 8


@pytest.mark.promise("GE-20")
async def test_a_new_edge_has_its_sector_at_once(harness: Harness) -> None:
    for relation in ("KNOWS", "DISCUSSED", "WHATEVER_ELSE"):
        assert (await harness.body(fact(relation=relation)))["memory_sector"] == "semantic"
    assert (await harness.body(fact(relation="LOVES")))["memory_sector"] == "emotional"
    assert (await harness.body(asked(relation="LOVES")))["memory_sector"] == "emotional"
    assert {row["sector_source"] for row in harness.rows("select sector_source from edges")} == {"auto"}


@pytest.mark.promise("GE-21")
@pytest.mark.parametrize("end", ["source", "target"])
async def test_an_ambiguous_name_is_told_with_its_candidates_and_nothing_is_written(harness: Harness, end: str) -> None:
    nodes = [await harness.body(AddNode(name="Ada", label=label)) for label in ("Person", "Ship")]
    before = harness.everything()
    ends = {"source": "Ada", "target": "New"} if end == "source" else {"source": "New", "target": "Ada"}
    body = await harness.body(fact(**ends))
    assert body["status"] == "ambiguous"
    assert f"{end}_label" in body["error"]
    assert body["candidates"] == [
        {"node_id": node["node_id"], "label": node["label"], "name": "Ada", "field": f"{end}_name"} for node in nodes
    ]
    assert harness.everything() == before
    chosen = await harness.body(fact(**ends, **{f"{end}_label": "Ship"}))
    assert chosen[f"{end}_id"] == nodes[1]["node_id"]


@pytest.mark.promise("GE-21")
async def test_a_name_without_label_means_the_one_node_there_is_or_a_new_entity(harness: Harness) -> None:
    ship = await harness.body(AddNode(name="Ada", label="Ship"))
    edge = await harness.body(fact())
    assert edge["source_id"] == ship["node_id"]
    assert (await harness.body(GetNodeByName(name="Bob")))["label"] == "Entity"
    other = await harness.body(fact(source_label="Person"))
    assert other["source_id"] != ship["node_id"]
    assert await harness.body(fact("Self", "IS", "Self")) == await harness.body(fact("Self", "IS", "Self")) | {
        "created": True
    }


@pytest.mark.promise("GE-23")
async def test_deleting_an_edge_is_audited_and_its_repetition_finds_nothing(harness: Harness) -> None:
    edge = await harness.body(fact(relation="LOVES", weight=0.5))
    body = await harness.body(DeleteEdge(edge_id=edge["edge_id"], reason="over"))
    assert (body["status"], body["edge_id"]) == ("deleted", edge["edge_id"])
    (noted,) = harness.audit(edge["edge_id"])
    assert (noted["action"], noted["actor"], noted["reason"]) == ("delete_edge", "ada", "over")
    assert noted["old"] == {
        "source_id": edge["source_id"],
        "target_id": edge["target_id"],
        "relation": "LOVES",
        "weight": 0.5,
        "memory_sector": "emotional",
        "sector_source": "auto",
    }
    for unknown in (edge["edge_id"], UNKNOWN_ID, "nonsense"):
        assert (await harness.body(DeleteEdge(edge_id=unknown)))["status"] == "not_found"
        assert (await harness.body(DeleteNode(node_id=unknown)))["status"] == "not_found"


@pytest.mark.promise("GE-23")
async def test_memories_are_no_named_nodes(harness: Harness) -> None:
    memory_id = UNKNOWN_ID
    harness.rows(
        "insert into nodes (id, tenant, label, partition) "
        "values (%s, make_tenant('default_user'), 'Memory', 'trusted')",
        memory_id,
    )
    assert (await harness.body(DeleteNode(node_id=memory_id)))["status"] == "not_found"
    assert harness.row("select count(*) as n from nodes")["n"] == 1


async def test_properties_that_would_grow_too_large_are_refused_and_nothing_changes(harness: Harness) -> None:
    await harness.body(fact(properties={"a": "x" * 40_000}))
    await harness.body(AddNode(name="Ada", properties={"a": "x" * 40_000}))
    before = harness.everything()
    for command in (fact(properties={"b": "x" * 40_000}), AddNode(name="Ada", properties={"b": "x" * 40_000})):
        with refused(FaultCode.INVALID_PARAMETER) as faults:
            await harness.body(command)
        assert faults[0].field == "properties"
    assert harness.everything() == before


async def test_nobody_but_a_reclassification_writes_its_note(harness: Harness) -> None:
    with refused(FaultCode.INVALID_PARAMETER) as faults:
        await harness.body(fact(properties={"last_reclassification": {"actor": "forged"}}))
    assert faults[0].field == "properties"
    assert harness.rows("select * from nodes") == []


@pytest.mark.own_database
@pytest.mark.promise("GE-7")
async def test_without_the_database_reads_and_writes_are_refused_and_work_again_afterwards(
    harness: Harness, servers: TestServers
) -> None:
    await harness.body(fact())
    name = harness.database.name
    servers.administer(f"alter database {name} allow_connections false")
    servers.administer("select pg_terminate_backend(pid) from pg_stat_activity where datname = '" + name + "'")
    try:
        for command in (asked(), fact(weight=0.5)):
            with pytest.raises(EngramqError) as caught:
                await harness.carry_out(assignment(command))
            assert caught.value.fault.code is FaultCode.UNAVAILABLE
            assert caught.value.fault.recovery
    finally:
        servers.administer(f"alter database {name} allow_connections true")
    assert (await harness.body(asked()))["weight"] == 1.0


async def test_stats_stay_short_however_many_relations_were_made_up(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    for relation, edges in (("COMMON", 3), ("RARE", 2), ("ODD", 1), ("QUEER", 1)):
        for number in range(edges):
            await harness.do(AddEdge(source_name="Ada", target_name=f"{relation} {number}", relation=relation))
    monkeypatch.setattr(limits, "EDGE_KINDS_SHOWN", 2)
    counts = await harness.store.read(DEFAULT_NAMESPACE, reading.counts)
    assert {edge.relation: edge.count for edge in counts["edges"]} == {"COMMON": 3, "RARE": 2, "custom": 2}
