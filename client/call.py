"""Build one REST call of a tool, and read its reply; the base of the clients' methods."""

from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import update_wrapper, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

import msgspec

from engramq.schemas.commands import TOOLS, replies_by_status

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")
_KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Request:
    """One request, sent again as often as needed. `key` is its idempotency key, None for a read."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: bytes | None
    key: str | None


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[ReplyT]):
    """One call of the tool of this name, with its arguments; None among them means: not given."""

    name: str
    given: Mapping[str, Any]

    def request(self, fresh_key: str) -> Request:
        """Return the request of this call; a write that was given no key has the fresh one.

        Raises Refused for an id that would lead to another path.
        """
        tool = TOOLS[self.name]
        arguments = {name: _plain(value) for name, value in self.given.items() if value is not None}
        key = arguments.pop(_KEY, fresh_key) if tool.write else None
        path = tool.path
        for name in tool.in_path:
            path = path.replace(f"{{{name}}}", _in_path(name, str(arguments.pop(name))))
        if tool.has_body:
            return Request(tool.method, path, {}, msgspec.json.encode(arguments), key)
        return Request(tool.method, path, {name: _in_query(value) for name, value in arguments.items()}, None, key)

    def reply(self, body: Mapping[str, Any], http_status: int) -> ReplyT:
        """Return the reply in a body; raises EngramqFailure when there is none."""
        status = body.get("status")
        shapes = replies_by_status(TOOLS[self.name])
        if not shapes and http_status in (200, 404) and "code" not in body and status != "error":
            return body  # type: ignore[return-value]  # such a tool's replies are dicts
        shape = shapes.get(str(status))
        if shape is not None:
            try:
                return msgspec.convert(body, shape)  # type: ignore[return-value]  # ReplyT is one of them
            except msgspec.ValidationError as problem:
                raise EngramqFailure(f"The reply is of another version than this client: {problem}") from None
        if status == "erased":
            raise Erased(body["id"])
        raise Refused(http_status, body)


# Calls one after another, each made of the reply to the one before; `converse` of a client makes them.
CallSequence = Generator[ClientCall[Any], Any, ReplyT]


class CallMethod(Generic[P, ReplyT]):
    """A method that makes a call: a `SyncClient` returns its reply, an `AsyncClient` what is awaited for it."""

    def __init__(self, make: Callable[P, ClientCall[ReplyT]]) -> None:
        self._make = make
        update_wrapper(self, make)  # type: ignore[arg-type]  # for `help`

    @overload
    def __get__(self, client: "SyncClient", _owner: type) -> Callable[P, ReplyT]: ...

    @overload
    def __get__(self, client: "AsyncClient", _owner: type) -> Callable[P, Coroutine[Any, Any, ReplyT]]: ...

    def __get__(self, client: "SyncClient | AsyncClient", _owner: type) -> Any:
        """Return the method of this client."""
        if isinstance(client, AsyncClient):

            @wraps(self._make)
            async def awaited(*args: P.args, **options: P.kwargs) -> ReplyT:
                return await client._call(self._make(*args, **options))

            return awaited

        @wraps(self._make)
        def method(*args: P.args, **options: P.kwargs) -> ReplyT:
            return client._call(self._make(*args, **options))

        return method


def at_once(work: Callable[P, ReplyT]) -> Callable[P, Coroutine[Any, Any, ReplyT]]:
    """Return an async form of `work`, which awaits nothing."""

    async def done(*args: P.args, **options: P.kwargs) -> ReplyT:
        return work(*args, **options)

    return done


def run_through(work: Coroutine[Any, Any, ReplyT]) -> ReplyT:
    """Run a coroutine that awaits only what `at_once` has made, without an event loop, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: ReplyT = end.value
        return result
    raise AssertionError("a client without await has awaited something")


class SyncClient:
    """Carries calls out and returns their replies."""

    def converse(self, calls: "CallSequence[ReplyT]") -> ReplyT:
        """Make the calls of a sequence: each `yield` of it gives the reply to its call, or raises the failure."""
        return run_through(_converse(calls, at_once(self._call)))

    def _call(self, call: ClientCall[ReplyT]) -> ReplyT:
        raise NotImplementedError


class AsyncClient:
    """Carries calls out; their replies are awaited."""

    async def converse(self, calls: "CallSequence[ReplyT]") -> ReplyT:
        """Make the calls of a sequence, as `SyncClient` does."""
        return await _converse(calls, self._call)

    async def _call(self, call: ClientCall[ReplyT]) -> ReplyT:
        raise NotImplementedError


async def _converse(calls: "CallSequence[ReplyT]", answered: Callable[[ClientCall[Any]], Awaitable[Any]]) -> ReplyT:
    resume: Callable[[Any], ClientCall[Any]] = calls.send
    answer: Any = None
    while True:
        try:
            call = resume(answer)
        except StopIteration as end:
            result: ReplyT = end.value
            return result
        try:
            resume, answer = calls.send, await answered(call)
        except EngramqFailure as problem:
            resume, answer = calls.throw, problem


def takes_what(_make: Callable[P, Any]) -> Callable[[Callable[..., ReplyT]], Callable[Concatenate[Any, P], ReplyT]]:
    """Declare that a method takes the arguments of this call."""
    return lambda method: method


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; a time without a zone is this machine's."""
    match value:
        case datetime():
            return value.astimezone().isoformat()
        case date():
            return value.isoformat()
        case set() | frozenset():
            return sorted(value)
    return value


def _in_path(name: str, value: str) -> str:
    """Return an id as a part of a path; one that means another folder, quoted too, is refused as a server would."""
    if value.strip() in ("", ".", ".."):
        error = f"{name} must be an id, not {value!r}."
        raise Refused(400, {"status": "invalid_parameter", "code": "invalid_parameter", "field": name, "error": error})
    return quote(value, safe="")


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


class EngramqFailure(Exception):
    """A call without a reply; one of the four below."""


class Refused(EngramqFailure):
    """The server refused the call, and nothing has happened.

    `code` is a word of the contract ("" when the server refused before the operation, as for a bad token). `message`
    says what is wrong, `recovery` what to do, `field` names the parameter; `http_status` and `body` are as they came.
    """

    def __init__(self, http_status: int, body: Mapping[str, Any]) -> None:
        self.http_status = http_status
        self.body = body
        self.code: str = body.get("code", "")
        self.message: str = body.get("error", f"The server answered {http_status}.")
        self.recovery: str = body.get("recovery", "")
        self.field: str | None = body.get("field")
        super().__init__(" ".join(filter(None, (self.message, self.recovery))))


class NotReached(EngramqFailure):
    """No usable answer came within the time of a call, however often it was repeated.

    A write may have been carried out: made again with `idempotency_key`, it is not carried out twice.
    """

    def __init__(self, why: str, idempotency_key: str | None) -> None:
        self.idempotency_key = idempotency_key
        super().__init__(why)


class StillPending(EngramqFailure):
    """A write is queued and not yet carried out; `get_command(command_id)` tells what becomes of it."""

    def __init__(self, command_id: str) -> None:
        self.command_id = command_id
        super().__init__(f"Command {command_id} is still under way.")


class Erased(EngramqFailure):
    """A write was repeated whose memory has been erased since; `memory_id` was its id."""

    def __init__(self, memory_id: str) -> None:
        self.memory_id = memory_id
        super().__init__(f"Memory {memory_id} was erased after it had been written.")
