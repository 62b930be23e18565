"""Serve the supervisor's socket: a JSON object per line, either way. An open connection with a hold is that hold.

Requests: {"op": "lease", "kind", "pid", "settings", "http"}, then {"op": "release"} on the same connection;
{"op": "status", "brief"}; {"op": "stop"}. Answers have "ok". Holders of the stack also receive {"event": "stopping"}.
On the wire a hold is a `lease`: a supervisor of the former code may answer these requests.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path

from engramq.deploy.local import settings
from engramq.deploy.local.home import DeployError
from engramq.deploy.local.ownership import remove_leftover
from engramq.deploy.local.stack_hold import SERVING
from engramq.deploy.local.supervisor.supervise import WATCH_S, Supervisor

logger = logging.getLogger(__name__)

LONGEST_LINE = 256 * 1024
SEND_BOUND_S = 5.0
_COMMANDS = ("command", "backup")
# What a module raises that was removed, replaced in part, or goes with others than those that are loaded.
_OF_OTHER_CODE = (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError, OSError)


class Control:
    """Answers on the socket for one supervisor."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._holders: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen for the length of the block. Connections stay open to its end: theirs says that all has stopped."""
        path = self._supervisor.home.supervisor_socket
        path.unlink(missing_ok=True)
        server = await self._listen(path)
        watches = [asyncio.create_task(self._tell_of_stopping()), asyncio.create_task(self._listen_again(path))]
        try:
            yield
        finally:
            for watch in watches:
                watch.cancel()
            remove_leftover(path)
            server.close()
            for connection in list(self._connections):
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    async def _listen(self, path: Path) -> asyncio.Server:
        server = await asyncio.start_unix_server(self._accept, path, limit=LONGEST_LINE)
        os.chmod(path, 0o600)  # noqa: PTH101 - which asyncio's rules take for a wait
        return server

    async def _listen_again(self, path: Path) -> None:
        """Listen anew whenever somebody has removed the socket, or the folder that it is in."""
        anew: asyncio.Server | None = None
        try:
            while True:
                await asyncio.sleep(WATCH_S)
                with contextlib.suppress(DeployError, OSError):  # the home is gone, or its disk: see `watch_home`
                    if not await asyncio.to_thread(path.is_socket):
                        self._supervisor.home.make_again()
                        if anew is not None:
                            anew.close()
                        anew = await self._listen(path)
                        logger.warning("Control socket made anew", extra={"path": str(path)})
        finally:
            if anew is not None:
                anew.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, TimeoutError):
            pass
        except asyncio.CancelledError:
            # Only `serving` cancels us, at its end; asyncio's stream machinery would log it as an error.
            pass
        finally:
            self._connections.discard(task)
            self._holders.discard(writer)
            await self._supervisor.drop_hold(writer, linger=True)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                line = await reader.readline()
            except ValueError:
                await _send(writer, _refusal(DeployError("bad_request", f"A line of more than {LONGEST_LINE} bytes.")))
                return
            if not line:
                return
            try:
                request = json.loads(line)
                answer = await self._answer(request if isinstance(request, dict) else {}, reader, writer)
            except ValueError:
                answer = _refusal(DeployError("bad_request", "Not a line of JSON."))
            except DeployError as error:
                answer = _refusal(error)
            await _send(writer, answer)

    async def _answer(
        self, request: dict[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, object]:
        supervisor = self._supervisor
        if request.get("folder") not in (None, supervisor.folder_id):
            raise DeployError(
                "another_home",
                f"The socket leads to the supervisor of {supervisor.home.path} (pid {os.getpid()}), which is another "
                "home: this one is a copy of it by links.",
                "Copy it without links (cp -a).",
            )
        match request.get("op"):
            case "lease":
                return await self._hold(request, reader, writer)
            case "release":
                self._holders.discard(writer)
                last = await supervisor.drop_hold(writer, linger=False)
                return {"ok": True, "stopping": last}
            case "status" if request.get("brief"):
                return {"ok": True, "stopping": supervisor.stopping.is_set()}
            case "status":
                return {"ok": True, **await asyncio.to_thread(supervisor.describe)}
            case "stop":
                self._holders.discard(writer)
                supervisor.stopping.set()
                return {"ok": True}
            case other:
                raise DeployError("bad_request", f"There is no operation {other!r}.")

    async def _hold(
        self, request: dict[str, object], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> dict[str, object]:
        supervisor, stack = self._supervisor, self._supervisor.stack
        kind, pid = str(request.get("kind")), request.get("pid")
        if kind not in stack.needs:
            raise DeployError("bad_request", f"There is no hold of kind {kind!r}.")
        if supervisor.stopping.is_set():
            raise DeployError("stopping", "The stack is being stopped.")
        asked = _strings(request.get("settings"))
        differing = _unusual(settings.differing_from_stack(stack.settings, asked), stack.settings, asked)
        _refuse_any(differing, settings.DECISIVE_FOR_COMMANDS if kind in _COMMANDS else settings.DECISIVE)
        supervisor.add_hold(writer, kind, pid if isinstance(pid, int) else 0)
        http = stack.http if kind in SERVING else None
        try:
            if http is not None:
                wanted = _strings(request.get("http"))
                await supervisor.choose_http(wanted)
                _refuse_another_door(http.settings, wanted)
                differing += settings.differing(http.settings, wanted)
            await _unless_gone(reader, supervisor.wait_ready(stack.needs[kind]))
            if http is not None:
                await supervisor.open_http()
        except DeployError:
            await supervisor.drop_hold(writer, linger=True)
            raise
        self._holders.add(writer)
        return {"ok": True, **stack.addresses, **({} if http is None else {"http": http.url}), "differing": differing}

    async def _tell_of_stopping(self) -> None:
        await self._supervisor.stopping.wait()
        for writer in list(self._holders):
            with contextlib.suppress(ConnectionError, TimeoutError):
                await _send(writer, {"event": "stopping"})


async def _unless_gone(reader: asyncio.StreamReader, waiting: Coroutine[object, object, None]) -> None:
    """Await readiness, but give up when the client hangs up meanwhile: it must not keep the stack."""
    ready = asyncio.create_task(waiting)
    gone = asyncio.create_task(_until_closed(reader))
    try:
        await asyncio.wait({ready, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise ConnectionResetError
        await ready
    finally:
        ready.cancel()
        gone.cancel()
        await asyncio.gather(ready, gone, return_exceptions=True)


async def _until_closed(reader: asyncio.StreamReader) -> None:
    # Clients say nothing before their answer, so whatever can be read means the end.
    await reader.read(1)


async def _send(writer: asyncio.StreamWriter, message: dict[str, object]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")
    await asyncio.wait_for(writer.drain(), SEND_BOUND_S)


def _unusual(differing: list[str], *sides: Mapping[str, str]) -> list[str]:
    """Leave out the names that one side gives its default and the other does not name."""
    if not differing:
        return []
    try:
        from engramq.schemas.settings import SETTINGS  # noqa: PLC0415 - 2 MB and 30 ms, a third of a supervisor's start
    except _OF_OTHER_CODE as problem:
        raise DeployError(
            "code_changed",
            f"The running stack of this home cannot load its code ({problem}): it was replaced or removed.",
            "Stop it (engramq down), and try again.",
        ) from problem

    defaults = {setting.variable: setting.default for setting in SETTINGS}
    return [name for name in differing if len({side.get(name, defaults.get(name)) for side in sides}) > 1]


def _refuse_any(differing: list[str], of: frozenset[str]) -> None:
    decisive = [name for name in differing if name in of]
    if decisive:
        raise DeployError(
            "other_settings",
            f"The running stack of this home was started with another {', '.join(decisive)}.",
            "Stop it (engramq down), or use another ENGRAMQ_HOME.",
        )


def _refuse_another_door(there: dict[str, str], wanted: dict[str, str]) -> None:
    names = [name for name in settings.differing(there, wanted) if name in settings.OF_THE_DOOR]
    if names:
        raise DeployError(
            "other_settings",
            f"This home serves HTTP already, with {settings.values_of(names, there)}; asked for was "
            f"{settings.values_of(names, wanted)}.",
            "End that engramq up (or everything: engramq down) and start this one again, "
            f"or use another {settings.HOME} and {settings.PORT}.",
        )


def _refusal(error: DeployError) -> dict[str, object]:
    return {"ok": False, "error": {"code": error.code, "message": error.message, "recovery": error.recovery}}


def _strings(value: object) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
