"""Operations over the wire: each is its tool's call, and what is refused is refused by a status and in words."""

import json
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from msgspec import UNSET

from engramq.gateway import router
from engramq.gateway.mcp.arguments import check_arguments, describe_value
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, Command, GetMemory, MemoryFound, MemoryList, SearchMemories, StoreMemory
from engramq.schemas.faults import NOT_APPLIED, FaultCode, refuse
from engramq.schemas.keys import Keys
from engramq.schemas.vocabulary import Thing
from tests.gateway.rest.requests import Rest
from tests.gateway.test_arguments import MINIMAL
from tests.gateway.test_http import ERAS, Site, serve, shared, site, workers
from tests.gateway.worker_side import SCRIPT, WorkerSide, a_memory

__all__ = ["shared", "site", "workers"]


JSON = "application/json"
MISSING_HERE = {"restore_memory", "verify_memory", "unshare_memory", "why"}  # as the workers are scripted


@pytest.fixture
async def rest(site: Site) -> AsyncIterator[Rest]:
    rest = Rest(site.port)
    async with rest.http:
        yield rest


@pytest.mark.promise("RC-7")
@pytest.mark.parametrize("tool", MINIMAL)
async def test_an_operation_is_the_call_of_its_tool(rest: Rest, workers: WorkerSide, tool: str) -> None:
    answer = await rest.call(tool, MINIMAL[tool])
    assert answer.status_code == (404 if tool in MISSING_HERE else 200), answer.text
    assert answer.headers["cache-control"] == "no-store"
    wanted = check_arguments(TOOLS[tool], MINIMAL[tool]).parameters
    assert [envelope.command for envelope in workers.seen] == ([wanted] if isinstance(wanted, Command) else [])


async def test_a_query_takes_numbers_booleans_times_and_lists(rest: Rest, workers: WorkerSide) -> None:
    arguments = {
        "limit": 7,
        "partitions": ["trusted", "untrusted"],
        "tags": ["one, two"],
        "include_superseded": True,
        "as_of": "2026-01-31T09:00:00+01:00",
    }
    assert (await rest.call("list_recent_memories", arguments)).status_code == 200
    assert workers.seen[0].command == check_arguments(TOOLS["list_recent_memories"], arguments).parameters


@pytest.mark.promise("CL-3")
@pytest.mark.parametrize("tags", ['["a", "b"]', ["a", "b"]])
async def test_a_list_may_come_as_json_text_in_a_query_and_in_a_body(
    rest: Rest, workers: WorkerSide, tags: object
) -> None:
    for tool in ("list_recent_memories", "store_memory"):
        answer = await rest.call(tool, {**MINIMAL[tool], "tags": tags})
        assert answer.status_code == 200, answer.text
        assert workers.seen[-1].command.tags == ("a", "b")  # type: ignore[attr-defined]


async def test_a_path_may_hold_any_text(rest: Rest, workers: WorkerSide) -> None:
    await rest.call("get_memory", {"memory_id": "a/b ?#ü%41"})
    assert workers.seen[0].command.memory_id == "a/b ?#ü%41"  # type: ignore[attr-defined]


@pytest.mark.promise("RC-7")
@pytest.mark.parametrize("code", FaultCode)
async def test_each_refusal_has_its_status_and_the_body_of_its_tool(
    rest: Rest, workers: WorkerSide, code: FaultCode
) -> None:
    fault = refuse(code, "It cannot be.", field="content", retry_after_s=1.2).fault
    workers.script[StoreMemory] = lambda _command, _envelope: fault
    answer = await rest.call("store_memory", {"content": "x"})
    assert answer.status_code == code.http_status
    body = answer.json()
    assert (body["code"], body["error"], body["recovery"]) == (code, fault.error, fault.recovery)
    assert answer.headers.get("retry-after") == ("2" if code in NOT_APPLIED else None)


async def test_what_is_not_there_is_404_with_the_reply_of_the_tool(rest: Rest, workers: WorkerSide) -> None:
    workers.script[GetMemory] = lambda _c, _e: MemoryFound(
        memory=None, status="not_found", what=Thing.MEMORY, hint="Search for it."
    )
    answer = await rest.call("get_memory", {"memory_id": "m"})
    assert (answer.status_code, answer.json()["status"], answer.json()["memory"]) == (404, "not_found", None)


@pytest.mark.promise("RC-7")
async def test_a_write_that_is_not_answered_in_time_is_202(redis_url: str, keys: Keys) -> None:
    async with serve(redis_url, keys, 0.2) as (site, workers):
        for kind in SCRIPT:
            workers.script[kind] = lambda _command, _envelope: None
        rest = Rest(site.port)
        async with rest.http:
            answer = await rest.call("store_memory", {"content": "x"})
            assert (answer.status_code, answer.json()["status"]) == (202, "pending")
            assert answer.json()["command_id"] == workers.seen[0].id
            assert (await rest.call("search_memories", {"query": "x"})).status_code == 503


async def test_headers_carry_the_idempotency_key_and_the_trace(rest: Rest, workers: WorkerSide) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await rest.call("store_memory", {"content": "x"}, idempotency_key="once", traceparent=trace)
    await rest.call("store_memory", {"content": "x", "idempotency_key": "inside"})
    await rest.call("search_memories", {"query": "x"}, idempotency_key="reads need none")
    assert [envelope.idempotency_key for envelope in workers.seen] == ["once", "inside", None]
    traces = [(envelope.traceparent or "").split("-")[1] for envelope in workers.seen]
    assert [item == trace.split("-")[1] for item in traces] == [True, False, False]
    answer = await rest.call("store_memory", {"content": "x", "idempotency_key": "a"}, idempotency_key="b")
    assert (answer.status_code, answer.json()["field"]) == (400, "idempotency_key")


@pytest.mark.promise("AG-7")
@pytest.mark.parametrize("nothing", [None, "", "null"])
async def test_what_means_not_given_stands_in_nobodys_way(rest: Rest, workers: WorkerSide, nothing: str | None) -> None:
    stored = await rest.call("store_memory", {"content": "x", "idempotency_key": nothing}, idempotency_key="k")
    assert (stored.status_code, workers.seen[-1].idempotency_key) == (200, "k")
    restored = await rest.http.post("/v1/memories/m/restore", json={"memory_id": nothing})
    assert (restored.status_code, workers.seen[-1].command.memory_id) == (404, "m")  # type: ignore[attr-defined]
    listed = await rest.http.get("/v1/memories", params={"tags": "" if nothing is None else nothing, "limit": "2"})
    assert (listed.status_code, workers.seen[-1].command.tags) == (200, UNSET)  # type: ignore[attr-defined]


async def test_a_key_that_is_no_text_is_refused_by_name(rest: Rest, workers: WorkerSide) -> None:
    answer = await rest.call("store_memory", {"content": "x", "idempotency_key": ["k"]}, idempotency_key="k")
    assert (answer.status_code, answer.json()["field"]) == (400, "idempotency_key")


@pytest.mark.promise("RC-7")
async def test_parameters_in_a_place_that_is_not_read_are_refused(rest: Rest, workers: WorkerSide) -> None:
    for method, path, sent, named in (
        ("DELETE", "/v1/graph/edges/e", {"json": {"reason": "wrong"}}, "reason"),
        ("GET", "/v1/memories", {"json": {"limit": 3}}, "limit"),
        ("POST", "/v1/memories?content=x", {"json": {}}, "content"),
    ):
        answer = await rest.http.request(method, path, **sent)
        assert (answer.status_code, answer.json()["field"]) == (400, named), path
    assert (await rest.http.request("DELETE", "/v1/graph/edges/e", json={})).status_code == 200
    assert len(workers.seen) == 1


@pytest.mark.promise("RC-7")
@pytest.mark.parametrize(
    ("method", "path", "body", "field", "told"),
    [
        ("GET", "/v1/memories", b"limit=3", "body", "takes no body"),
        ("GET", "/v1/memories", b'{"limit": 3}', "limit", "takes no body"),
        ("GET", "/v1/memories", b"{" + b" " * 5_000 + b"}", "body", "takes no body"),
        ("GET", "/v1/memories/m", b'{"bogus": null}', "bogus", "takes no body"),
        ("DELETE", "/v1/memories/m", b'{"memory_id": "m"}', "memory_id", "stands in the path"),
        ("POST", "/v1/memories/m/restore?memory_id=m", b"", "memory_id", "stands in the path"),
    ],
)
async def test_a_refusal_of_a_place_leads_to_the_right_one(
    site: Site, method: str, path: str, body: bytes, field: str, told: str
) -> None:
    status, answer = await site.ask(method, path, body, content_type="text/plain")
    assert (status, json.loads(answer)["field"]) == (400, field)
    assert told in json.loads(answer)["error"]


async def test_a_body_that_is_not_taken_is_not_awaited(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "DISCARD_S", 0.1)
    begun = {"content-length": str(limits.BODY_BYTES), "content_type": JSON}
    status, answer = await site.ask("GET", "/v1/memories", b" " * 10_000, **begun)
    assert (status, json.loads(answer)["field"]) == (400, "body")


@pytest.mark.promise("AG-7")
async def test_null_where_parameters_are_not_read_means_not_given(rest: Rest, workers: WorkerSide) -> None:
    nothing = {"include_untrusted": None, "memory_id": None}
    assert (await rest.http.request("GET", "/v1/memories/m", json=nothing)).status_code == 200
    assert (await rest.http.post("/v1/memories?speaker=", json={"content": "x"})).status_code == 200
    assert len(workers.seen) == 2


@pytest.mark.promise("RC-7")
@pytest.mark.parametrize("name", ["\ud800", "k" * 4_000, " "])
async def test_a_name_that_no_text_may_hold_is_described(site: Site, name: str) -> None:
    quoted = quote(name.encode(errors="surrogatepass"))
    given = json.dumps({name: 1}).encode()
    call = {"name": "store_memory", "arguments": {"content": "x", name: 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    _, answer = await site.post(json.dumps(message).encode(), ERAS[0])
    told = [answer["result"]["structuredContent"]]
    for method, path, body in (
        ("GET", "/v1/memories/abc", given),
        ("POST", f"/v1/memories?{quoted}=1", b""),
        ("GET", f"/v1/memories?{quoted}=1&{quoted}=2", b""),
        ("POST", "/v1/memories", json.dumps({"content": "x", name: 1}).encode()),
    ):
        status, text = await site.ask(method, path, body, content_type=JSON)
        assert status == 400, path
        told.append(json.loads(text))
    read = name.encode(errors="surrogatepass").decode(errors="surrogateescape")  # as a query is
    assert {each["status"] for each in told} == {"invalid_parameter"}
    assert {each["field"] for each in told} == {describe_value(name), describe_value(read)}


@pytest.mark.promise("RC-7")
async def test_replies_are_whole_unless_less_is_asked_for(rest: Rest, workers: WorkerSide) -> None:
    long = a_memory(content="word " * 8_000, score=0.5)
    workers.script[SearchMemories] = lambda _c, _e: MemoryList(memories=[long], count=1)
    (whole,) = (await rest.call("search_memories", {"query": "x"})).json()["memories"]
    assert (whole["content"], whole["created_by"]) == (long.content, "I/O")
    asked = {"query": "x", "detail": "brief", "max_chars": 1_000}
    short = await rest.call("search_memories", asked)
    assert len(short.text) <= 1_000
    assert "created_by" not in short.json()["memories"][0]


BAD_BODIES: list[tuple[bytes, dict[str, str], int, str]] = [
    (b"{", {}, 400, "body"),
    (b"[]", {}, 400, "body"),
    (b'"x"', {}, 400, "body"),
    (b'{"content": "\xff"}', {}, 400, "body"),
    (b'\xef\xbb\xbf{"content": "x"}', {}, 400, "body"),
    (b'{"content": ' + b"[" * 100_000, {}, 400, "body"),
    (b'{"content": "\\ud800"}', {}, 400, "content"),
    (b'{"content": NaN}', {}, 400, "content"),
    (b'{"content": "x", "confidence": NaN}', {}, 400, "confidence"),
    (b'{"content": "x", "bogus": 1}', {}, 400, "bogus"),
    (b'{"contents": "x"}', {}, 400, "content"),
    (b"", {}, 400, "content"),
    (b'{"content": "x"}', {"content_type": "text/plain"}, 415, "content-type"),
    (b'{"content": "x"}', {"content_type": ""}, 415, "content-type"),
    (b'{"content": "x"}', {"content_type": f"{JSON}; charset=utf-16"}, 415, "content-type"),
    (b"content=x", {"content_type": "application/x-www-form-urlencoded"}, 415, "content-type"),
    (b'{"content": "x"}', {"content_encoding": "gzip"}, 415, "content-encoding"),
]


@pytest.mark.promise("RC-7")
@pytest.mark.parametrize(("body", "headers", "status", "field"), BAD_BODIES)
async def test_a_body_that_cannot_be_used_is_refused_by_what_is_wrong(
    site: Site, workers: WorkerSide, body: bytes, headers: dict[str, str], status: int, field: str
) -> None:
    found, answer = await site.ask("POST", "/v1/memories", body, **{"content_type": JSON, **headers})
    assert (found, json.loads(answer)["field"]) == (status, field)
    assert json.loads(answer)["recovery"]
    assert workers.seen == []


async def test_a_body_in_other_words_of_the_same_type_is_taken(site: Site) -> None:
    kind = 'Application/JSON ; charset="UTF-8"'
    assert (await site.ask("POST", "/v1/memories", b'{"content": "x"}', content_type=kind))[0] == 200


@pytest.mark.promise("RC-7")
async def test_a_body_that_is_too_large_is_413_however_it_comes(site: Site, workers: WorkerSide) -> None:
    body = b'{"content": "' + b"x" * limits.BODY_BYTES + b'"}'
    assert (await site.ask("POST", "/v1/memories", body, content_type=JSON))[0] == 413
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    chunked = {"content_type": JSON, "content-length": "", "transfer_encoding": "chunked"}
    status, answer = await site.ask("POST", "/v1/memories", chunk, **chunked)
    assert (status, json.loads(answer)["field"]) == (413, "body")
    assert workers.seen == []


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/memories?limit=7&limit=8", "limit"),
        ("/v1/memories?limit=many", "limit"),
        ("/v1/memories?bogus=1", "bogus"),
        ("/v1/memories?thread=%ff", "thread"),
        ("/v1/memories?thread=%00", "thread"),
        ("/v1/memories/m?memory_id=n", "memory_id"),
        ("/v1/memories/%ff", "memory_id"),
        ("/v1/memories/%20", "memory_id"),
        ("/v1/memories?" + "&".join("tags=x" for _ in range(1_001)), "query"),
    ],
)
async def test_a_query_or_path_that_cannot_be_used_is_refused_by_name(site: Site, path: str, field: str) -> None:
    status, answer = await site.ask("GET", path)
    assert (status, json.loads(answer)["field"]) == (400, field)


async def test_a_parameter_of_a_body_is_not_taken_from_the_query(site: Site, workers: WorkerSide) -> None:
    status, answer = await site.ask("POST", "/v1/memories?content=x", b'{"content": "x"}', content_type=JSON)
    assert (status, json.loads(answer)["field"], workers.seen) == (400, "content", [])


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nothing", "/v1/memories/", "/v1/memories/a/b/c", "/v1//memories"])
async def test_an_unknown_path_is_404_and_says_where_paths_are_listed(site: Site, path: str) -> None:
    status, answer = await site.ask("GET", path)
    assert (status, "/v1/openapi.json" in json.loads(answer)["recovery"]) == (404, True)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/memories", "POST, GET, HEAD, OPTIONS"),
        ("GET", "/v1/memories/search", "POST, OPTIONS"),
        ("TRACE", "/v1/memories/m", "GET, PATCH, DELETE, HEAD, OPTIONS"),
        ("POST", "/v1/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
async def test_another_method_is_405_with_those_that_there_are(
    site: Site, workers: WorkerSide, method: str, path: str, allowed: str
) -> None:
    status, headers, _ = await site.exchange(method, path)
    assert (status, headers["allow"]) == (405, allowed)
    status, headers, body = await site.exchange("OPTIONS", path)
    assert (status, headers["allow"], body, workers.seen) == (204, allowed, b"", [])


async def test_head_is_a_get_without_its_body(site: Site) -> None:
    status, headers, body = await site.exchange("HEAD", "/v1/stats")
    assert (status, headers["content-type"], body) == (200, JSON, b"")
    assert int(headers["content-length"]) > 0


async def test_a_path_that_only_begins_like_ours_is_not_ours(site: Site) -> None:
    status, answer = await site.ask("GET", "/v10/memories")
    assert (status, answer) == (404, b"Not Found")


@pytest.mark.promise("RC-7")
async def test_the_document_is_served(site: Site) -> None:
    status, headers, body = await site.exchange("GET", "/v1/openapi.json")
    assert (status, headers["content-type"], json.loads(body)["openapi"]) == (200, JSON, "3.1.0")
