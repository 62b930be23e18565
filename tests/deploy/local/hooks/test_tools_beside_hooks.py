"""The tools of a client and its hooks work in the same project."""

from pathlib import Path
from typing import Any

import pytest

from bench.stack import stdio_client
from tests.deploy.local.hooks.conftest import Owner
from tests.deploy.local.hooks.test_projects import git, repository
from tests.deploy.local.hooks.test_sessions import Begin, told

pytestmark = pytest.mark.timeout(240)


@pytest.mark.promise("KN-12")
@pytest.mark.parametrize("tools", ["full", "core"])
def test_tools_know_in_a_repository_what_hooks_tell_there(
    owner: Owner, session: Begin, tmp_path: Path, tools: str
) -> None:
    """Finding S7: the hook told it, and a search in the same second said that it is not known."""
    shop, blog = repository(tmp_path / "shop"), repository(tmp_path / "blog")
    git(shop, "worktree", "add", "--quiet", str(tmp_path / "fix"))
    environment = {**owner.environment, "ENGRAMQ_TOOLS": tools}

    def asked(folder: Path, tool: str, **arguments: Any) -> dict[str, Any]:
        with stdio_client(environment, str(folder)) as client:
            client.initialize()
            client.ask({"jsonrpc": "2.0", "method": "notifications/initialized"})
            return client.call(1, tool, **arguments)

    kept = asked(shop, "store_memory", content="The node version that we need is 22")["stored"]["id"]
    assert owner.call("get_memory", memory_id=kept)["memory"]["project"] == "shop"
    question = "which node version do we need"
    for folder in (shop, tmp_path / "fix"):
        assert [hit["id"] for hit in asked(folder, "search_memories", query=question)["memories"]] == [kept]
        begun = session()
        begun.folder = str(folder)
        assert "The node version that we need is 22" in told(begun, "SessionStart", source="startup")
    elsewhere = asked(blog, "search_memories", query=question)
    assert elsewhere["memories"] == []
    assert '1 hit in project shop; project="*" shows them.' in elsewhere["hint"]
    named = asked(blog, "search_memories", query=question, project="Shop")
    assert named["hint"].startswith("There is no project Shop; nearest: shop. 1 hit in project shop")
    assert [hit["id"] for hit in asked(blog, "search_memories", query=question, project="shop")["memories"]] == [kept]
