"""Call tools for a command: of the home's gateway, on its socket, or of the gateway at ENGRAMQ_URL, over HTTP.

Every command asks here, and a write that takes a while is waited for here alone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import time
import urllib.error
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from engramq.deploy.cli.options import BEGINNING, LEAST_DIGITS, WHOLE_REPLY
from engramq.deploy.cli.output import ReplyBody, refuse
from engramq.deploy.local import settings
from engramq.deploy.local.conversation import RelayConversation
from engramq.deploy.local.gateway_connection import GatewayConnection, open_connection
from engramq.deploy.local.home import DeployError, home_from
from engramq.deploy.local.hooks.connection import call_of
from engramq.deploy.local.stack_hold import ask_status
from engramq.schemas.codec import fault_body
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.faults import NOT_APPLIED, EngramqError, Fault, FaultCode
from engramq.schemas.faults import refuse as refusal
from engramq.schemas.vocabulary import CommandStatus, MemoryState, Partition, Status, Verification

if TYPE_CHECKING:
    from engramq.schemas.commands import Command

URL: Final = settings.URL
TOKEN: Final = "ENGRAMQ_TOKEN"  # noqa: S105 - the name of a variable
PROTOCOL: Final = "2025-11-25"
SESSION: Final = "engramq-cli"  # one for all commands: a visit of half an hour counts once, as an agent's does
SETTLED_S: Final = 60.0  # after which a write that is taken is left to itself
ASK_AGAIN_S: Final = 0.3
READ_S: Final = 60.0  # how long a read is repeated that a busy gateway had no time for
GIVE_UP_S: Final = 300.0  # after which a gateway that has been away since is given up
PROGRESS_S: Final = 5.0
REPEATS: Final = 3  # how often a write is asked again that nobody knows of any more
ANSWER_S: Final = 60.0  # longer than any tool takes to answer, if only by "pending"
TRIES: Final = 2  # a write is asked again with its key, which never does it twice
NOT_DONE: Final = "See `engramq status`: is a worker running?"
_AGAIN: Final = (429, 503)  # what a server answers that takes the same call later
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_MCP_PATH: Final = "/mcp"
# Agents' settings: people are hidden no tool, and answered in full.
_OF_AGENTS: Final = (settings.TOOLS, settings.OUTPUT_SCHEMAS, settings.DETAIL, settings.REPLY_CHARS)

PAGE: Final = 100
PAGES: Final = 50  # the newest 5,000 are looked through
WHOLE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
# All memories, whatever their state.
_EVERY: Final = {
    "partitions": list(Partition),
    "states": list(MemoryState),
    "verifications": list(Verification),
    "include_superseded": True,
    "project": "*",
}

R = TypeVar("R", bound=msgspec.Struct)


def is_refused(reply: ReplyBody) -> bool:
    """Say whether a reply is a refusal, whose fields are those of a Fault."""
    return reply["status"] in (Status.ERROR, Status.INVALID_PARAMETER)


class ToolClient(ABC):
    """Calls tools in one namespace."""

    read_s: ClassVar[float] = READ_S

    @abstractmethod
    def call(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return a tool's reply, refusals included; raises DeployError, CommandFailed."""

    def write(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        key: str = "",
        patience_s: float | None = None,
        progress: Callable[[], None] | None = None,
    ) -> ReplyBody:
        """Return the reply of a write, once it has ended; after `patience_s` (SETTLED_S) that it is pending.

        The write has a key, by which it is done once however often it is asked. `progress` is called now and then while
        it takes long. Raises DeployError, CommandFailed.
        """
        keyed = {**arguments, "idempotency_key": key or str(uuid.uuid4())}
        begun = progress_at = heard_at = time.monotonic()
        deadline = begun + (SETTLED_S if patience_s is None else patience_s)
        for _ in range(REPEATS):
            if (reply := self.call(tool, keyed))["status"] != Status.PENDING:
                break
            of_command = {"command_id": reply["command_id"], "max_chars": WHOLE_REPLY}
            while (report := self.call("get_command", of_command))["status"] != CommandStatus.UNKNOWN:
                if report.get("reply"):
                    return dict(report["reply"])
                now = time.monotonic()
                heard_at = heard_at if is_refused(report) else now
                never = is_refused(report) and report["code"] not in NOT_APPLIED
                if never or now > min(deadline, heard_at + GIVE_UP_S):
                    return reply
                if progress is not None and now > progress_at + PROGRESS_S:
                    progress_at = now
                    progress()
                time.sleep(ASK_AGAIN_S)
        return reply

    def reply_to(
        self, command: Command, kind: type[R], *, progress: Callable[[], None] | None = None, **around: Any
    ) -> R:
        """Return the reply to an operator's command, however long it takes; raises EngramqError and as `write` does.

        `around`: arguments of the call beside the command's own.
        """
        arguments: dict[str, Any] = msgspec.to_builtins(command) | around
        tool: str = arguments.pop("type")
        if command.write:
            body = self.write(tool, arguments, patience_s=math.inf, progress=progress)
        else:
            body = self._read(tool, arguments)
        if is_refused(body):
            raise EngramqError(msgspec.convert(body, Fault))
        if command.write and body["status"] == Status.PENDING:
            raise refusal(FaultCode.UNAVAILABLE, "A command was taken, but its answer did not come.", recovery=NOT_DONE)
        return msgspec.convert(body, kind)

    def _read(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return the reply of a read; one that there was no time for is repeated for a while."""
        give_up = time.monotonic() + self.read_s
        while (body := self.call(tool, arguments)).get("code") == FaultCode.UNAVAILABLE:
            pause_s = body.get("retry_after_s", ASK_AGAIN_S)
            if time.monotonic() + pause_s > give_up:
                break
            time.sleep(pause_s)
        return body

    def resolve_id(self, text: str) -> str:
        """Return the id that a text is, or the only one that begins with it; raises CommandFailed when there is none.

        Ids are in the order of time, and so is the list: it is read until it has passed the beginning.
        """
        if WHOLE.fullmatch(text):
            return text.lower()
        if not BEGINNING.fullmatch(text):
            raise CommandFailed(
                f"{text!r} is no id, nor the first {LEAST_DIGITS} digits or more of one.", ExitCode.MISUSED
            )
        beginning, matching, cursor = text.lower(), list[str](), None
        for _ in range(PAGES):
            listing = {**_EVERY, "limit": PAGE, "max_chars": 200_000, "cursor": cursor}
            reply = self.call("list_recent_memories", listing)
            refuse(reply)
            ids, cursor = [str(memory["id"]) for memory in reply["memories"]], reply["next_cursor"]
            matching += [identifier for identifier in ids if identifier.startswith(beginning)]
            if cursor is None or all(identifier < beginning for identifier in ids):
                break
        else:
            if not matching:
                raise CommandFailed(f"No id of the newest {PAGES * PAGE} begins with {text}. Give the whole id.")
        if len(matching) == 1:
            return matching[0]
        if not matching:
            raise CommandFailed(f"No memory has an id that begins with {text}.")
        several = ", ".join(matching[:5]) + (" and more" if len(matching) > 5 else "")
        raise CommandFailed(f"{len(matching)} ids begin with {text}: {several}. Give more of it.", ExitCode.MISUSED)

    def resolve_cited_ids(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return fields of a memory with the whole ids of the memories that it cites; raises CommandFailed."""
        if "evidence" not in fields:
            return dict(fields)
        cited = [
            {**citation, "memory_id": self.resolve_id(citation["memory_id"])} if "memory_id" in citation else citation
            for citation in fields["evidence"]
        ]
        return {**fields, "evidence": cited}


@contextlib.contextmanager
def open_client(namespace: str | None) -> Iterator[ToolClient]:
    """Within the block calls are answered, in a namespace or else in that of the environment.

    Raises CommandFailed, DeployError.
    """
    url = os.environ.get(URL)
    if url:
        if namespace is not None:
            raise CommandFailed(f"--namespace is for the own home: at {URL} the token says it.", ExitCode.MISUSED)
        yield _HttpClient(url, os.environ.get(TOKEN) or "")
        return
    environment = {name: value for name, value in os.environ.items() if name not in _OF_AGENTS}
    environment[settings.TOOLS] = "full"
    if namespace is not None:
        environment[settings.NAMESPACE] = namespace
    with home_client(environment) as own:
        yield own


def home_client(environment: dict[str, str]) -> contextlib.closing[_HomeClient]:
    """Return a client of the home that an environment names, whose stack is started if it does not run."""
    return contextlib.closing(_HomeClient(environment))


class _HomeClient(ToolClient):
    """The home's gateway; its stack is started if it does not run."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._connection: GatewayConnection | None = None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return a tool's reply, refusals included; raises DeployError, CommandFailed."""
        request = call_of(tool, arguments, client="engramq")
        for _ in range(TRIES):
            if (answer := self._answer(request)) is not None:
                reply = _reply(answer)
                if reply.get("code") == FaultCode.UNAVAILABLE:
                    self._refuse_failing_services()
                return reply
            self.close()
        raise DeployError("not_ready", "engramq's gateway has gone while it was asked.", "See engramq status.")

    def _refuse_failing_services(self) -> None:
        """Raise DeployError with what a service complains of that does not run: why the gateway got no answer.

        One that serves may ail too, as a gateway whose port is taken: that is not the reason.
        """
        services = (ask_status(home_from(self._environment)) or {}).get("services")
        for service in services if isinstance(services, list) else []:
            complaint = str(service["complaint"])
            if complaint and service["state"] not in ("ready", "done"):
                raise DeployError("service_failing", complaint)

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the answer to a request, or None when the gateway has gone. Raises DeployError."""
        if self._connection is None:
            home = home_from(self._environment)
            self._connection = open_connection(home, self._environment, RelayConversation(SESSION))
        try:
            return self._connection.channel().exchange(request, ANSWER_S)
        except TimeoutError:
            told = f"engramq's gateway has not answered within {ANSWER_S:.0f} s."
            raise DeployError("not_ready", told) from None
        except OSError:
            return None

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _HttpClient(ToolClient):
    """A gateway elsewhere. The token goes to it alone: no redirect is followed."""

    def __init__(self, url: str, token: str) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandFailed(f"{URL}: {url!r} is no http or https URL of a server.", ExitCode.MISUSED)
        self._url = url.strip().rstrip("/").removesuffix(_MCP_PATH) + _MCP_PATH
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._headers |= {"MCP-Protocol-Version": PROTOCOL} | ({"Authorization": f"Bearer {token}"} if token else {})
        proxies = [urllib.request.ProxyHandler({})] if parts.hostname in _LOOPBACK else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ReplyBody:
        """Return a tool's reply, refusals included; raises CommandFailed."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        data = json.dumps(call, ensure_ascii=False).encode("utf-8", "surrogatepass")
        for left in reversed(range(TRIES)):
            request = urllib.request.Request(self._url, data, self._headers)  # noqa: S310 - http or https, see above
            try:
                with self._opener.open(request, timeout=ANSWER_S) as response:
                    return _reply(json.loads(response.read()))
            except urllib.error.HTTPError as problem:
                said = _refusal(problem, self._url)
                if problem.code not in _AGAIN:
                    raise CommandFailed(said) from None
                pause_s = problem.headers.get("Retry-After", "")
                retry_after_s = float(pause_s) if pause_s.isdecimal() else msgspec.UNSET
                busy = refusal(FaultCode.UNAVAILABLE, said, recovery=NOT_DONE, retry_after_s=retry_after_s)
                return fault_body(busy.fault)
            except (urllib.error.URLError, OSError, ValueError) as problem:
                if not left:
                    reason = getattr(problem, "reason", problem)
                    why = getattr(reason, "strerror", None) or reason
                    said = f"{self._url} cannot be reached: {why}. Is {URL} right, and does the server run?"
                    raise CommandFailed(said) from None
        raise AssertionError("the last try returns or raises")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: a redirect is answered as an error."""


def _refusal(problem: urllib.error.HTTPError, url: str) -> str:
    with contextlib.suppress(ValueError, OSError):
        body = json.loads(problem.read())
        error = body.get("error_description") or body.get("error") if isinstance(body, dict) else None
        if isinstance(error, dict):
            error = error.get("message")
        if isinstance(error, str):
            hint = f" {TOKEN} holds the token." if problem.code in (401, 403) else ""
            return f"{url} has answered {problem.code}: {error}{hint}"
    return f"{url} has answered {problem.code}."


def _reply(answer: dict[str, Any]) -> ReplyBody:
    error = answer.get("error")
    if error is not None:
        raise CommandFailed(str(error.get("message", error)) if isinstance(error, dict) else str(error))
    return dict(answer["result"]["structuredContent"])
