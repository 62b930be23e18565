"""An operation of REST as the generated modules describe it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec

from engramq.client.failures import EngramqFailure, Erased, Refused

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
class Operation(Generic[ReplyT]):
    """One operation. `replies` are the Structs of its replies by their `status`; none where a reply stays a dict."""

    method: str
    path: str
    in_path: tuple[str, ...]
    write: bool
    replies: Mapping[str, type[Any]]

    def request(self, given: Mapping[str, Any], fresh_key: str) -> Request:
        """Return the request of a call with these arguments; None means: not given."""
        arguments = {name: _plain(value) for name, value in given.items() if value is not None}
        key = arguments.pop(_KEY, fresh_key) if self.write else None
        path = self.path
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", quote(str(arguments.pop(name)), safe=""))
        if self.method in ("GET", "DELETE"):
            return Request(self.method, path, {name: _in_query(value) for name, value in arguments.items()}, None, key)
        return Request(self.method, path, {}, msgspec.json.encode(arguments), key)

    def reply(self, body: Mapping[str, Any], http_status: int) -> ReplyT:
        """Return the reply in a body; raises EngramqFailure when there is none."""
        status = body.get("status")
        if not self.replies and http_status in (200, 404) and "code" not in body and status != "error":
            return body  # type: ignore[return-value]  # these operations are of dicts
        shape = self.replies.get(str(status))
        if shape is not None:
            try:
                return msgspec.convert(body, shape)  # type: ignore[no-any-return]
            except msgspec.ValidationError as problem:
                raise EngramqFailure(f"The reply is of another version than this client: {problem}") from None
        if status == "erased":
            raise Erased(body["id"])
        raise Refused(http_status, body)


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
