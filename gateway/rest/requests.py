"""Find the tool that a request of REST means, and its arguments: in path, query, headers and body."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.datastructures import Headers
from starlette.types import Receive

from engramq.gateway.mcp.arguments import field_named, parameters_of
from engramq.gateway.router import CallerLeft
from engramq.schemas import limits
from engramq.schemas.codec import DecodeError, decode_json
from engramq.schemas.command_line import SMALLER
from engramq.schemas.commands import TOOLS, Tool
from engramq.schemas.faults import EngramqError, invalid

MISSING: Final = frozenset({"not_found"})  # statuses that HTTP says as 404; `unknown` of a command is an answer

_Shape = tuple[str | None, ...]  # a path's segments, None for a parameter


@dataclass(frozen=True, slots=True)
class PathMatch:
    """The tools of a path by method, and what stands in the places of its parameters, in their order."""

    tools: Mapping[str, Tool]
    values: tuple[str, ...]

    @property
    def methods(self) -> str:
        """The methods of an Allow header."""
        methods = [*self.tools, *(["HEAD"] if "GET" in self.tools else []), "OPTIONS"]
        return ", ".join(methods)


def _shape(path: str) -> _Shape:
    return tuple(None if part.startswith("{") else part for part in path.strip("/").split("/"))


def _by_shape(tools: Iterable[Tool]) -> Mapping[_Shape, Mapping[str, Tool]]:
    by_shape: dict[_Shape, dict[str, Tool]] = {}
    for tool in tools:
        by_shape.setdefault(_shape(tool.path), {})[tool.method] = tool
    # Words before parameters: /memories/search is no memory.
    return dict(sorted(by_shape.items(), key=lambda item: item[0].count(None)))


_SHAPES: Final = _by_shape(TOOLS.values())


def match(raw_path: bytes) -> PathMatch | None:
    """Return what a path as it was sent means, None when nothing is there.

    It is cut at its slashes before escapes are read, so that an escaped slash belongs to its segment.
    """
    given = raw_path.removeprefix(b"/").split(b"/")
    # A byte that is no UTF-8 becomes half a surrogate pair, which the check of the parameter refuses by its name.
    parts = [unquote_to_bytes(part).decode(errors="surrogateescape") for part in given]
    for shape, tools in _SHAPES.items():
        pairs = list(zip(shape, parts, strict=False))
        if len(shape) == len(parts) and all(word in (None, part) for word, part in pairs):
            values = tuple(part for word, part in pairs if word is None)
            return PathMatch(tools, values) if all(values) else None
    return None


IDEMPOTENCY_HEADER: Final = "idempotency-key"
KEY: Final = "idempotency_key"
_JSON: Final = "application/json"
_QUERY_FIELDS: Final = 1_000
_UNWANTED_BYTES: Final = 4_096  # are read of a body where none is taken: it may name parameters that mean: not given


class WrongRequest(Exception):
    """A request that is refused for its form, by another status than 400."""

    def __init__(self, status: int, field: str, error: str, recovery: str) -> None:
        super().__init__(error)
        self.status = status
        self.fault = invalid(field, error, recovery).fault


def _refuse_place(field: str, place: str, other: str) -> EngramqError:
    return invalid(field, f"This operation takes no {place}.", f"Give parameters in the {other}.")


_NO_QUERY: Final = partial(_refuse_place, place="query", other="JSON body")
_NO_BODY: Final = partial(_refuse_place, place="body", other="query")


async def arguments_of(
    tool: Tool, values: Sequence[str], query: bytes, headers: Headers, receive: Receive
) -> dict[str, Any]:
    """Return the arguments of a call, checked only for their place.

    Raises WrongRequest or EngramqError when they cannot be read, and CallerLeft.
    """
    asked, parameters = _read_query(tool, query), parameters_of(tool)
    if tool.has_body:
        asked, elsewhere = await _read_body(receive, headers), asked
    else:
        elsewhere = await _read_unwanted(receive)
    for name, value in zip(tool.in_path, values, strict=True):
        if any(name in given and parameters[name].is_said(given[name]) for given in (asked, elsewhere)):
            raise invalid(name, f"{name} stands in the path.", f"Leave {name} out elsewhere.")
        asked[name] = value
    for name, value in elsewhere.items():
        if name not in tool.in_path and (name not in parameters or parameters[name].is_said(value)):
            raise _NO_QUERY(field_named(name)) if tool.has_body else _NO_BODY(field_named(name))
    if tool.write:
        _take_key(tool, asked, headers)
    return asked


def _read_query(tool: Tool, query: bytes) -> dict[str, Any]:
    """Return the parameters of a query; a list has its name once for each item."""
    parameters = parameters_of(tool)
    found: dict[str, Any] = {}
    try:
        pairs = parse_qsl(
            query.decode("ascii", "surrogateescape"),
            keep_blank_values=True,
            errors="surrogateescape",
            max_num_fields=_QUERY_FIELDS,
        )
    except ValueError:
        raise invalid("query", f"The query has more than {_QUERY_FIELDS} fields.", "Give fewer.") from None
    for name, value in pairs:
        if name in parameters and parameters[name].schema["type"] == "array":
            found.setdefault(name, []).append(value)
        elif name in found:
            field = field_named(name)
            raise invalid(field, f"{field} stands in the query twice.", f"Give {field} once.")
        else:
            found[name] = value
    # A single item is read as in other doors: it may be a list as JSON text, or mean: not given.
    return {name: value[0] if isinstance(value, list) and len(value) == 1 else value for name, value in found.items()}


async def _body(receive: Receive, most: int) -> bytes | None:
    """Return a body, None for one of more bytes than so many; raises CallerLeft."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise CallerLeft
        size += len(message.get("body", b""))
        if size > most:
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _read_unwanted(receive: Receive) -> dict[str, Any]:
    """Return the object in a body of any type where none is taken; what else it holds is refused."""
    body = await _body(receive, _UNWANTED_BYTES)
    try:
        found = {} if body == b"" else decode_json(body or b"")
    except (DecodeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _NO_BODY("body")
    return found


async def _read_body(receive: Receive, headers: Headers) -> dict[str, Any]:
    """Return the object in a body; an empty one is an object without members."""
    body = await _body(receive, limits.BODY_BYTES)
    if body is None:
        raise WrongRequest(413, "body", f"A body may have at most {limits.BODY_BYTES} bytes.", SMALLER)
    if not body:
        return {}
    kind, _, more = headers.get("content-type", "").partition(";")
    charset = more.strip().lower()
    if kind.strip().lower() != _JSON or charset not in ("", "charset=utf-8", 'charset="utf-8"'):
        raise WrongRequest(
            415,
            "content-type",
            f"A body must be JSON in UTF-8, not {kind.strip()[:60] or 'of no type'}.",
            f"Send it with `Content-Type: {_JSON}`.",
        )
    if headers.get("content-encoding", "identity") != "identity":
        raise WrongRequest(415, "content-encoding", "A body must not be compressed.", "Send it as it is.")
    try:
        found = decode_json(body)
    except (DecodeError, ValueError, RecursionError):
        raise invalid("body", "The body is not JSON in UTF-8.", "Send one JSON object.") from None
    if not isinstance(found, dict):
        raise invalid("body", "The body must be a JSON object.", "Send one object with the parameters by name.")
    return found


def _take_key(tool: Tool, asked: dict[str, Any], headers: Headers) -> None:
    """Put the key of the header among the arguments."""
    sent = headers.getlist(IDEMPOTENCY_HEADER)
    # Bytes that are no UTF-8 are refused by name, as in a path.
    keys = list(dict.fromkeys(key.encode("latin-1").decode(errors="surrogateescape") for key in sent))
    if not keys:
        return
    differs = parameters_of(tool)[KEY].is_said(asked.get(KEY)) and asked[KEY] not in keys
    if len(keys) > 1 or differs:
        raise invalid(KEY, "Two different idempotency keys were given.", "Give one Idempotency-Key header.")
    asked[KEY] = keys[0]
