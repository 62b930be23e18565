"""Choosing an edge's sector by hand: every outcome, with its exact words."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
import pytest

from engramq.schemas.commands import Reclassified
from engramq.schemas.faults import FaultCode, missing
from engramq.schemas.vocabulary import ReclassifyStatus, Sector, Thing
from tests.refusals import refused
from tests.workers.graph.facts import UNKNOWN_ID, asked, fact, homonyms, reclassified
from tests.workers.graph.harness import ADA, BOB, Harness

LIST = "emotional, episodic, semantic, procedural, reflective"
MESSAGE = "Edge reclassified"
BOUND_S = 10.0


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.msg == MESSAGE]


@pytest.mark.own_database
@pytest.mark.promise("RS-2", "RS-3", "RS-9")
@pytest.mark.parametrize("edge", ["there", "not there"])
async def test_a_wrong_sector_is_told_before_any_edge_is_read(harness: Harness, edge: str) -> None:
    if edge == "there":
        await harness.body(fact(properties={"is_constitutive": True}))
    harness.rows("revoke select on nodes from engramq_worker")  # a look-up would fail now
    for wrong in ("happy", "Emotional", "EPISODIC", "", "   ", " semantic", "semantic ", "1"):
        body = await harness.body(reclassified(wrong, edge_id="nonsense"))
        assert body == {"status": "invalid_sector", "error": f"Invalid sector: '{wrong}'. Must be one of: {LIST}"}


@pytest.mark.promise("RS-4")
async def test_there_are_exactly_five_sectors_and_each_can_be_chosen(harness: Harness) -> None:
    await harness.body(fact())
    assert ", ".join(Sector) == LIST
    for sector in Sector:
        assert (await harness.body(reclassified(sector)))["new_sector"] == sector


@pytest.mark.promise("RS-5")
async def test_without_a_match_the_triple_is_named(harness: Harness) -> None:
    await harness.body(fact())
    for wrong in (
        reclassified("episodic", source="X", relation="Z", target="Y"),
        reclassified("episodic", source="Bob", target="Ada"),
        reclassified("episodic", relation="knows"),
    ):
        body = await harness.body(wrong)
        triple = f"{wrong.source_name} --{wrong.relation}--> {wrong.target_name}"
        assert body == {"status": "not_found", "error": f"Edge not found: {triple}", **missing(Thing.EDGE)}


@pytest.mark.promise("OV-9", "RS-6")
async def test_homonyms_are_ambiguous_and_nothing_changes(harness: Harness) -> None:
    ids = await homonyms(harness)
    before = harness.everything()
    body = await harness.body(reclassified("episodic"))
    assert body.pop("candidates") == [
        {"edge_id": edge_id, "source_label": label, "target_label": "Person", "memory_sector": "semantic"}
        for edge_id, label in zip(ids, ("Person", "Ship"), strict=True)
    ]
    assert body == {"status": "ambiguous", "error": "Multiple edges found", "edge_ids": ids}
    assert harness.everything() == before
    assert harness.rows("select * from audit_log") == []


@pytest.mark.promise("RS-8")
async def test_edge_id_is_honoured_when_one_matches(harness: Harness) -> None:
    edge = await harness.body(fact())
    assert (await harness.body(reclassified("episodic", edge_id=edge["edge_id"])))["status"] == "success"


@pytest.mark.promise("RS-9")
@pytest.mark.parametrize("several", [False, True])
async def test_an_edge_id_that_is_not_among_the_matches_is_not_found(harness: Harness, several: bool) -> None:
    await (homonyms(harness) if several else harness.body(fact()))
    other = await harness.body(fact("Cay", "KNOWS", "Dan"))
    before = harness.everything()
    for wrong in (other["edge_id"], UNKNOWN_ID, "nonsense", "{" + other["edge_id"] + "}"):
        body = await harness.body(reclassified("episodic", edge_id=wrong))
        assert (body["status"], body["error"]) == ("not_found", "Edge not found: Ada --KNOWS--> Bob")
        assert (body["what"], body["hint"].partition(":")[0]) == ("edge", "Leave edge_id out")
    assert harness.everything() == before


@pytest.mark.promise("RS-10")
async def test_the_reclassification_is_noted_among_the_properties(harness: Harness) -> None:
    await harness.body(fact())
    await harness.body(reclassified("reflective"))
    noted = (await harness.body(asked()))["properties"]["last_reclassification"]
    moment = noted.pop("timestamp")
    assert noted == {"from_sector": "semantic", "to_sector": "reflective", "actor": "ada"}
    assert moment.endswith("Z")
    assert len(moment) == len("2026-01-31T09:00:00.000000Z")
    assert abs(datetime.fromisoformat(moment) - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.promise("RS-11")
@pytest.mark.parametrize("properties", [{}, {"a": 1, "b": {"c": [1, None, "é"]}, "is_constitutive": False}])
async def test_all_other_properties_survive(harness: Harness, properties: dict[str, Any]) -> None:
    await harness.body(fact(properties=properties))
    await harness.body(reclassified("reflective"))
    stored = (await harness.body(asked()))["properties"]
    assert stored.pop("last_reclassification")
    assert stored == properties


@pytest.mark.promise("RS-12")
async def test_a_later_one_overwrites_the_note_and_the_audit_keeps_both(harness: Harness) -> None:
    edge = await harness.body(fact())
    await harness.body(reclassified("episodic"))
    await harness.body(reclassified("reflective"), by=BOB)
    noted = (await harness.body(asked()))["properties"]["last_reclassification"]
    assert (noted["from_sector"], noted["to_sector"], noted["actor"]) == ("episodic", "reflective", "bob")
    first, second = harness.audit(edge["edge_id"])
    assert (first["old"], first["new"]) == ({"memory_sector": "semantic"}, {"memory_sector": "episodic"})
    assert (second["old"], second["new"]) == ({"memory_sector": "episodic"}, {"memory_sector": "reflective"})
    assert [row["actor"] for row in (first, second)] == ["ada", "bob"]
    assert {row["action"] for row in (first, second)} == {"reclassify"}


@pytest.mark.promise("RS-12")
async def test_who_waited_for_the_edge_comes_later_in_the_times_of_the_audit_log_too(harness: Harness) -> None:
    edge = await harness.body(fact())
    async with await psycopg.AsyncConnection.connect(harness.database.owner_url) as holder:
        await holder.execute("select from edges for update")
        late = asyncio.create_task(harness.body(reclassified("episodic")))
        async with asyncio.timeout(BOUND_S):
            while not harness.rows("select pid from pg_locks where not granted"):
                await asyncio.sleep(0)
        cursor = await holder.execute("select clock_timestamp()")
        released = (await cursor.fetchall())[0][0]
    assert (await late)["status"] == "success"
    (row,) = harness.audit(edge["edge_id"])
    assert row["at"] > released


@pytest.mark.promise("RS-13")
async def test_success_is_logged_with_its_four_extras_after_the_commit(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    edge = await harness.body(fact())
    seen: list[str] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.msg == MESSAGE:
                seen.append(harness.row("select memory_sector from edges")["memory_sector"])

    watch = Watch()
    logging.getLogger().addHandler(watch)
    try:
        with caplog.at_level(logging.INFO):
            await harness.body(reclassified("procedural"))
    finally:
        logging.getLogger().removeHandler(watch)
    (record,) = said(caplog)
    extras = {name: getattr(record, name) for name in ("edge_id", "from_sector", "to_sector", "actor")}
    assert extras == {"edge_id": edge["edge_id"], "from_sector": "semantic", "to_sector": "procedural", "actor": "ada"}
    assert (record.levelno, record.args) == (logging.INFO, ())
    assert seen == ["procedural"]


@pytest.mark.promise("RS-13")
async def test_no_failure_and_no_replay_is_logged(harness: Harness, caplog: pytest.LogCaptureFixture) -> None:
    await homonyms(harness)
    await harness.body(fact("C", "IS", "D", properties={"is_constitutive": True}))
    with caplog.at_level(logging.INFO):
        for command in (
            reclassified("wrong"),
            reclassified("episodic"),
            reclassified("episodic", source="Nobody"),
            reclassified("episodic", "C", "IS", "D"),
        ):
            assert (await harness.body(command))["status"] != "success"
        assert said(caplog) == []
        await harness.body(fact("E", "IS", "F"))
        once = reclassified("episodic", "E", "IS", "F")
        first = await harness.do(once, idempotency_key="k")
        again = await harness.do(once, idempotency_key="k")
    assert msgspec.to_builtins(again) == msgspec.to_builtins(first)
    assert len(said(caplog)) == 1


@pytest.mark.promise("RS-14")
async def test_every_status_is_a_word_of_reclassify_status(harness: Harness) -> None:
    assert list(ReclassifyStatus) == ["success", "invalid_sector", "not_found", "ambiguous", "consent_required"]
    assert Reclassified.__annotations__["status"] is ReclassifyStatus


@pytest.mark.promise("RS-16")
async def test_the_same_sector_succeeds_and_renews_the_timestamp(harness: Harness) -> None:
    await harness.body(fact())
    await harness.body(reclassified("semantic"))
    first = (await harness.body(asked()))["properties"]["last_reclassification"]["timestamp"]
    body = await harness.body(reclassified("semantic"))
    assert (body["status"], body["old_sector"], body["new_sector"]) == ("success", "semantic", "semantic")
    assert (await harness.body(asked()))["properties"]["last_reclassification"]["timestamp"] > first


@pytest.mark.promise("RS-18")
async def test_a_manual_sector_survives_adding_the_edge_again(harness: Harness) -> None:
    await harness.body(fact(relation="LOVES"))
    await harness.body(reclassified("procedural", relation="LOVES"))
    again = await harness.body(fact(relation="LOVES", weight=0.5, properties={"step": 1, "emotion": "joy"}))
    assert again["memory_sector"] == "procedural"
    assert again["properties"]["last_reclassification"]["to_sector"] == "procedural"
    assert harness.row("select memory_sector, sector_source from edges") == {
        "memory_sector": "procedural",
        "sector_source": "manual",
    }


@pytest.mark.promise("RS-10")
async def test_to_act_for_another_takes_admin_and_the_audit_has_the_true_principal(harness: Harness) -> None:
    edge = await harness.body(fact())
    with refused(FaultCode.FORBIDDEN):
        await harness.body(reclassified("episodic", actor="ada"), by=BOB)
    assert (await harness.body(reclassified("episodic", actor="bob"), by=BOB))["status"] == "success"
    assert (await harness.body(reclassified("reflective", actor="the archivist"), by=ADA))["status"] == "success"
    assert (await harness.body(asked()))["properties"]["last_reclassification"]["actor"] == "the archivist"
    assert [row["actor"] for row in harness.audit(edge["edge_id"])] == ["bob", "ada"]
    nobody_named = msgspec.structs.replace(ADA, name="root", actor="I/O")  # as the user of a home is
    assert (await harness.body(reclassified("semantic"), by=nobody_named))["status"] == "success"
    assert (await harness.body(asked()))["properties"]["last_reclassification"]["actor"] == "I/O"
    assert harness.audit(edge["edge_id"])[2]["actor"] == "root"
    assert harness.audit(edge["edge_id"])[1]["new"]["actor"] == "the archivist"
