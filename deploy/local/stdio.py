"""`engramq stdio`: relays an MCP client's stdin and stdout to the resident gateway of the home, and survives it.

A small program, because every client starts one: standard library only, nothing heavy of it. It relays rather than
handing its streams over, so that when the gateway or the whole stack dies it can answer what was under way with an
error, bring the stack back, repeat the client's handshake and go on.
"""

import contextlib
import os
import select
import sys
import time

from engramq.deploy.local import settings
from engramq.deploy.local.conversation import RelayConversation, refusal
from engramq.deploy.local.gateway_connection import GatewayConnection, open_connection
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.hooks.projects import project_of
from engramq.deploy.local.hooks.repository import in_repository
from engramq.deploy.local.lines import LineBuffer
from engramq.schemas.command_line import ExitCode

_FOLDER = "folder"  # an option without a variable
# The same as of the command in deploy/cli/up.py, without click.
_OPTIONS = {
    "--namespace": settings.NAMESPACE,
    "--principal": settings.PRINCIPAL,
    "--tools": settings.TOOLS,
    "--project": settings.PROJECT,
    "--folder": _FOLDER,
}
# Any such text is a name that a setting may have.
_PLAIN_CHARS = 200

STDIN, STDOUT = 0, 1
# After a failure further requests are refused at once for this long, instead of each waiting for another one.
REST_S = 2.0
# After the client has closed stdin, its last requests may still be answered (they have 10 s themselves).
DRAIN_BOUND_S = 15.0
# Either direction stops being read while this much waits to be written.
BUFFER_BOUND = 1024 * 1024
OPEN_REQUESTS_BOUND = 4096
_CHUNK = 65_536
# Only the user can mend these: refused at the start.
_FINAL = frozenset({"bad_setting", "unsupported_platform", "other_settings", "home_unusable", "refused"})


class Relay:
    """One client's conversation, over as many connections as it takes."""

    def __init__(self, home: Home, environment: dict[str, str]) -> None:
        self._home = home
        self._environment = environment
        self._conversation = RelayConversation(f"stdio-{os.urandom(6).hex()}")
        self._gateway: GatewayConnection | None = None
        self._is_stopping = False
        self._client_lines = LineBuffer()
        self._to_gateway = bytearray()
        self._to_client = bytearray()
        self._drain_until = 0.0
        self._problem = ""
        self._retry_at = 0.0
        self._warned = False

    def run(self) -> None:
        """Relay until the client closes stdin (and has its last answers) or stdout.

        Raises DeployError when the stack cannot be used with these settings at all.
        """
        try:
            self._attach()
        except DeployError as error:
            if error.code in _FINAL:
                raise
            self._give_up(str(error))
        while not self._is_finished():
            self._turn()
        self._hang_up()

    def _is_finished(self) -> bool:
        if not self._drain_until:
            return False
        under_way = self._gateway is not None and (self._conversation.open_requests or self._to_gateway)
        return not (self._to_client or under_way) or time.monotonic() > self._drain_until

    def _turn(self) -> None:
        """Wait until something can be read or written, and do it."""
        connection = self._gateway
        readers: list[int] = [STDIN] if self._wants_requests() else []
        writers: list[int] = [STDOUT] if self._to_client else []
        gateway, hold = (connection.fileno(), connection.hold.channel.fileno()) if connection is not None else (-1, -1)
        if connection is not None:
            readers += [] if self._is_stopping else [hold]
            readers += [gateway] if len(self._to_client) < BUFFER_BOUND else []
            writers += [gateway] if self._to_gateway else []
        bound_s = max(0.0, self._drain_until - time.monotonic()) if self._drain_until else None
        readable, writable, _ = select.select(readers, writers, [], bound_s)
        if STDOUT in writable:
            self._write_to_client()
        # Before the gateway's end is seen, its reason must be known: was it stopped on purpose?
        if hold in readable:
            self._read_hold()
        elif gateway in readable:
            self._read_gateway()
        elif gateway in writable:
            self._write_to_gateway()
        if STDIN in readable:
            self._read_client()

    def _wants_requests(self) -> bool:
        # While the stack stops its gateway takes nothing new; what the client sends then starts it again.
        has_room = max(len(self._to_gateway), len(self._to_client)) < BUFFER_BOUND
        has_room = has_room and self._conversation.open_requests < OPEN_REQUESTS_BOUND
        return has_room and not self._drain_until and not self._is_stopping

    def _read_client(self) -> None:
        data = os.read(STDIN, _CHUNK)
        if not data:
            self._drain_until = time.monotonic() + DRAIN_BOUND_S
        for line in self._client_lines.feed(data) if data else self._client_lines.finish():
            if refused := refusal(line):
                self._to_client += refused
            elif line is not None and line.strip():
                self._take_request(line)
        self._send_at_once()

    def _take_request(self, line: bytes) -> None:
        if self._gateway is not None and self._conversation.falls_back(line):
            self._hang_up()
            self._to_client += b"".join(self._conversation.fail_open("The client went on with initialize."))
        if self._gateway is None and time.monotonic() >= self._retry_at:
            self._try_to_attach()
        self._conversation.note_sent(line)
        if self._gateway is None:
            self._to_client += b"".join(self._conversation.fail_all(self._problem))
        else:
            self._to_gateway += line

    def _write_to_client(self) -> None:
        # No more than what a pipe takes without blocking once it is writable.
        written = os.write(STDOUT, self._to_client[: select.PIPE_BUF])
        del self._to_client[:written]

    def _read_gateway(self) -> None:
        assert self._gateway is not None
        lines = self._gateway.receive()
        if lines is None:
            self._lose("engramq's gateway was interrupted.")
        else:
            self._pass_on(lines)

    def _write_to_gateway(self) -> None:
        assert self._gateway is not None
        sent = self._gateway.send(bytes(self._to_gateway[:_CHUNK]))
        if sent is None:
            self._lose("engramq's gateway was interrupted.")
        else:
            del self._to_gateway[:sent]

    def _send_at_once(self) -> None:
        # Spares a turn. If the gateway has gone, the next turn finds out, which looks for the reason first.
        if self._gateway is not None and self._to_gateway:
            del self._to_gateway[: self._gateway.send(bytes(self._to_gateway[:_CHUNK])) or 0]

    def _read_hold(self) -> None:
        assert self._gateway is not None
        event = self._gateway.hold.channel.receive(1.0)
        if event is None:
            self._lose("engramq's supervisor was interrupted.")
        elif event.get("event") == "stopping":
            self._is_stopping = True

    def _pass_on(self, lines: list[bytes]) -> None:
        for line in lines:
            self._conversation.note_received(line)
            self._to_client += line

    def _lose(self, reason: str) -> None:
        """The connection broke: answer open requests, and open another one unless the client has gone."""
        was_stopped = self._is_stopping
        self._hang_up()
        if was_stopped:
            # Somebody stopped the stack on purpose: idle clients leave it so, the next request starts it again.
            self._to_client += b"".join(self._conversation.fail_open("engramq's stack was stopped."))
            self._give_up("engramq's stack was stopped.")
            self._retry_at = 0.0
            return
        self._to_client += b"".join(self._conversation.fail_open(reason))
        if not self._drain_until or self._conversation.open_requests:
            self._try_to_attach()

    def _hang_up(self) -> None:
        if self._gateway is not None:
            self._gateway.close()
        self._gateway = None
        self._is_stopping = False
        self._to_gateway.clear()

    def _try_to_attach(self) -> None:
        # Answers that are due should not wait until the stack is back.
        while self._to_client and select.select([], [STDOUT], [], 0)[1]:
            self._write_to_client()
        try:
            self._attach()
        except DeployError as error:
            self._give_up(str(error))

    def _attach(self) -> None:
        self._gateway = open_connection(self._home, self._environment, self._conversation)
        self._pass_on(self._gateway.early)
        if (told := self._gateway.hold.other_values) and not self._warned:
            self._warned = True
            _say(f"engramq: {told}")

    def _give_up(self, problem: str) -> None:
        self._problem = problem
        self._retry_at = time.monotonic() + REST_S
        self._to_client += b"".join(self._conversation.fail_all(problem))
        _say(f"engramq: {problem}")


def main(arguments: list[str]) -> int:
    """Run the relay with the arguments after `stdio` and return its exit code."""
    given = _plain_options(arguments)
    if given is None:
        from engramq.deploy.cli.root import run  # noqa: PLC0415 - click takes 40 ms, spent on help and doubts alone

        return run(["stdio", *arguments])
    folder = given.pop(_FOLDER, "")
    return serve({**os.environ, **given}, folder)


def serve(environment: dict[str, str], folder: str = "") -> int:
    """Run the relay and return its exit code: not 0 when it is refused or interrupted. `folder`: see `_project`."""
    try:
        home = home_from(environment)
        Relay(home, {**environment, settings.PROJECT: _project(home, environment, folder)}).run()
    except DeployError as error:
        _say(f"engramq: {error}")
        return error.exit_code
    except BrokenPipeError:
        # The client has closed stdout. Python would complain once more while it flushes its own.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.DONE


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the client's log is on a full disk, or closed: its calls go on
        sys.stderr.write(f"{text}\n")


def _project(home: Home, environment: dict[str, str], folder: str) -> str:
    """Return the project that is named, else that of the repository that the client works in; "" outside of any.

    A client that starts its servers elsewhere says in which `folder` it works; `${...}`, not filled in, is none.
    """
    if named := environment.get(settings.PROJECT):
        return named
    with contextlib.suppress(OSError, ValueError):  # the folder is gone, or may not be looked at
        folder = folder if os.path.isdir(folder) else os.getcwd()  # noqa: PTH109, PTH112 - faster
        if not in_repository(folder):
            return ""
        try:
            namespace = environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE
            return project_of(home, namespace, folder)
        except DeployError as problem:
            _say(f"engramq: in no project, since {problem}")
    return ""


def _plain_options(arguments: list[str]) -> dict[str, str] | None:
    """Return the variables that the options stand for, or None when click has to help, to check or to complain."""
    given = {}
    remaining = list(arguments)
    while remaining:
        option, is_joined, value = remaining.pop(0).partition("=")
        if not is_joined:
            value = remaining.pop(0) if remaining else ""
        if option not in _OPTIONS or not _is_plain(value):
            return None
        given[_OPTIONS[option]] = value
    return given


def _is_plain(text: str) -> bool:
    # Neither another option nor one of the names that are engramq's own.
    printable = 0 < len(text.strip()) <= _PLAIN_CHARS and text.isascii() and text.isprintable()
    return printable and not text.startswith(("-", "engramq"))
