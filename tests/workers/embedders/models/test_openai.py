"""The adapter to servers that embed as OpenAI's does, and how long they ask to be left alone."""

import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import aclosing
from datetime import UTC, datetime

import anyio
import msgspec
import numpy as np
import pytest

from engramq.workers.embedders.batching import BatchingEmbedder
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable, InputRejected, Vectors
from engramq.workers.embedders.openai import Endpoint, OpenAiEmbedder, seconds_to_wait
from tests.workers.embedders.models.endpoint import DIMENSIONS, Answer, Request, Server, answer_to, serving, vector

KEY = "sk-very-secret"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as one:
        yield one


def unit(texts: list[str]) -> Vectors:
    rows = np.array([vector(text) for text in texts])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


async def failure_of(endpoint: Endpoint, texts: list[str]) -> EmbedderUnavailable:
    async with aclosing(OpenAiEmbedder(endpoint, key=KEY)) as embedder:
        with pytest.raises(EmbedderUnavailable) as caught:
            await embedder.embed(texts)
        return caught.value


async def test_texts_become_unit_vectors_and_the_dimension_is_learnt(server: Server) -> None:
    async with aclosing(OpenAiEmbedder(server.endpoint(), key=KEY)) as embedder:
        assert embedder.spec.dimensions == 0
        vectors = await embedder.embed(["a", "bbb"])
        assert embedder.spec.dimensions == DIMENSIONS
        assert (await embedder.embed([])).shape == (0, DIMENSIONS)
    np.testing.assert_allclose(vectors, unit(["a", "bbb"]), atol=1e-6)
    assert vectors.dtype == np.float32
    assert server.requests == [
        Request("/v1/embeddings", f"Bearer {KEY}", {"model": "m", "input": ["a", "bbb"], "encoding_format": "float"})
    ]


async def test_without_a_key_none_is_sent(server: Server) -> None:
    async with aclosing(OpenAiEmbedder(server.endpoint())) as embedder:
        await embedder.warm()
    assert [request.authorization for request in server.requests] == [""]


async def test_a_key_for_openai_is_not_shown_to_another_endpoint(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("ENGRAMQ_EMBEDDER_KEY", raising=False)
    async with aclosing(create_embedder("openai:m", server.endpoint().url)) as embedder:
        await embedder.warm()
    assert [request.authorization for request in server.requests] == [""]


async def test_many_texts_go_in_bounded_batches_and_come_back_in_order(server: Server) -> None:
    texts = ["x" * number for number in range(1, 201)]
    async with aclosing(OpenAiEmbedder(server.endpoint(concurrent=2))) as embedder:
        vectors = await embedder.embed(texts)
    np.testing.assert_allclose(vectors, unit(texts), atol=1e-6)
    assert sorted(len(request.body["input"]) for request in server.requests) == [8, 64, 64, 64]
    assert server.most_running <= 2


async def test_rows_out_of_order_are_put_back_by_their_index(server: Server) -> None:
    server.script = lambda request: answer_to(request.body["input"], reverse=True)
    async with aclosing(OpenAiEmbedder(server.endpoint())) as embedder:
        np.testing.assert_allclose(await embedder.embed(["a", "bb", "ccc"]), unit(["a", "bb", "ccc"]), atol=1e-6)


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_failures_that_pass_are_tried_again(server: Server, status: int) -> None:
    server.queued = [Answer(status=status), Answer(status=status, headers={"Retry-After": "0"})]
    async with aclosing(OpenAiEmbedder(server.endpoint())) as embedder:
        np.testing.assert_allclose(await embedder.embed(["a"]), unit(["a"]), atol=1e-6)
    assert len(server.requests) == 3


async def test_attempts_are_bounded(server: Server) -> None:
    server.script = lambda _: Answer(status=503)
    error = await failure_of(server.endpoint(attempts=3), ["a"])
    assert error.reason == "openai:m at 127.0.0.1: HTTP 503"
    assert len(server.requests) == 3


async def test_retry_after_is_obeyed(server: Server) -> None:
    server.queued = [Answer(status=429, headers={"Retry-After": "0.2"})]
    async with aclosing(OpenAiEmbedder(server.endpoint(backoff_s=0.0))) as embedder:
        began = anyio.current_time()
        await embedder.embed(["a"])
        assert anyio.current_time() - began >= 0.2


async def test_a_wait_that_is_too_long_is_handed_to_the_caller(server: Server) -> None:
    server.script = lambda _: Answer(status=429, headers={"Retry-After": "3600"})
    error = await failure_of(server.endpoint(), ["a"])
    assert error.retry_after_s == 3600.0
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, {"error": {"message": f"Incorrect key {KEY}", "code": "invalid_api_key"}}, " (invalid_api_key)"),
        (404, {"error": {"message": "no model", "type": "not_found"}}, " (not_found)"),
        (403, {"error": {"code": "no codes with blanks, which may quote"}}, ""),
        (302, {"detail": "elsewhere"}, ""),
    ],
)
async def test_failures_that_stay_are_told_at_once_without_the_servers_prose(
    server: Server, status: int, body: dict[str, object], code: str
) -> None:
    server.script = lambda _: Answer(status=status, body=msgspec.json.encode(body))
    error = await failure_of(server.endpoint(), ["my secret text"])
    assert error.reason == f"openai:m at 127.0.0.1: HTTP {status}{code}"
    assert len(server.requests) == 1


def malformed(*rows: object) -> bytes:
    return msgspec.json.encode({"data": rows})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not an embeddings list"),
        (b"<html>gateway</html>", "not an embeddings list"),
        (b'{"data": null}', "not an embeddings list"),
        (b'{"data": [{"index": 0, "embedding": ["x"]}]}', "not an embeddings list"),
        (malformed(), "other indexes than 0 to 1"),
        (malformed({"index": 0, "embedding": [1.0]}), "other indexes than 0 to 1"),
        (malformed(*[{"index": 0, "embedding": [1.0]}] * 2), "other indexes than 0 to 1"),
        (malformed(*[{"index": i, "embedding": []} for i in (0, 1)]), "some dimensions expected"),
        (malformed(*[{"index": i, "embedding": [1.0] * (i + 1)} for i in (0, 1)]), "1 dimensions expected, [1, 2]"),
        (malformed(*[{"index": i, "embedding": [0.0, 0.0]} for i in (0, 1)]), "without a direction"),
        (b'{"data": [{"index":0,"embedding":[1e999]},{"index":1,"embedding":[1]}]}', "not an embeddings list"),
    ],
)
async def test_malformed_answers_are_failures_not_vectors(server: Server, body: bytes, reason: str) -> None:
    server.script = lambda _: Answer(body=body)
    error = await failure_of(server.endpoint(), ["a", "b"])
    assert reason in error.reason


async def test_the_dimension_that_was_asked_for_is_sent_and_insisted_on(server: Server) -> None:
    error = await failure_of(server.endpoint(dimensions=512), ["a"])
    assert "vectors of 512 dimensions expected, [4] received" in error.reason
    assert server.requests[0].body["dimensions"] == 512


async def test_a_dimension_that_changes_under_way_is_a_failure(server: Server) -> None:
    async with aclosing(OpenAiEmbedder(server.endpoint())) as embedder:
        await embedder.warm()
        server.script = lambda _: Answer(body=malformed({"index": 0, "embedding": [1.0, 2.0]}))
        with pytest.raises(EmbedderUnavailable, match=r"4 dimensions expected, \[2\] received"):
            await embedder.embed(["a"])


async def test_a_server_that_is_too_slow_is_given_up(server: Server) -> None:
    release = threading.Event()
    server.script = lambda _: Answer(waits_for=release)
    try:
        error = await failure_of(server.endpoint(timeout_s=0.1, attempts=2), ["a"])
    finally:
        release.set()
    assert "no answer within 0.1 s" in error.reason or "Timeout" in error.reason
    assert len(server.requests) == 2


async def test_a_port_where_nobody_listens_is_a_failure() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else can take it
        endpoint = Endpoint(model="m", url=f"http://127.0.0.1:{held.getsockname()[1]}/v1", attempts=2, backoff_s=0.01)
        error = await failure_of(endpoint, ["a"])
    assert error.reason == "openai:m at 127.0.0.1: no connection: ConnectError"


async def test_one_failed_request_ends_the_others_of_its_call(server: Server) -> None:
    server.script = lambda request: (
        Answer(status=401) if "x" in request.body["input"] else answer_to(request.body["input"])
    )
    error = await failure_of(server.endpoint(texts_per_request=1, concurrent=2), ["x", *map(str, range(50))])
    assert "HTTP 401" in error.reason
    assert len(server.requests) < 10


async def test_a_text_over_the_models_limit_is_cut_until_it_fits(server: Server) -> None:
    def script(request: Request) -> Answer:
        texts = request.body["input"]
        return Answer(status=400) if max(map(len, texts)) > 3_000 else answer_to(texts)

    server.script = script
    async with BatchingEmbedder(OpenAiEmbedder(server.endpoint())) as embedder:
        vectors = await embedder.embed(["short", "w" * 20_000])
    np.testing.assert_allclose(vectors, unit(["short", "w" * 2_500]), atol=1e-6)


async def test_a_refusal_that_no_cut_mends_is_about_the_text(server: Server) -> None:
    server.script = lambda request: (
        answer_to(request.body["input"]) if request.body["input"] == ["warm"] else Answer(status=422)
    )
    assert isinstance(await failure_of(server.endpoint(), ["a"]), InputRejected)


async def test_a_refusal_of_everything_is_about_the_settings(server: Server) -> None:
    server.script = lambda _: Answer(status=400, body=b'{"error": {"code": "model_not_found"}}')
    error = await failure_of(server.endpoint(), ["a" * 20_000])
    assert type(error) is EmbedderUnavailable
    assert error.reason.endswith("HTTP 400 (model_not_found)")
    assert len(server.requests) == 2


async def test_blank_and_unencodable_texts_are_sent_in_a_form_that_the_api_takes(server: Server) -> None:
    async with aclosing(OpenAiEmbedder(server.endpoint())) as embedder:
        await embedder.embed(["", " \n", "\ud800", "ü"])
    assert server.requests[0].body["input"] == [".", ".", "?", "ü"]


async def test_the_key_stands_in_no_log_and_no_description(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server.queued = [Answer(status=500, body=KEY.encode()), Answer(status=401, body=KEY.encode())]
    embedder = create_embedder("openai:m", server.url, key=KEY)
    with pytest.raises(EmbedderUnavailable) as caught:
        await embedder.embed(["my secret text"])
    seen = caplog.text + repr(caught.value) + repr(embedder) + repr(embedder.spec) + repr(vars(embedder))
    await embedder.aclose()
    assert KEY not in seen
    assert "my secret text" not in seen


async def test_a_closed_embedder_says_so(server: Server) -> None:
    embedder = OpenAiEmbedder(server.endpoint())
    await embedder.aclose()
    await embedder.aclose()
    with pytest.raises(EmbedderUnavailable, match="closed"):
        await embedder.embed(["a"])


NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("7", 7.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("", None),
    ],
)
def test_both_forms_are_read_and_nonsense_is_ignored(value: str | None, expected: float | None) -> None:
    assert seconds_to_wait(value, NOON) == expected
