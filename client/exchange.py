"""A call as a conversation: what to send, when to wait, what the reply is. Knows neither sockets nor clocks that run.

`carry_out` is driven by `Memory` and `AsyncMemory`, which send what it yields and tell it what came.
"""

import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from engramq.client.call import Call, ReplyT, Request
from engramq.client.failures import NotReached, Refused, StillPending
from engramq.client.policy import REPEATED, Policy
from engramq.schemas.commands import CommandReport

_FIRST_LOOK_S: Final = 0.1  # after a write was answered as pending
_LAST_LOOK_S: Final = 2.0
_CAUGHT: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request, and wait for its answer so many seconds."""

    request: Request
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What came: `retry_after_s` is what the server asked for, 0 where it asked for nothing."""

    http_status: int
    body: bytes
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lost:
    """No answer came, and why."""

    why: str


Step = Send | Pause
Heard = Answer | Lost | None
Conversation = Generator[Step, Heard, ReplyT]
Clock = Callable[[], float]


def carry_out(call: Call[ReplyT], policy: Policy, now: Clock) -> Conversation[ReplyT]:
    """Carry a call out and return its reply; raises EngramqFailure.

    Every repetition of a write has the key of the first request, so that it is carried out once.
    """
    request = call.request(str(uuid.uuid4()))
    http_status, body = yield from _answered(request, policy, now)
    if http_status == 202:
        body = yield from _outcome(body["command_id"], policy, now)
        http_status = 200
    return call.reply(body, http_status)


def _answered(request: Request, policy: Policy, now: Clock) -> Conversation[tuple[int, dict[str, Any]]]:
    """Return status and body of the first answer that does not ask to be repeated, or of the last one there was."""
    until, attempt = now() + policy.call_s, 0
    while True:
        heard = yield Send(request, max(0.01, min(policy.request_s, until - now())))
        body = _decoded(heard) if isinstance(heard, Answer) else None
        if isinstance(heard, Answer) and body is not None and heard.http_status not in REPEATED:
            return heard.http_status, body
        asked_s = heard.retry_after_s if isinstance(heard, Answer) else 0.0
        wait_s = policy.wait_s(attempt, asked_s)
        if now() + wait_s >= until:
            if isinstance(heard, Answer) and body is not None:
                raise Refused(heard.http_status, body)
            raise NotReached(_why(heard), request.key)
        yield Pause(wait_s)
        attempt += 1


def _outcome(command_id: str, policy: Policy, now: Clock) -> Conversation[dict[str, Any]]:
    """Return what a write that was pending answered in the end."""
    until, wait_s = now() + policy.pending_s, _FIRST_LOOK_S
    look: Call[CommandReport] = Call("get_command", {"command_id": command_id})
    request = look.request("")
    while now() + wait_s < until:
        yield Pause(wait_s)
        http_status, body = yield from _answered(request, policy, now)
        report = look.reply(body, http_status)
        if report.reply is not None:
            return report.reply
        wait_s = min(_LAST_LOOK_S, wait_s * 2)
    raise StillPending(command_id)


def _decoded(answer: Answer) -> dict[str, Any] | None:
    """Return the object in an answer, None where it is no answer of ours: a proxy's page."""
    try:
        found = msgspec.json.decode(answer.body)
    except _CAUGHT:
        return None
    return found if isinstance(found, dict) and "status" in found else None


def _why(heard: Heard) -> str:
    if isinstance(heard, Lost):
        return f"The server cannot be reached: {heard.why}"
    status = heard.http_status if heard is not None else "nothing"
    return f"The server answered {status} with something that is no reply."
