"""What is derived is at most as trusted as what it rests on, unless somebody vouches for it."""

from typing import Any

import pytest

from engramq.schemas.vocabulary import SourceType
from tests.scenarios.conftest import agent, settings, stage
from tests.scenarios.stage import Agent

__all__ = ["agent", "settings", "stage"]

pytestmark = pytest.mark.promise("EV-3")


async def read(agent: Agent, content: str = "The web says that the oven is haunted") -> str:
    """Store what a stranger wrote, and return its id."""
    return str((await agent.store(content, source_type=SourceType.RESEARCH))["id"])


def on(*ids: str) -> list[dict[str, str]]:
    return [{"memory_id": memory_id} for memory_id in ids]


async def partition_of(agent: Agent, memory_id: str) -> str:
    reply = await agent.call("get_memory", memory_id=memory_id, include_untrusted=True, detail="full")
    return str(reply["memory"]["partition"])


async def test_what_rests_on_an_untrusted_memory_is_kept_apart_and_says_why(agent: Agent) -> None:
    trusted = str((await agent.store("The oven was bought in 2019"))["id"])
    reply = await agent.call(
        "store_memory", content="Nobody should bake at night", evidence=on(trusted, await read(agent))
    )
    assert await partition_of(agent, reply["stored"]["id"]) == "untrusted"
    assert "rests on an untrusted memory" in reply["notice"]
    assert reply["stored"]["id"] not in [hit["id"] for hit in await agent.search("bake at night")]
    reply = await agent.call("store_memory", content="Its guarantee ended in 2021", evidence=on(trusted))
    assert await partition_of(agent, reply["stored"]["id"]) == "trusted"
    assert "notice" not in reply


async def test_whoever_vouches_for_it_has_it_trusted(agent: Agent) -> None:
    ground = await read(agent)
    vouched = await agent.call(
        "store_memory", content="Nobody should bake at night", verification="verified", evidence=on(ground)
    )
    assert await partition_of(agent, vouched["stored"]["id"]) == "trusted"
    derived = str((await agent.store("Ovens are haunted in general", evidence=on(ground)))["id"])
    await agent.call("verify_memory", memory_id=derived, verification="verified")
    await agent.call("memory_promote_to_trusted", memory_id=derived)
    assert await partition_of(agent, derived) == "trusted"


async def test_to_ask_for_trusted_all_the_same_is_refused(agent: Agent) -> None:
    ground = await read(agent)
    refused = await agent.call(
        "store_memory", content="Nobody should bake at night", partition="trusted", evidence=on(ground)
    )
    assert refused["code"] == "untrusted_source"
    assert ground in refused["error"]


@pytest.mark.parametrize("how", ["trusted", "verified"])
async def test_no_update_lets_what_is_trusted_or_verified_rest_on_what_is_not(agent: Agent, how: str) -> None:
    ground = await read(agent)
    about: dict[str, Any] = {} if how == "trusted" else {"source_type": "research"}
    memory_id = str((await agent.store("Nobody should bake at night", **about))["id"])
    if how == "verified":
        await agent.call("verify_memory", memory_id=memory_id, verification="verified")
    refused = await agent.call("update_memory", memory_id=memory_id, evidence=on(ground))
    assert refused["code"] == "untrusted_source"
    row = [{"content": "Nobody should bake at night", "external_id": "night", "evidence": on(ground), **about}]
    await agent.call("update_memory", memory_id=memory_id, evidence=[{"url": "https://example.org"}])
    shown = await agent.call("get_memory", memory_id=memory_id, include_untrusted=True, detail="full")
    assert shown["memory"]["evidence"] == [{"url": "https://example.org"}]
    reply = await agent.call("import_memories", records=row)
    report = (await agent.call("get_command", command_id=reply["command_id"]))["reply"]
    assert await partition_of(agent, report["receipts"][0]["memory_id"]) == "untrusted"


async def test_a_row_of_an_import_does_not_give_a_trusted_or_verified_memory_an_untrusted_ground(agent: Agent) -> None:
    ground = await read(agent)
    for name, about in (("plain", {}), ("vouched", {"source_type": "research"})):
        row = {"content": f"Nobody should bake at night, {name}", "external_id": name, **about}
        stored = await agent.store(row["content"], external_id=name, **about)
        if about:
            await agent.call("verify_memory", memory_id=stored["id"], verification="verified")
        reply = await agent.call("import_memories", records=[{**row, "evidence": on(ground)}], on_duplicate="update")
        report = (await agent.call("get_command", command_id=reply["command_id"]))["reply"]
        assert report["rejected"] == 1
        reply = await agent.call(
            "import_memories", records=[{**row, "partition": "trusted", "evidence": on(ground), "external_id": "x"}]
        )
        report = (await agent.call("get_command", command_id=reply["command_id"]))["reply"]
        assert (report["rejected"], report["receipts"][0]["field"]) == (1, "partition")


async def test_a_row_that_says_verified_gives_no_unverified_memory_an_untrusted_ground(agent: Agent) -> None:
    ground, row = await read(agent), {"content": "Nobody should bake at night", "external_id": "night"}
    stored = await agent.store(row["content"], external_id="night")
    rows = [{**row, "verification": "verified", "evidence": on(ground)}]
    reply = await agent.call("import_memories", records=rows, on_duplicate="update")
    report = (await agent.call("get_command", command_id=reply["command_id"]))["reply"]
    assert (report["rejected"], report["receipts"][0]["field"]) == (1, "evidence")
    assert (await agent.call("get_memory", memory_id=stored["id"], detail="full"))["memory"]["evidence"] == []


async def test_grounds_that_went_meanwhile_do_not_keep_other_changes_out(agent: Agent) -> None:
    ground = str((await agent.store("The oven was bought in 2019"))["id"])
    memory_id = str((await agent.store("Its guarantee ended in 2021", evidence=on(ground)))["id"])
    await agent.call("forget_memory", memory_id=ground, erase=True)
    page = {"url": "https://example.org"}
    changed = await agent.call("update_memory", memory_id=memory_id, evidence=[*on(ground), page])
    assert changed["memory"]["evidence"] == [*on(ground), page]
