"""Fetch embeddings from any endpoint that speaks OpenAI's API: OpenAI, Ollama, vLLM, TEI.

Knows: `POST {url}/embeddings`, which failures pass by themselves, and how long to wait for them. Refuses to know:
queues, caches, the store. Implements `interface.Embedder`. The key travels in a header and nowhere else; reasons of
failures never quote the server's prose, which may echo a text or a piece of the key.
"""

import math
import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import anyio
import httpx
import msgspec
import numpy as np

from engramq.workers.embedders.interface import (
    BatchLimits,
    Embedder,
    EmbedderSpec,
    EmbedderUnavailable,
    InputRejected,
    Vectors,
)


def seconds_to_wait(value: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds from `now` that the header asks for, never negative; None where it says nothing readable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _until(value, now or datetime.now(UTC))
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _until(value: str, now: datetime) -> float:
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return math.nan
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds()


DEFAULT_URL = "https://api.openai.com/v1"
# What OpenAI's own models read. Other servers cut or refuse longer texts themselves.
_MAX_TOKENS = 8_191
# A refused text longer than this is tried again by half: it was most likely over the model's limit.
_SURELY_SHORT_ENOUGH = 1_000
_REFUSED_INPUT = frozenset({400, 413, 422})
_PROBE = "warm"
# The API refuses empty input, while a text without words must still get some vector.
_FOR_BLANK = "."
_ERROR_CODE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how to ask. `dimensions` 0 takes what the model gives; otherwise it is asked for and insisted on.

    One attempt may take `timeout_s`; between `attempts` it waits `backoff_s`, doubled each time, with jitter, or what
    the server's Retry-After says, up to `longest_wait_s`.
    """

    model: str
    url: str = DEFAULT_URL
    dimensions: int = 0
    texts_per_request: int = 64
    concurrent: int = 4
    timeout_s: float = 30.0
    attempts: int = 4
    backoff_s: float = 0.5
    longest_wait_s: float = 20.0


class _EmbeddingItem(msgspec.Struct):
    index: int
    embedding: list[float]


class _EmbeddingList(msgspec.Struct):
    data: list[_EmbeddingItem]


class _ErrorBody(msgspec.Struct):
    code: str | int | None = None
    type: str | None = None


class _ErrorAnswer(msgspec.Struct):
    error: _ErrorBody


class _PassingError(EmbedderUnavailable):
    """This attempt failed in a way that the next may not; `retry_after_s` is the server's own wish."""


class OpenAiEmbedder(Embedder):
    """Ask the endpoint, at most `concurrent` requests at once; the dimension is learnt from the first answer."""

    def __init__(self, endpoint: Endpoint, *, key: str = "") -> None:
        self._endpoint = endpoint
        self._dimensions = endpoint.dimensions
        # Once true, a refusal is about the texts and not about the model's name, the key or the dimension.
        self._has_answered = False
        self._closed = False
        self._limiter = anyio.CapacityLimiter(endpoint.concurrent)
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(endpoint.timeout_s, connect=min(5.0, endpoint.timeout_s)),
            limits=httpx.Limits(max_connections=endpoint.concurrent, max_keepalive_connections=endpoint.concurrent),
        )

    @property
    def spec(self) -> EmbedderSpec:
        suffix = f"@{self._endpoint.dimensions}" if self._endpoint.dimensions else ""
        return EmbedderSpec(
            name=f"openai:{self._endpoint.model}{suffix}",
            dimensions=self._dimensions,
            max_tokens=_MAX_TOKENS,
            batches=BatchLimits(
                texts=self._endpoint.texts_per_request, characters=200_000, concurrent=self._endpoint.concurrent
            ),
        )

    async def embed(self, texts: Sequence[str], *, questions: bool = False) -> Vectors:  # noqa: ARG002 - all alike
        if self._closed:
            raise EmbedderUnavailable("the openai embedder is closed")
        size = self._endpoint.texts_per_request
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        answers: dict[int, Vectors] = {}
        failures: list[EmbedderUnavailable] = []

        async def ask(number: int) -> None:
            try:
                async with self._limiter:
                    answers[number] = await self._ask_shortening(parts[number])
            except EmbedderUnavailable as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for number in range(len(parts)):
                group.start_soon(ask, number)
        if failures:
            raise failures[0]
        if not answers:
            return np.empty((0, self._dimensions), dtype=np.float32)
        return np.concatenate([answers[number] for number in range(len(parts))])

    async def aclose(self) -> None:
        self._closed = True
        await self._client.aclose()

    async def _ask_shortening(self, texts: Sequence[str]) -> Vectors:
        """Ask; when one text alone is refused, ask again with its first half, until it fits or is short."""
        sent = [_sendable(text) for text in texts]
        while True:
            try:
                return await self._ask_patiently(sent)
            except InputRejected:
                if not self._has_answered:
                    await self._prove_configuration()
                if len(sent) > 1 or len(sent[0]) <= _SURELY_SHORT_ENOUGH:
                    raise
                sent = [sent[0][: len(sent[0]) // 2]]

    async def _prove_configuration(self) -> None:
        try:
            await self._ask_patiently([_PROBE])
        except InputRejected as error:
            raise EmbedderUnavailable(error.reason) from error

    async def _ask_patiently(self, texts: Sequence[str]) -> Vectors:
        for attempt in range(self._endpoint.attempts):
            try:
                with anyio.fail_after(self._endpoint.timeout_s):
                    return await self._ask_once(texts)
            except TimeoutError:
                passing = _PassingError(f"no answer within {self._endpoint.timeout_s:g} s")
            except httpx.RequestError as error:
                passing = _PassingError(f"no connection: {type(error).__name__}")
            except _PassingError as error:
                passing = error
            backoff = self._endpoint.backoff_s * 2**attempt * random.uniform(0.5, 1.5)  # noqa: S311 - jitter
            wait_s = backoff if passing.retry_after_s is None else passing.retry_after_s
            if attempt + 1 == self._endpoint.attempts or wait_s > self._endpoint.longest_wait_s:
                raise EmbedderUnavailable(self._describe(passing.reason), passing.retry_after_s) from passing
            await anyio.sleep(wait_s)
        raise EmbedderUnavailable(self._describe("no attempt is allowed"))

    async def _ask_once(self, texts: Sequence[str]) -> Vectors:
        body: dict[str, object] = {"model": self._endpoint.model, "input": texts, "encoding_format": "float"}
        if self._endpoint.dimensions:
            body["dimensions"] = self._endpoint.dimensions
        response = await self._client.post(f"{self._endpoint.url.rstrip('/')}/embeddings", json=body)
        if response.status_code == HTTPStatus.TOO_MANY_REQUESTS or response.is_server_error:
            reason = f"HTTP {response.status_code}{_error_code(response.content)}"
            raise _PassingError(reason, seconds_to_wait(response.headers.get("Retry-After")))
        if response.status_code in _REFUSED_INPUT:
            reason = self._describe(f"HTTP {response.status_code}{_error_code(response.content)}")
            raise InputRejected(reason)
        if not response.is_success:
            raise EmbedderUnavailable(self._describe(f"HTTP {response.status_code}{_error_code(response.content)}"))
        return self._read(response.content, len(texts))

    def _read(self, content: bytes, expected: int) -> Vectors:
        try:
            rows = sorted(msgspec.json.decode(content, type=_EmbeddingList).data, key=lambda row: row.index)
        except msgspec.DecodeError as error:
            raise EmbedderUnavailable(self._describe("the answer is not an embeddings list")) from error
        if [row.index for row in rows] != list(range(expected)):
            raise EmbedderUnavailable(self._describe(f"the answer has other indexes than 0 to {expected - 1}"))
        wanted = self._dimensions or len(rows[0].embedding)
        if wanted == 0 or any(len(row.embedding) != wanted for row in rows):
            found = sorted({len(row.embedding) for row in rows})
            raise EmbedderUnavailable(
                self._describe(f"vectors of {wanted or 'some'} dimensions expected, {found} received")
            )
        vectors = np.array([row.embedding for row in rows], dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise EmbedderUnavailable(self._describe("the answer holds a vector without a direction"))
        self._dimensions, self._has_answered = wanted, True
        unit: Vectors = (vectors / lengths).astype(np.float32)
        return unit

    def _describe(self, what: str) -> str:
        return f"{self.spec.name} at {httpx.URL(self._endpoint.url).host}: {what}"


def _sendable(text: str) -> str:
    """Replace lone surrogates, which JSON in UTF-8 cannot carry, and blank text."""
    return (text.encode("utf-8", "replace").decode() if not text.isascii() else text) if text.strip() else _FOR_BLANK


def _error_code(content: bytes) -> str:
    """The machine-readable part of an error, such as " (invalid_api_key)", else ""."""
    try:
        error = msgspec.json.decode(content, type=_ErrorAnswer).error
    except msgspec.DecodeError:
        return ""
    code = str(error.code or error.type or "")
    return f" ({code})" if _ERROR_CODE.fullmatch(code) else ""
