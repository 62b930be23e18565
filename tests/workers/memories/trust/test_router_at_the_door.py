"""Where stores go, and who may say what, as clients see it: gateway and worker together."""

import pytest

from engramq.schemas.vocabulary import Scope, Verification
from tests.scenarios.stage import Agent, Stage, agent_of

VOUCHED = ("verified", "approved")
WHEN_VOUCHED = ("task_outcome", "architectural_decision", "lesson_learned")


def expected(source_type: str, verification: str) -> str:
    return "trusted" if source_type in WHEN_VOUCHED and verification in VOUCHED else "untrusted"


@pytest.mark.promise("TP-8", "TP-9", "TP-10", "TP-11")
async def test_the_router_table(agent: Agent) -> None:
    for source_type in ("research", *WHEN_VOUCHED, "rumour", "Research", "task_outcome "):
        for verification in Verification:
            given = {"content": f"{source_type} {verification}", "source_type": source_type}
            memory = await agent.store(**given, verification=verification)
            assert (memory["partition"], memory["verification"]) == (expected(source_type, verification), verification)
            assert ("warning" in memory) is (memory["partition"] == "untrusted")
            asked = await agent.call("store_memory", **given, verification=verification, partition="trusted")
            if memory["partition"] == "trusted":
                assert asked["stored"]["partition"] == "trusted"
            else:
                assert (asked["status"], asked["code"]) == ("error", "untrusted_source")
                assert asked["recovery"]
            forced = await agent.store(**given, verification=verification, partition="untrusted")
            assert forced["partition"] == "untrusted"
    assert (await agent.store("of our own"))["partition"] == "trusted"


@pytest.mark.promise("TP-24", "TP-28", "SE-13")
async def test_vouching_takes_the_scope(stage: Stage, agent: Agent) -> None:
    memory = await agent.store("Read somewhere", source_type="research")
    scopes = (Scope.READ, Scope.WRITE, Scope.ADMIN)
    async with agent_of(await stage.gateway(), principal="writer", scopes=scopes) as writer:
        for word in (item for item in Verification if item is not Verification.UNVERIFIED):
            refused = await writer.call("store_memory", content="x", verification=word)
            assert refused["code"] == "forbidden"
        for tool, arguments in (
            ("verify_memory", {"memory_id": memory["id"], "verification": "approved"}),
            ("memory_promote_to_trusted", {"record_id": memory["id"]}),
        ):
            refused = await writer.call(tool, **arguments)
            assert (refused["code"], "verify" in refused["error"]) == ("forbidden", True)
    assert (await agent.call("memory_promote_to_trusted", record_id=memory["id"]))["code"] == "record_not_verified"


@pytest.mark.promise("TP-22", "TP-23", "TP-24", "SE-12")
async def test_an_untrusted_principal_reaches_untrusted_memories_only(stage: Stage, agent: Agent) -> None:
    ours = [await agent.store(f"Our own fact {number}") for number in range(2)]
    async with agent_of(await stage.gateway(), principal="crawler", untrusted=True) as crawler:
        mine = [await crawler.store(f"Crawled {number}") for number in range(2)]
        mine += [await crawler.store("Crawled decision", source_type="lesson_learned")]
        assert {memory["partition"] for memory in mine} == {"untrusted"}
        vouched = await crawler.call("store_memory", content="x", verification="approved")
        assert vouched["code"] == "forbidden"  # else whoever promotes would find it reviewed
        assert (await crawler.call("store_memory", content="x", partition="trusted"))["code"] == "untrusted_source"
        own, other = mine[0]["id"], ours[0]["id"]
        for tool, arguments, code in (
            ("verify_memory", {"memory_id": own, "verification": "approved"}, "forbidden"),
            ("memory_promote_to_trusted", {"record_id": own}, "forbidden"),
            ("supersede_memory", {"old_memory_id": other, "new_memory_id": own}, "untrusted_supersedes"),
            ("supersede_memory", {"old_memory_id": other, "new_memory_id": ours[1]["id"]}, "forbidden"),
            ("supersede_memory", {"old_memory_id": own, "new_memory_id": other}, "forbidden"),
        ):
            assert (await crawler.call(tool, **arguments))["code"] == code, (tool, arguments)
        replaced = await crawler.call("supersede_memory", old_memory_id=own, new_memory_id=mine[1]["id"])
        assert replaced["status"] == "superseded"
        assert await crawler.found("Our own fact") == await agent.found("Our own fact")
    assert set(await agent.recent()) == {memory["content"] for memory in ours}
