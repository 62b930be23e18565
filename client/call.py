"""One call of a tool over REST: its request, its reply, and the methods that make calls."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import update_wrapper, wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from engramq.client.failures import EngramqFailure, Erased, Refused
from engramq.schemas.commands import TOOLS, replies_by_status

P = ParamSpec("P")
ReplyT = TypeVar("ReplyT")
_KEY = "idempotency_key"


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it is sent, as often as it takes. `key` is its idempotency key, None for a read."""

    method: str
    path: str
    query: Mapping[str, Any]
    body: bytes | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Call(Generic[ReplyT]):
    """One call of the tool of this name, with its arguments; None among them means: not given."""

    name: str
    given: Mapping[str, Any]

    def request(self, fresh_key: str) -> Request:
        """Return the request of this call; a write that was given no key has the fresh one."""
        tool = TOOLS[self.name]
        arguments = {name: _plain(value) for name, value in self.given.items() if value is not None}
        key = arguments.pop(_KEY, fresh_key) if tool.write else None
        path = tool.path
        for name in tool.in_path:
            path = path.replace(f"{{{name}}}", quote(str(arguments.pop(name)), safe=""))
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


class _Waits(Protocol):
    def _call(self, call: Call[ReplyT]) -> ReplyT: ...


class _Awaits(Protocol):
    async def _call(self, call: Call[ReplyT]) -> ReplyT: ...


class Waiting(Generic[P, ReplyT]):
    """A method that makes a call and returns its reply."""

    def __init__(self, make: Callable[P, Call[ReplyT]]) -> None:
        self._make = make
        update_wrapper(self, make)  # type: ignore[arg-type]  # for `help`

    def __get__(self, client: _Waits, _owner: type) -> Callable[P, ReplyT]:
        """Return the method of this client."""

        @wraps(self._make)
        def method(*args: P.args, **options: P.kwargs) -> ReplyT:
            return client._call(self._make(*args, **options))

        return method


class Awaiting(Generic[P, ReplyT]):
    """A method that makes a call; its reply is awaited."""

    def __init__(self, make: Callable[P, Call[ReplyT]]) -> None:
        self._make = make
        update_wrapper(self, make)  # type: ignore[arg-type]  # for `help`

    def __get__(self, client: _Awaits, _owner: type) -> Callable[P, Coroutine[Any, Any, ReplyT]]:
        """Return the method of this client."""

        @wraps(self._make)
        async def method(*args: P.args, **options: P.kwargs) -> ReplyT:
            return await client._call(self._make(*args, **options))

        return method


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


def _in_query(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
