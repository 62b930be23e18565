"""Carry a call out: send, repeat, wait; by the means of `Memory` or of `AsyncMemory`."""

import os
import random
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx
import msgspec

from engramq.client.call import ClientCall, NotReached, Refused, ReplyT, Request, StillPending
from engramq.schemas.commands import CommandReport

URL_VARIABLE: Final = "ENGRAMQ_URL"
TOKEN_VARIABLE: Final = "ENGRAMQ_TOKEN"  # noqa: S105 - the name of a variable
PORT_VARIABLE: Final = "ENGRAMQ_PORT"
_PORT: Final = "8765"  # of `engramq up`, as docs/settings.md has it
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
# The server could not, or a proxy could not reach it: nothing was applied, or a key keeps it from being applied twice.
_REPEATED: Final = frozenset({408, 429, 502, 503, 504})
_MOST_RETRY_S: Final = 3_600.0
_FIRST_LOOK_S: Final = 0.1  # after a write was answered as pending
_LAST_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long a call may take, and when it is repeated; bounds in seconds.

    `call_s` is of a call with all its repetitions, `request_s` of one request, `pending_s` of the wait for a write that
    the server answered as pending. Waits double from `first_wait_s` up to `longest_wait_s`, each a random part of that,
    so that many clients do not come back at once; never less than the server asked for.
    """

    call_s: float = 30.0
    request_s: float = 15.0
    connect_s: float = 5.0
    pending_s: float = 30.0
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    chance: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def wait_s(self, attempt: int, asked_s: float) -> float:
        """Return the wait after this attempt, from 0, at least what the server asked for."""
        most = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(attempt, 30))
        return asked_s + self.chance.uniform(most / 2, most)


def http_options(url: str | None, token: str | None, policy: Policy) -> dict[str, Any]:
    """Return the arguments of an httpx client for the server at `url`, else ENGRAMQ_URL, else this machine's.

    Raises ValueError for a URL that is none. The token goes to that server alone: no redirect is followed.
    """
    base = (url or os.environ.get(URL_VARIABLE) or f"http://127.0.0.1:{os.environ.get(PORT_VARIABLE) or _PORT}").strip()
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{base!r} is no http or https URL of a server.")
    secret = token or os.environ.get(TOKEN_VARIABLE)
    return {
        "base_url": base.rstrip("/").removesuffix("/mcp").removesuffix("/v1"),
        "headers": {"authorization": f"Bearer {secret}"} if secret else {},
        "timeout": httpx.Timeout(policy.request_s, connect=policy.connect_s),
        "follow_redirects": False,
        "trust_env": parts.hostname not in _LOOPBACK,  # no proxy stands before this machine
    }


def http_arguments(request: Request, timeout_s: float, policy: Policy) -> dict[str, Any]:
    """Return the arguments of httpx's `request`; its answer is waited for so many seconds."""
    headers = {} if request.key is None else {"idempotency-key": request.key.encode()}
    if request.body is not None:
        headers["content-type"] = b"application/json"
    timeout = httpx.Timeout(timeout_s, connect=min(policy.connect_s, timeout_s))
    given = {"method": request.method, "url": request.path, "content": request.body}
    return {**given, "params": request.query or None, "headers": headers, "timeout": timeout}


class Means(NamedTuple):
    """How a client sends a request, with the seconds that its answer may take, how it waits, and its clock."""

    send: Callable[[Request, float], Awaitable[httpx.Response]]
    pause: Callable[[float], Awaitable[None]]
    now: Callable[[], float]


async def carry_out(call: ClientCall[ReplyT], policy: Policy, means: Means) -> ReplyT:
    """Carry a call out and return its reply; raises EngramqFailure.

    Every repetition of a write has the key of the first request, so that it is carried out once.
    """
    http_status, body = await _ask_again(call.request(str(uuid.uuid4())), policy, means)
    if http_status == 202:
        http_status, body = 200, await _await_answer(body["command_id"], policy, means)
    return call.reply(body, http_status)


async def _ask_again(request: Request, policy: Policy, means: Means) -> tuple[int, dict[str, Any]]:
    """Return status and body of the first answer that does not ask to be repeated, or of the last one there was."""
    until, attempt = means.now() + policy.call_s, 0
    while True:
        response = body = None
        try:
            response = await means.send(request, max(0.01, min(policy.request_s, until - means.now())))
            body = _body_of(response)
            why = f"The server answered {response.status_code} with something that is no reply."
        except httpx.LocalProtocolError:
            raise  # a token or a key that no header can hold: it would be so again
        except httpx.TransportError as problem:
            why = f"The server cannot be reached: {str(problem) or type(problem).__name__}"
        if response is not None and body is not None and response.status_code not in _REPEATED:
            return response.status_code, body
        wait_s = policy.wait_s(attempt, _asked_wait_s(response))
        if means.now() + wait_s >= until:
            if response is None or body is None:
                raise NotReached(why, request.key)
            raise Refused(response.status_code, body)
        await means.pause(wait_s)
        attempt += 1


async def _await_answer(command_id: str, policy: Policy, means: Means) -> dict[str, Any]:
    """Return what a write that was pending answered in the end."""
    until, wait_s = means.now() + policy.pending_s, _FIRST_LOOK_S
    look: ClientCall[CommandReport] = ClientCall("get_command", {"command_id": command_id})
    while means.now() + wait_s < until:
        await means.pause(wait_s)
        http_status, body = await _ask_again(look.request(""), policy, means)
        report = look.reply(body, http_status)
        if report.reply is not None:
            return report.reply
        wait_s = min(_LAST_LOOK_S, wait_s * 2)
    raise StillPending(command_id)


def _body_of(response: httpx.Response) -> dict[str, Any] | None:
    """Return the object in an answer, None where it is no answer of ours: a proxy's page."""
    try:
        body = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return body if isinstance(body, dict) and "status" in body else None


def _asked_wait_s(response: httpx.Response | None) -> float:
    """Return how long the server asks to wait before another request."""
    text = "" if response is None else response.headers.get("retry-after", "")
    return min(float(text), _MOST_RETRY_S) if text.isascii() and text.isdigit() else 0.0
