"""Who calls over REST: the tokens, scopes, limits and namespaces are those of MCP."""

import pytest
from mcp.client import Client

from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Scope
from engramq.workers.auth.tokens import NewToken
from tests.gateway.rest.requests import Rest
from tests.gateway.test_http import serve
from tests.gateway.test_identity_end_to_end import Served, served, settings

pytestmark = pytest.mark.promise("RC-7")

__all__ = ["settings"]


def caller(here: Served, name: str) -> Rest:
    return Rest(here.site.port, authorization=f"Bearer {here.secrets[name]}")


async def test_a_token_does_over_rest_what_it_may_and_nothing_more(settings: Settings) -> None:
    async with served(settings) as here:
        await here.invite("reader", "acme", NewToken(principal="reader", scopes=(Scope.READ,)))
        alice, bob, reader, researcher = [caller(here, name) for name in ("alice", "bob", "reader", "researcher")]
        async with alice.http, bob.http, reader.http, researcher.http:
            stored = (await alice.call("store_memory", {"content": "The launch budget is forty thousand"})).json()
            memory_id = {"memory_id": stored["stored"]["id"]}
            assert stored["stored"]["created_by"] == "alice"
            found = await reader.call("search_memories", {"query": "launch budget"})
            assert [memory["id"] for memory in found.json()["memories"]] == [memory_id["memory_id"]]
            assert (await bob.call("get_memory", memory_id)).status_code == 404
            assert (await bob.call("forget_memory", memory_id)).status_code == 404

            for refused, tool, arguments in (
                (reader, "store_memory", {"content": "x"}),
                (reader, "forget_memory", memory_id),
                (alice, "audit", {}),
                (alice, "verify_memory", {**memory_id, "verification": "verified"}),
                (researcher, "forget_memory", memory_id),
            ):
                answer = await refused.call(tool, arguments)
                assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), tool

            apart = (await researcher.call("store_memory", {"content": "A page says it doubled"})).json()
            assert (apart["stored"]["partition"], "notice" in apart) == ("untrusted", True)
            assert (await alice.call("forget_memory", {**memory_id, "reason": "told"})).json()["status"] == "archived"
            assert (await alice.call("restore_memory", memory_id)).json()["status"] == "restored"
            assert (await alice.call("update_memory", {**memory_id, "speaker": "Ada"})).json()["status"] == "updated"


async def test_a_write_that_is_repeated_with_its_key_is_carried_out_once(settings: Settings) -> None:
    async with served(settings) as here:
        alice = caller(here, "alice")
        async with alice.http:
            first, again = [
                (await alice.call("store_memory", {"content": "Once is enough"}, idempotency_key="k-1")).json()
                for _ in range(2)
            ]
            assert first["stored"]["id"] == again["stored"]["id"]
            reused = await alice.call("store_memory", {"content": "Another"}, idempotency_key="k-1")
            assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_conflict")


async def test_without_a_good_token_only_the_document_is_to_be_had(settings: Settings) -> None:
    async with served(settings) as here:
        for headers in ({}, {"authorization": "Bearer nobody"}, {"authorization": "Basic eDp5"}):
            nobody = Rest(here.site.port, **headers)
            async with nobody.http:
                for tool, arguments in (("store_memory", {"content": "x"}), ("memory_stats", {})):
                    answer = await nobody.call(tool, arguments)
                    assert (answer.status_code, answer.json()["status"]) == (401, "error")
                    assert answer.headers["www-authenticate"].startswith("Bearer ")
                assert (await nobody.http.get("/v1/openapi.json")).status_code == 200


async def test_a_caller_has_one_share_of_calls_whatever_the_door(redis_url: str, keys: Keys) -> None:
    async with serve(redis_url, keys, quotas="principal_calls=2") as (site, _):
        rest = Rest(site.port)
        async with rest.http, Client(site.url) as client:
            assert (await rest.call("memory_stats", {})).status_code == 200
            assert not (await client.call_tool("memory_stats", {})).is_error
            answer = await rest.call("memory_stats", {})
            assert (answer.status_code, answer.json()["code"]) == (429, "rate_limited")
            assert int(answer.headers["retry-after"]) >= answer.json()["retry_after_s"]
