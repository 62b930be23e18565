"""connect_by_query: each way it can end, what it leaves behind, what it must never find, and the call over MCP."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from msgspec import UNSET

from engramq.schemas.commands import (
    Connect,
    ConnectByQuery,
    Connected,
    ForgetMemory,
    Forgotten,
    QueryConnected,
    Superseded,
    SupersedeMemory,
)
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import ALL_SCOPES, IfExists, Partition, QueryLinkAction, Verification
from engramq.workers.db import ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.replies import restore_answer
from tests.assignments import assignment, repeated
from tests.conftest import Database
from tests.refusals import refused
from tests.scenarios.stage import agent_of, stage_settings, staged
from tests.workers.links.by_query.conftest import CAP, Study

KETTLE, PUMP = "The kettle in the kitchen whistles in D minor", "The pump in the cellar needs oil every week"


def asking(**parameters: Any) -> ConnectByQuery:
    return ConnectByQuery(source_query=KETTLE, target_query=PUMP, **parameters)


@pytest.mark.promise("CN-32")
async def test_what_both_queries_mean_is_linked_as_connect_would(study: Study) -> None:
    kettle, pump = await study.keep(KETTLE), await study.keep(PUMP)
    await study.keep("The bridge opens at noon")
    given = assignment(
        ConnectByQuery(
            source_query="kettle kitchen whistles minor",
            target_query="pump cellar oil week",
            relation="supports",
            note="n",
        )
    )
    outcome = await study.world.complete(given)
    reply = outcome.reply
    assert isinstance(reply, QueryConnected)
    assert reply.action is QueryLinkAction.CONNECTED
    assert (reply.source_id, reply.target_id) == (kettle, pump)
    assert (reply.source_content, reply.target_content) == (KETTLE, PUMP)
    assert (reply.source_query, reply.target_query) == ("kettle kitchen whistles minor", "pump cellar oil week")
    for confidence in (reply.source_confidence, reply.target_confidence):
        assert confidence is not None
        assert 0.7 <= confidence <= 1
    result = reply.connect_result
    assert result is not None
    assert {name: result[name] for name in ("status", "action", "source_id", "target_id", "relation", "note")} == {
        "status": "success", "action": "created", "source_id": kettle, "target_id": pump, "relation": "supports",
        "note": "n",
    }  # fmt: skip
    assert result["command_id"] == reply.command_id == given.envelope.id
    assert result.keys() == {*Connected.__struct_fields__} - {"resolved", "resolved_references", "untrusted", "warning"}
    assert reply.summary == result["summary"]
    (edge,) = study.world.rows("select relation, origin, weight, declared_from::text from edges")
    assert edge == {"relation": "supports", "origin": "agent", "weight": 0.75, "declared_from": kettle}
    # Breadcrumbs and counters are left alone.
    assert outcome.session_state is None
    assert outcome.after_reply is None
    assert study.world.count("memory_usage") == 0


@pytest.mark.promise("CN-32")
async def test_a_match_that_is_not_sure_enough_links_nothing_and_is_shown(study: Study) -> None:
    nothing = await study.connect("anything", "something")
    assert nothing.action is QueryLinkAction.INSUFFICIENT_CONFIDENCE
    assert [nothing.source_id, nothing.source_content, nothing.source_confidence, nothing.connect_result] == [None] * 4
    kettle, pump = await study.keep(KETTLE), await study.keep(PUMP)
    unsure = await study.connect(KETTLE, "a lighthouse pump keeper far away on the coast")
    assert unsure.action is QueryLinkAction.INSUFFICIENT_CONFIDENCE
    assert (unsure.source_id, unsure.target_id) == (kettle, pump)
    assert (unsure.source_content, unsure.target_content) == (KETTLE, PUMP)
    assert unsure.source_confidence is not None
    assert unsure.target_confidence is not None
    assert unsure.target_confidence < 0.7 < unsure.source_confidence
    assert f"{unsure.target_confidence:.2f}" in unsure.summary
    assert "target_query" in unsure.summary
    assert "source_query" not in unsure.summary
    assert study.world.count("edges") == 0
    sure = await study.connect(KETTLE, "a lighthouse pump keeper far away on the coast", min_confidence=0.0)
    assert sure.action is QueryLinkAction.CONNECTED
    strict = await study.connect(KETTLE, PUMP, min_confidence=1.0, if_exists=IfExists.ERROR)
    assert strict.action is QueryLinkAction.INSUFFICIENT_CONFIDENCE


@pytest.mark.promise("CN-32")
async def test_the_actions_have_their_precedence(study: Study) -> None:
    kettle = await study.keep(KETTLE)
    await study.keep(PUMP)
    same = await study.connect(KETTLE, "the kettle that whistles in the kitchen", dry_run=True)
    assert same.action is QueryLinkAction.SAME_MEMORY
    assert same.source_id == same.target_id == kettle
    assert same.connect_result is None
    unsure = await study.connect("lighthouse", "lighthouse", dry_run=True)
    assert unsure.action is QueryLinkAction.INSUFFICIENT_CONFIDENCE
    assert (await study.connect(KETTLE, PUMP)).action is QueryLinkAction.CONNECTED
    preview = await study.connect(KETTLE, PUMP, dry_run=True, if_exists=IfExists.ERROR)
    assert preview.action is QueryLinkAction.DRY_RUN_PREVIEW
    assert preview.connect_result is None
    refusal = await study.connect(KETTLE, PUMP, if_exists=IfExists.ERROR)
    assert refusal.action is QueryLinkAction.REFUSED


@pytest.mark.promise("CN-32")
async def test_a_dry_run_writes_nothing_at_all(study: Study) -> None:
    kettle, pump = await study.keep(KETTLE), await study.keep(PUMP)
    before = study.everything()
    assert before["ledger"]
    preview = await study.connect(KETTLE, PUMP, dry_run=True)
    assert preview.action is QueryLinkAction.DRY_RUN_PREVIEW
    assert (preview.source_id, preview.target_id) == (kettle, pump)
    assert preview.command_id
    await study.connect("lighthouse", PUMP, dry_run=True)
    await study.connect(KETTLE, PUMP, dry_run=True, envelope={"namespace": "nobody_is_here"})
    assert study.everything() == before


@pytest.mark.promise("CN-32")
async def test_a_refusal_of_connect_is_told_inside(study: Study) -> None:
    kettle, pump = await study.keep(KETTLE), await study.keep(PUMP)
    others = [await study.keep(f"Lighthouse {number}") for number in range(CAP)]
    for other in others:
        await study.world.ask(Connected, Connect(source=pump, target=other))
    edges = study.everything()["edges"]
    reply = await study.connect(KETTLE, PUMP)
    assert reply.action is QueryLinkAction.REFUSED
    assert (reply.source_id, reply.target_id) == (kettle, pump)
    result = reply.connect_result
    assert result is not None
    assert (result["status"], result["code"], result["memory_id"]) == ("error", "degree_limit", pump)
    assert result["recovery"]
    assert result["command_id"] == reply.command_id
    assert result["error"] in reply.summary
    assert study.everything()["edges"] == edges


@pytest.mark.promise("MT-18")
@pytest.mark.parametrize("dry_run", [False, True])
async def test_the_same_key_gives_the_first_reply(study: Study, *, dry_run: bool) -> None:
    await study.keep(KETTLE)
    await study.keep(PUMP)
    key: dict[str, Any] = {"idempotency_key": "once"}
    first = await study.connect(KETTLE, PUMP, dry_run=dry_run, envelope=key)
    await study.keep(KETTLE + "!")  # which would match now
    await study.keep(PUMP + "!")
    again = await study.connect(KETTLE, PUMP, dry_run=dry_run, envelope=key)
    assert again == first
    assert first.source_content == KETTLE
    assert study.world.count("edges") == (0 if dry_run else 1)
    with refused(FaultCode.IDEMPOTENCY_CONFLICT):
        await study.world.complete(assignment(asking(note="other", dry_run=dry_run), **key))


@pytest.mark.promise("MT-19")
async def test_the_ledger_keeps_no_contents_and_an_erased_memory_is_told(study: Study) -> None:
    await study.keep(KETTLE)
    pump = await study.keep(PUMP)
    given = assignment(asking())
    first = (await study.world.complete(given)).reply
    kept = "".join(study.everything()["ledger"])
    assert not any(word in kept for word in ("kettle", "pump"))

    async def find(tx: Transaction) -> Answer:
        entry = await ledger.find(tx, UUID(given.envelope.id))
        assert entry is not None
        return await restore_answer(tx, entry)

    told = (await study.world.store.read("default_user", find)).reply
    assert isinstance(told, QueryConnected)
    assert (told.source_content, told.target_content, told.connect_result) == (
        KETTLE, PUMP, first.connect_result,  # type: ignore[attr-defined]
    )  # fmt: skip
    again = (await study.world.complete(repeated(given, attempt=2))).reply
    assert again == first
    await study.world.ask(Forgotten, ForgetMemory(memory_id=pump, erase=True))
    gone = (await study.world.complete(repeated(given, attempt=3))).reply
    assert isinstance(gone, Forgotten)
    assert (gone.status, gone.id) == ("erased", pump)


@pytest.mark.promise("TP-21", "MT-7")
async def test_only_what_is_visible_is_found(study: Study) -> None:
    kettle = await study.keep(KETTLE)
    await study.keep(PUMP, partition=Partition.UNTRUSTED)
    await study.keep(PUMP, verification=Verification.REJECTED)
    archived = await study.keep(PUMP)
    await study.world.ask(Forgotten, ForgetMemory(memory_id=archived))
    old = await study.keep(PUMP)
    new = await study.keep("The pump was sold")
    await study.world.ask(Superseded, SupersedeMemory(old_memory_id=old, new_memory_id=new))
    await study.keep(PUMP, namespace="others")
    study.world.model.down = True
    await study.keep(PUMP + " or so")  # pending
    study.world.model.down = False
    reply = await study.connect(KETTLE, PUMP, dry_run=True, min_confidence=0)
    assert (reply.source_id, reply.target_id) == (kettle, new)


async def test_an_untrusted_principal_may_not(study: Study) -> None:
    await study.keep(KETTLE)
    principal = Principal(name="web", scopes=ALL_SCOPES, untrusted=True)
    with refused(FaultCode.FORBIDDEN):
        await study.world.complete(assignment(asking(dry_run=True), principal=principal))


async def test_without_the_model_it_is_unavailable_and_nothing_is_kept(study: Study) -> None:
    await study.keep(KETTLE)
    before = study.everything()
    study.world.model.down = True
    with refused(FaultCode.UNAVAILABLE) as faults:
        await study.world.complete(assignment(asking()))
    assert faults[0].retry_after_s is UNSET
    assert study.everything() == before
    study.world.model.down = False
    assert (await study.connect(KETTLE, KETTLE)).action is QueryLinkAction.SAME_MEMORY


async def test_the_curve_of_a_model_is_found_once_whoever_asks_meanwhile(study: Study) -> None:
    await study.keep(KETTLE)
    await study.keep(PUMP)

    async def asked(number: int) -> Any:
        return await study.connect(f"{KETTLE} {number}", f"{PUMP} {number}", min_confidence=0)

    replies = await asyncio.gather(*[asked(number) for number in range(8)])
    assert {reply.action for reply in replies} == {QueryLinkAction.CONNECTED}
    assert study.world.count("edges") == 1
    assert study.world.rows("select reinforcement_count from edges") == [{"reinforcement_count": 7}]
    embedded = study.world.model.embedded
    assert embedded > 500
    await asked(9)
    assert study.world.model.embedded == embedded + 2


@pytest.mark.promise("CN-32")
async def test_memories_are_linked_by_what_they_say(database: Database, redis_url: str, key_prefix: str) -> None:
    settings = stage_settings(database, redis_url, key_prefix, link_threshold="1")
    async with staged(settings) as stage, agent_of(await stage.gateway()) as agent:
        kettle = await agent.store("The kettle in the kitchen whistles in D minor")
        pump = await agent.store("The pump in the cellar needs oil every week")
        session_state = await agent.call("get_breadcrumbs")
        asked = {"source_query": "kitchen kettle whistles in minor", "target_query": "oil the cellar pump weekly"}
        preview = await agent.call("connect_by_query", **asked, dry_run=True, min_confidence=0.2)
        assert preview["action"] == "dry_run_preview"
        assert (await agent.call("get_memory", memory_id=kettle["id"]))["links"] == []
        made = await agent.call("connect_by_query", **asked, relation="explains", min_confidence=0.2)
        assert (made["action"], made["connect_result"]["relation"]) == ("connected", "explains")
        assert (made["source_id"], made["target_id"]) == (kettle["id"], pump["id"])
        (link,) = (await agent.call("get_memory", memory_id=kettle["id"]))["links"]
        assert (link["memory_id"], link["relation"], link["origin"]) == (pump["id"], "explains", "agent")
        refused = await agent.call("connect_by_query", **asked, if_exists="error", min_confidence=0.2)
        assert (refused["status"], refused["action"]) == ("success", "refused")
        assert refused["connect_result"]["code"] == "edge_exists"
        later = await agent.call("get_command", command_id=made["command_id"])
        assert later["reply"]["connect_result"] == made["connect_result"]
        assert later["reply"]["source_content"] == kettle["content"]
        assert {**await agent.call("get_breadcrumbs"), "expires_at": ""} == {**session_state, "expires_at": ""}
