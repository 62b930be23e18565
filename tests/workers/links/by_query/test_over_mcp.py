"""connect_by_query over MCP."""

import pytest

from tests.conftest import Database
from tests.scenarios.stage import agent_of, stage_settings, staged


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
