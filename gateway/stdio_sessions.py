"""Serve stdio sessions on a unix socket: each connection says whom it serves, then speaks MCP in lines.

The hello is one JSON line, `{"engramq": 1, ...}` (see Hello), answered by `{"ok": true}` or `{"ok": false, "error"}`.
Or it is a request of the home's supervisor, answered by one line (see HomeRequest).
Only this user can open the socket, so what the hello says is trusted.
"""

import logging
import os
import socket
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import anyio
import msgspec
from anyio import CancelScope
from anyio.abc import ByteReceiveStream, SocketAttribute, SocketListener, SocketStream, TaskStatus
from anyio.streams.buffered import BufferedByteReceiveStream
from msgspec import UNSET, UnsetType

from engramq.schemas import limits
from engramq.schemas.fields import Name, SessionName
from engramq.schemas.settings import SettingsError, parse_setting

log = logging.getLogger(__name__)

STEP_BYTES: Final = 65_536
END_BYTES: Final = 300  # of a line that is too long, at either end
ENDED: Final = (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
HELLO_BYTES: Final = 16_384
HELLO_S: Final = 10.0
HUNG_UP: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError)


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end. `head` is all of it, unless it is longer than the bound; `size` is its true length."""

    head: bytes
    size: int
    tail: bytes


class BoundedLineReader:
    """Reads lines, keeping about `bound` bytes of each; of a longer one the beginning and the end.

    anyio's buffered stream finds them; what it lacks is the way on after a line that is too long. We let that pass in
    steps and keep its size and both ends: its sender hears the size, and finds its request by the id at either end.
    """

    def __init__(self, stream: ByteReceiveStream, bound: int) -> None:
        self._stream = BufferedByteReceiveStream(stream)
        self._bound = bound
        self._has_ended = False

    async def lines(self) -> AsyncGenerator[Line]:
        """Yield each line that is not blank until the stream ends; what follows the last line end is a line too."""
        while not self._has_ended:
            try:
                text = await self._until_line_end(self._bound + 1)
                line = Line(text[: self._bound], len(text), text[-END_BYTES:])
            except anyio.DelimiterNotFound:
                line = await self._let_pass()
            if line.head.strip():
                yield line

    async def _until_line_end(self, bound: int) -> bytes:
        """Return the rest of a line; raises DelimiterNotFound, all left in the buffer, if it does not end so soon."""
        try:
            return await self._stream.receive_until(b"\n", bound)
        except ENDED:
            self._has_ended = True
            return self._stream.buffer

    async def _let_pass(self) -> Line:
        """Return the line that the buffer begins with and that is too long."""
        head, size, tail = self._stream.buffer[:END_BYTES], 0, b""
        while True:
            try:
                rest = await self._until_line_end(STEP_BYTES)
            except anyio.DelimiterNotFound:
                passed = await self._stream.receive(STEP_BYTES)
                size, tail = size + len(passed), passed[-END_BYTES:]
            else:
                return Line(head, size + len(rest), (tail + rest)[-END_BYTES:])


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a stdio session serves, which tools it shows, and how it is answered.

    `session` and `project` are the front's own, which its calls are in unless they name another. `detail` and
    `reply_chars` are as in the settings; empty: the gateway's. `untrusted`: the front brings what nobody has vouched
    for, as hooks do, and may do no more than a token made with --untrusted; secrets are taken out of what it stores.
    `acts_for`: of such a front, whose session it is in. `actor`: in whose name it reclassifies edges; "": in its own.
    """

    engramq: Literal[1]
    namespace: str
    principal: str
    tools: Name = "everyday"
    output_schemas: bool = False
    session: SessionName | Literal[""] = ""
    project: str = ""
    detail: str = ""
    reply_chars: str = ""
    untrusted: bool = False
    acts_for: str = ""
    actor: str = ""


class HomeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of a home to its gateway: `health`, or to serve HTTP with these variables; null: to serve none.

    For example `{"engramq": 1, "http": {"ENGRAMQ_PORT": "8765"}}`.
    """

    engramq: Literal[1]
    health: Literal[True] | UnsetType = UNSET
    http: dict[str, str] | UnsetType | None = UNSET


LineStream = AsyncGenerator[Line]
Send = Callable[[bytes], Awaitable[None]]
Serve = Callable[[LineStream, Send], Awaitable[None]]
OpenSession = Callable[[Hello], Serve]
AnswerHome = Callable[[HomeRequest], Awaitable[object]]


async def listen(path: Path) -> SocketListener:
    """Return a listener on a unix socket that only this user can open; a socket whose gateway has gone is replaced.

    Raises SettingsError when the folder is open to others, the path too long, or another gateway serves it.
    """
    await anyio.to_thread.run_sync(_make_way, path)
    try:
        return await anyio.create_unix_listener(path, mode=0o600)
    except OSError as problem:
        raise SettingsError(f"--socket: {path} cannot be served: {problem.strerror or problem}") from None


def _make_way(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder = path.parent.stat()
    if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o077:
        raise SettingsError(f"--socket: {path.parent} must be a folder of your own that is closed to others (0700).")
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.settimeout(1.0)
        probe.connect(str(path))
        raise SettingsError(f"--socket: another gateway serves {path}.")


async def serve_stdio_sessions(
    listener: SocketListener, open_session: OpenSession, stopping: anyio.Event, answer_home: AnswerHome
) -> None:
    """Serve every connection; what goes wrong on one ends that one only.

    Once `stopping` is set no more is accepted or read, and each connection ends when its last answer is sent.
    """
    streams: set[SocketStream] = set()

    async def serve(stream: SocketStream) -> None:
        streams.add(stream)
        try:
            async with stream:
                await _serve_stdio_session(stream, open_session, answer_home)
        except* HUNG_UP:
            log.debug("A stdio session hung up")
        except* Exception:  # other clients share this process
            log.exception("A stdio session failed")
        finally:
            streams.discard(stream)

    async def accept(task_status: TaskStatus[CancelScope]) -> None:
        with CancelScope() as accepting:
            task_status.started(accepting)
            async with listener:
                await listener.serve(serve, tasks)

    async with anyio.create_task_group() as tasks:
        accepting = await tasks.start(accept)
        await stopping.wait()
        accepting.cancel()
        for stream in streams:
            _stop_reading(stream)


def _stop_reading(stream: SocketStream) -> None:
    """End what is read from a stream as if its peer had closed its side; what is written to it still arrives."""
    descriptor = stream.extra(SocketAttribute.raw_socket).fileno()  # noqa: S610 - this is anyio, not Django
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as same:  # uvloop's own has no shutdown
        same.shutdown(socket.SHUT_RD)


async def _serve_stdio_session(stream: SocketStream, open_session: OpenSession, answer_home: AnswerHome) -> None:
    reader = BoundedLineReader(stream, limits.BODY_BYTES)
    async with aclosing(reader.lines()) as lines:
        with anyio.move_on_after(HELLO_S) as waiting:
            first = await anext(lines, None)
        if waiting.cancelled_caught or first is None:
            return
        if (request := _home_request(first)) is not None:
            await stream.send(msgspec.json.encode(await answer_home(request)) + b"\n")
            return
        try:
            session = open_session(_hello(first))
        except SettingsError as problem:
            await stream.send(_answer(ok=False, error=str(problem)))
            return
        await stream.send(_answer(ok=True))
        await session(lines, _sender(stream))


def _sender(stream: SocketStream) -> Send:
    """Return what sends in the same turn of the loop what the socket takes; anyio's own gives a turn away first."""
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - this is anyio, not Django

    async def send(message: bytes) -> None:
        try:
            sent = raw.send(message)
        except BlockingIOError:
            sent = 0
        if sent < len(message):
            await stream.send(message[sent:])

    return send


def _home_request(line: Line) -> HomeRequest | None:
    try:
        request = msgspec.json.decode(line.head, type=HomeRequest)
    except msgspec.DecodeError:
        return None
    return request if request.health or request.http is not UNSET else None


def _hello(line: Line) -> Hello:
    if line.size > HELLO_BYTES:
        raise SettingsError("The hello is too long.")
    try:
        hello = msgspec.json.decode(line.head, type=Hello)
    except msgspec.DecodeError as problem:
        raise SettingsError(f"This gateway does not understand the hello: {problem}.") from None
    parse_setting("namespace", hello.namespace)
    parse_setting("principal", hello.principal)
    parse_setting("project", hello.project)
    return hello


def _answer(**answer: bool | str) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
