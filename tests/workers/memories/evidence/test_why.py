"""Why a memory is known: one card, from the audit log and what is kept, of no more than 600 tokens."""

import json

import pytest

from bench.replies import tokens
from engramq.schemas.vocabulary import Scope
from engramq.workers.db.database import Store
from engramq.workers.db.privacy import change_privacy
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent, Stage, agent_of

__all__ = ["agent", "settings", "stage"]

pytestmark = pytest.mark.promise("EV-4")


async def test_a_card_tells_of_trust_replacement_use_links_and_evidence(agent: Agent) -> None:
    ground = await agent.store("The oven was bought in 2019")
    cited = [{"memory_id": ground["id"]}, {"path": "src/oven.py", "lines": "3-9"}]
    old = await agent.store("Its guarantee ended in 2020")
    known = await agent.store("Its guarantee ended in 2021", evidence=cited, thread="kitchen", speaker="Ada")
    await agent.call("verify_memory", memory_id=known["id"], verification="verified", reason="on the bill")
    await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=known["id"])
    await agent.call("connect", source=known["id"], target=ground["id"], relation="supports")
    await agent.call("record_outcome", memory_ids=[known["id"]], signal=1.0)
    for number in range(20):
        await agent.store(f"Conclusion {number} " + "x" * 300, evidence=[{"memory_id": known["id"]}])
    card = await agent.call("why", memory_id=known["id"])
    assert card["about"] == {"id": known["id"], "preview": "Its guarantee ended in 2021"}
    (stored,) = card["recorded"]
    assert (stored["by"], "kitchen" in stored["says"], "Ada" in stored["says"]) == ("I/O", True, True)
    (trusted,) = card["trusted"]
    assert trusted["reason"] == "on the bill"
    assert trusted["audit_id"] > 0
    (replaced,) = card["replacing"]
    assert replaced["memory_id"] == old["id"]
    assert replaced["audit_id"] > trusted["audit_id"]
    assert ground["id"] in [line["memory_id"] for line in card["linked"]]
    assert "fresh" in card["cited"][0]["says"]
    assert card["cited"][1]["says"] == "src/oven.py:3-9"
    assert len(card["resting_on"]) == 3
    assert card["omitted"] >= 17
    assert tokens(json.dumps(card, separators=(",", ":"))) <= 600


async def test_of_what_is_not_there_nothing_is_told(agent: Agent) -> None:
    research = await agent.store("The oven is haunted", source_type="research")
    assert (await agent.call("why", memory_id=research["id"]))["status"] == "not_found"
    card = await agent.call("why", memory_id=research["id"], include_untrusted=True)
    assert card["status"] == "success"


async def test_a_card_says_in_round_numbers_how_much_a_memory_helped(agent: Agent) -> None:
    known = await agent.store("The oven takes an hour to heat")
    for signal in (0.9, 0.7, 0.8):
        await agent.call("record_outcome", memory_ids=[known["id"]], signal=signal)
    (used,) = (await agent.call("why", memory_id=known["id"]))["used"]
    assert used["says"] == "helped 2.4, misled 0.6"


async def test_untrusted_others_are_named_to_who_asks_for_them_alone(agent: Agent) -> None:
    known = await agent.store("The oven is red")
    hearsay = await agent.store("The oven was repainted", source_type="research", evidence=[{"memory_id": known["id"]}])
    usual = await agent.call("why", memory_id=known["id"])
    whole = await agent.call("why", memory_id=known["id"], include_untrusted=True)
    assert hearsay["id"] not in json.dumps(usual)
    assert [line["memory_id"] for line in whole["resting_on"]] == [hearsay["id"]]


async def test_withdrawn_others_are_neither_named_nor_counted(agent: Agent) -> None:
    known = await agent.store("The oven is red")
    other = await agent.store("The bakery has one oven")
    await agent.call("connect", source=known["id"], target=other["id"], relation="supports")
    await agent.call("forget_memory", memory_id=other["id"])
    card = await agent.call("why", memory_id=known["id"])
    assert "linked" not in card
    assert "omitted" not in card


async def test_reasons_of_verdicts_are_for_those_who_may_read_the_audit_log(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "ns", "ada") as ada, agent_of(service, "ns", "bob", scopes=(Scope.READ,)) as bob:
        known = await ada.store("The oven is blue")
        reason = "x" * 300
        await ada.call("verify_memory", memory_id=known["id"], verification="verified", reason=reason)
        (told_ada,) = (await ada.call("why", memory_id=known["id"]))["trusted"]
        (told_bob,) = (await bob.call("why", memory_id=known["id"]))["trusted"]
    assert told_ada.pop("reason").startswith("xxx")
    assert told_bob == told_ada
    assert told_bob["by"] == "ada"


async def test_a_card_of_long_texts_is_short_as_well(agent: Agent) -> None:
    known = await agent.store("The oven is red " + "y" * 900, thread="t" * 200, speaker="s" * 200)
    for number in range(4):
        other = await agent.store(f"Loaf {number}", evidence=[{"memory_id": known["id"]}])
        await agent.call("connect", source=known["id"], target=other["id"], relation="r" * 60, note="why not " * 40)
        await agent.call("verify_memory", memory_id=known["id"], verification="verified", reason=f"{number} bill " * 40)
        old = await agent.store(f"Crust {number}")
        await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=known["id"])
    card = await agent.call("why", memory_id=known["id"])
    assert card["trusted"]
    assert card["linked"]
    assert tokens(json.dumps(card, separators=(",", ":"))) <= 600


async def test_a_card_with_a_line_of_each_kind_is_short_in_other_scripts_too(stage: Stage) -> None:
    long = "麵包房的烤爐加熱到兩百三十度" * 20
    name = "wang.xiaoming@research.example.com"
    async with agent_of(await stage.gateway(), "ns", name) as agent:
        known = await agent.store(f"known {long}", thread=long[:60], speaker=long[:20], external_id=long[:60])
        for verification in ("verified", "approved"):
            await agent.call("verify_memory", memory_id=known["id"], verification=verification, reason=long[:200])
        for number in range(3):
            other = await agent.store(f"{number} {long}", evidence=[{"memory_id": known["id"]}])
            await agent.call("connect", source=known["id"], target=other["id"], relation="supports", note=long[:200])
            await agent.call("record_outcome", memory_ids=[known["id"]], signal=1.0, note=long[:200])
        old = await agent.store(f"old {long}")
        await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=known["id"])
        await agent.call("update_memory", memory_id=known["id"], evidence=[{"path": long[:90]}])
        new = await agent.store(f"new {long}")
        await agent.call("supersede_memory", old_memory_id=known["id"], new_memory_id=new["id"])
        card = await agent.call("why", memory_id=known["id"])
    kinds = {"recorded", "trusted", "replaced_by", "replacing", "outcomes", "linked", "cited", "resting_on"}
    assert card.keys() >= kinds
    assert tokens(json.dumps(card, ensure_ascii=False, separators=(",", ":"))) <= 600


async def test_the_first_of_a_thread_says_its_place(agent: Agent) -> None:
    known = await agent.store("The oven is red", thread="kitchen", position=0)
    (stored,) = (await agent.call("why", memory_id=known["id"]))["recorded"]
    assert "position 0" in stored["says"]


async def test_administrators_see_the_card_of_what_they_may_read(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "ns", "ada") as ada, agent_of(service, "ns", "root") as root:
        known = await ada.store("The oven is blue", visibility="private")
        assert (await root.call("why", memory_id=known["id"]))["status"] == "not_found"
        async with await Store.open(stage.settings.database_url) as store:
            await store.write("ns", lambda tx: change_privacy(tx, admins_read=True))
        (stored,) = (await root.call("why", memory_id=known["id"]))["recorded"]
    assert stored["by"] == "ada"


async def test_administrators_see_no_reason_that_the_audit_log_keeps_from_them(stage: Stage) -> None:
    service = await stage.gateway()
    async with agent_of(service, "ns", "ada") as ada, agent_of(service, "ns", "root") as root:
        old = await ada.store("The oven is red", visibility="private")
        known = await ada.store("The oven is blue", visibility="private")
        await ada.call("verify_memory", memory_id=known["id"], verification="verified", reason="my surgery")
        await ada.call("supersede_memory", old_memory_id=old["id"], new_memory_id=known["id"], reason="my knee")
        async with await Store.open(stage.settings.database_url) as store:
            await store.write("ns", lambda tx: change_privacy(tx, admins_read=True))
        for _ in ("private", "shared"):
            card = await root.call("why", memory_id=known["id"])
            assert card["trusted"]
            assert "my " not in json.dumps(card)
            assert "my surgery" in json.dumps(await ada.call("why", memory_id=known["id"]))
            look = await ada.call("get_memory", memory_id=known["id"], detail="full")
            await ada.call("share_memory", memory_id=known["id"], seen=look["memory"]["digest"])
