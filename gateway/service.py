"""Answer one tool call from any protocol: check, authorize, resolve references, ask a worker, render the reply."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, tzinfo
from functools import partial
from typing import Any, Final, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec
from msgspec import UNSET

from engramq.gateway import cursors
from engramq.gateway.budget import Body, text_of, within
from engramq.gateway.identity.authorization import Caller, admit, authorize
from engramq.gateway.limits import UNLIMITED, CallLimits
from engramq.gateway.mcp.arguments import Arguments, check_arguments
from engramq.gateway.mcp.audience import ALL_TOOLS, Reader, reader_of, worded, worded_body
from engramq.gateway.mcp.guide import explain
from engramq.gateway.mcp.schema import PendingReply
from engramq.gateway.queue.bus import Bus
from engramq.gateway.redaction import WITH_MEMORIES, redacted
from engramq.gateway.replies import ReplyStyle, body_of, in_parts, notice_of, rest_of, withheld_body_of
from engramq.gateway.sessions import Breadcrumbs, NothingFound, fresh_session, naming, no_session, stood_for, with_ids
from engramq.schemas.codec import fault_body, fingerprint
from engramq.schemas.command_line import count_of
from engramq.schemas.commands import (
    BreadcrumbTrail,
    Command,
    GetMemory,
    GuideTopic,
    Reply,
    SearchMemories,
    SessionBegun,
    StoreMemory,
    Tool,
)
from engramq.schemas.commands.base import Page
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.fields import composed
from engramq.schemas.passages import words_of
from engramq.schemas.pastes import read_prompt
from engramq.schemas.settings import Redact
from engramq.schemas.vocabulary import Detail, Partition, Scope
from engramq.telemetry.spans import SpanKind, about, new_traceparent, span, trace_id_of

log = logging.getLogger(__name__)

# Threads that look for secrets: a process computes in one at a time, and the others are for what waits.
REDACTING_THREADS: Final = 2
AT_ONCE_CHARS: Final = 200_000  # of a reply: what is longer is cut beside the calls of others


# Takes how much of a total is done, the total, and that in words.
Report: TypeAlias = Callable[[int, int, str], Awaitable[None]]

# Hears of each call: the tool, what came of it (the status of the reply, or the code of a refusal), seconds.
Observe: TypeAlias = Callable[[str, str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool. `arguments` are as the client sent them, of any JSON type; `tools` are its profile's.

    `report`: None where nobody listens, and for tools that report nothing.
    """

    tool: Tool
    arguments: Any
    caller: Caller
    traceparent: str | None = None
    tools: tuple[Tool, ...] = ALL_TOOLS
    report: Report | None = None


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What the client reads, as an object and as the same in JSON, and whether it is a refusal."""

    body: Body
    text: str
    is_error: bool


class Service:
    """Answers tool calls. One for the whole process; it keeps nothing of a call."""

    def __init__(
        self,
        bus: Bus,
        sessions: Breadcrumbs,
        secrets: cursors.CursorSecret,
        limits: CallLimits = UNLIMITED,
        style: ReplyStyle = ReplyStyle(),  # noqa: B008 - frozen
        redact: Redact = Redact.OFF,
        *,
        zone: tzinfo = UTC,
        redacting: anyio.CapacityLimiter | None = None,
        observe: Observe | None = None,
    ) -> None:
        """Tell `observe` of each call. `zone`: of times that callers give without an offset."""
        self._bus = bus
        self._zone = zone
        self._observe = observe
        self._redact = redact
        self._redacting = redacting or anyio.CapacityLimiter(REDACTING_THREADS)
        self._limits = limits
        self._style = style
        self._sessions = sessions
        self._secrets = secrets
        self._local: Final[Mapping[str, Callable[[Call, str, Any], Awaitable[msgspec.Struct]]]] = {
            "begin_session": self._begin_session,
            "get_breadcrumbs": self._get_breadcrumbs,
            "guide": self._guide,
        }

    def for_clients(self, limits: CallLimits, style: ReplyStyle, redact: Redact | None = None) -> "Service":
        """Return a service over the same bus whose callers are held to these limits and answered in this style.

        `redact`: out of which of their memories secrets are taken; None: as here.
        """
        return Service(
            self._bus,
            self._sessions,
            self._secrets,
            limits,
            style,
            self._redact if redact is None else redact,
            zone=self._zone,
            redacting=self._redacting,
            observe=self._observe,
        )

    async def call(self, call: Call) -> ToolReply:
        """Return the reply to a call; every refusal is a reply, nothing is raised but cancellation."""
        started, tool = time.perf_counter(), call.tool.name
        principal = call.caller.principal
        reader = reader_of(call.tools, principal.scopes, principal.untrusted)
        with span(f"tools/call {tool}", SpanKind.SERVER, call.traceparent, {"gen_ai.tool.name": tool}) as active:
            traceparent = active.traceparent or call.traceparent
            trace_id = trace_id_of(traceparent)
            if not trace_id:
                traceparent = new_traceparent()
                trace_id = trace_id_of(traceparent)
            with about(trace_id) as subject:
                try:
                    with self._limits.admitted(call.caller) if self._limits.are_set else nullcontext():
                        reply = await self._answer(call, reader, traceparent)
                except EngramqError as refusal:
                    reply = fault_reply(refusal.fault, reader)
                except Exception:  # the SDK would send the text of an unforeseen error to the client
                    log.exception("Tool call failed", extra={"tool": tool})
                    fault = refuse(FaultCode.INTERNAL, "The gateway failed at this call.").fault
                    reply = fault_reply(fault, reader)
                taken_s = time.perf_counter() - started
                outcome = str(reply.body["code" if reply.is_error else "status"])
                log.info(
                    "Tool call",
                    extra={
                        "tool": tool,
                        "command_id": subject.command_id or None,
                        "status": reply.body["status"],
                        "ms": round(taken_s * 1000, 2),
                        "principal": principal.name,
                    },
                )
                active.tell("engramq.command_id", subject.command_id)
                active.tell("engramq.outcome", outcome)
        if self._observe is not None:
            self._observe(tool, outcome, taken_s)
        return reply

    async def _answer(self, call: Call, reader: Reader, traceparent: str | None) -> ToolReply:
        tool, caller = call.tool, call.caller
        if tool.name not in reader.tools:  # first: nobody mends arguments of what they may not call
            admit(tool.parameters, tool.scope, caller.principal)
        if tool.batches:  # many items take as long as hundreds of other calls
            arguments = await anyio.to_thread.run_sync(check_arguments, tool, call.arguments, self._zone)
        else:
            arguments = check_arguments(tool, call.arguments, self._zone)
        session, secrets = arguments.session or caller.session, 0
        if not isinstance(arguments.parameters, Command):
            body = to_body(await self._local[tool.name](call, session, arguments.parameters))
            return await self._rendered(call, reader, arguments, body)
        command: Command = arguments.parameters
        authorize(command, caller.principal)
        if caller.principal.untrusted and isinstance(command, StoreMemory):
            command = msgspec.structs.replace(command, partition=Partition.UNTRUSTED)
        if isinstance(command, WITH_MEMORIES[self._redact]):
            # A caller who has gone ends it: a batch may take seconds.
            command, secrets = await anyio.to_thread.run_sync(
                redacted, command, self._redact, anyio.from_thread.check_cancelled, limiter=self._redacting
            )
        if call.report is not None:
            await call.report(*_progress(tool, command, settled=False))
        command, answer = await self._ask(call, arguments, command, session, traceparent)
        if not isinstance(answer, Answer):
            return ToolReply(answer, text_of(answer), is_error=False)
        if answer.reply is None:
            return fault_reply(_fault_of(answer), reader)
        if call.report is not None:
            await call.report(*_progress(tool, command, settled=True))
        return await self._reply(call, reader, arguments, command, answer.reply, secrets)

    async def _ask(
        self, call: Call, arguments: Arguments, command: Command, session: str, traceparent: str | None
    ) -> tuple[Command, Answer | Body]:
        """Return the command with ids in place of references, and its answer, or that it is pending."""
        tool, caller = call.tool, call.caller
        # Of the request as it was made: repeated, @stored may stand for another memory, and it is the same request.
        digest = fingerprint(command) if command.write else None
        references: Mapping[str, str] = {}
        refusal: Fault | None = None
        try:
            command, references = await with_ids(tool, command, self._sessions, caller, session)
        except NothingFound as nothing:
            if arguments.idempotency_key is None:
                raise
            refusal = nothing.fault  # unless the request is a repeated one, which only the ledger knows
        sent = command
        if getattr(command, cursors.CURSOR, UNSET) is not UNSET:
            secret = await self._secrets.cursor_secret()
            sent = cursors.opened(_as_listed(command, caller), secret, caller.namespace)
        try:
            answer = await self._bus.ask(
                sent,
                namespace=caller.namespace,
                principal=caller.principal,
                session=session,
                idempotency_key=arguments.idempotency_key,
                traceparent=traceparent,
                digest=digest,
                in_session=tool.takes_session,
                refusal=refusal,
                references=references,
                project=composed(caller.project),
            )
            if isinstance(answer, Answer):
                return command, answer
            if not tool.write:  # a read that was not answered in time never will be
                raise refuse(FaultCode.UNAVAILABLE, "No worker answered in time.")
        except EngramqError as refused:
            raise EngramqError(naming(refused.fault, references)) from refused
        names = stood_for(references) if references else UNSET
        return command, to_body(PendingReply(command_id=answer.command_id, resolved_references=names))

    async def _reply(
        self, call: Call, reader: Reader, arguments: Arguments, command: Command, reply: Reply, secrets: int
    ) -> ToolReply:
        """Return a worker's reply as the client reads it."""
        caller, requested = call.caller.principal, arguments.parameters
        write: Any = requested
        notice = notice_of(reply, write, caller, secrets) if call.tool.write else None
        if Scope.READ not in caller.scopes:
            body = withheld_body_of(reply, requested, caller.name, notice)
        else:
            body = body_of(reply, arguments.detail or self._style.detail, caller.name)
            if notice is not None:
                body["notice"] = " ".join(filter(None, (body.get("notice"), notice)))
        if not isinstance(reply, Page) or not isinstance(after := getattr(reply, cursors.NEXT_CURSOR), str | None):
            return await self._rendered(call, reader, arguments, body)
        # A page may have to end early, and then ends with another cursor, which is as long.
        secret = await self._secrets.cursor_secret()
        seal = partial(
            cursors.seal, secret=secret, namespace=call.caller.namespace, command=_as_listed(command, call.caller)
        )
        ends = reply.positions()
        body[cursors.NEXT_CURSOR] = seal(ends[-1]) if ends else None
        body = (await self._rendered(call, reader, arguments, body)).body
        shown = len(body[reply.listed])
        if shown == len(ends):
            body[cursors.NEXT_CURSOR] = None if after is None else seal(after)
        else:
            body[cursors.NEXT_CURSOR] = seal(ends[shown - 1])
        return ToolReply(body, text_of(body), is_error=False)

    async def _rendered(self, call: Call, reader: Reader, arguments: Arguments, body: Body) -> ToolReply:
        """Return a reply for its reader: in words that fit their tools, and within its budget."""
        body = worded_body(body, reader)
        if not call.tool.bounded:
            return ToolReply(body, text_of(body), is_error=False)
        is_full = (arguments.detail or self._style.detail) is Detail.FULL

        def rest(needed: int) -> str:
            return worded(rest_of(call.tool, body, is_full=is_full, needed=needed), reader)

        budget, asked = arguments.max_chars or self._style.max_chars, arguments.parameters
        if isinstance(asked, GetMemory):
            body = in_parts(body, asked.part, budget)
        size = len(text_of(body))
        query = asked.query if isinstance(asked, SearchMemories) and size > budget else ""

        def fitted() -> str:
            return within(body, budget, rest, words_of(read_prompt(query).words))

        # Sentences of many long texts take a second, in which others are answered.
        text = fitted() if size <= AT_ONCE_CHARS else await anyio.to_thread.run_sync(fitted)
        return ToolReply(body, text, is_error=False)

    async def _begin_session(self, call: Call, session: str, _asked: msgspec.Struct) -> SessionBegun:
        session = session or fresh_session()
        instance = await self._sessions.begin(call.caller.namespace, call.caller.principal.identity, session)
        return SessionBegun(session=session, instance=instance)

    async def _get_breadcrumbs(self, call: Call, session: str, _asked: msgspec.Struct) -> BreadcrumbTrail:
        if not session:
            raise no_session("session", "There is no session whose breadcrumbs could be read.")
        breadcrumbs = await self._sessions.read(call.caller.namespace, call.caller.principal.identity, session)
        return msgspec.convert(breadcrumbs, BreadcrumbTrail, from_attributes=True)

    async def _guide(self, call: Call, _session: str, asked: GuideTopic) -> msgspec.Struct:
        principal = call.caller.principal
        return explain(asked, reader_of(call.tools, principal.scopes, principal.untrusted))


def _progress(tool: Tool, command: Command, *, settled: bool) -> tuple[int, int, str]:
    """Return how far a batch is, as a report takes it: its items are checked, or all settled, in one transaction."""
    items = [item for name in tool.batches for item in getattr(command, name)]
    total, refused = len(items), sum(item.fault is not UNSET for item in items)
    state = "settled" if settled else f"checked, {refused} refused"
    return total if settled else 0, total, f"{count_of(total, 'item')} {state}"


def _as_listed(command: Command, caller: Caller) -> Command:
    """Return the command of a list with the project that it is of, since a cursor is good for no other."""
    if caller.project and getattr(command, "project", None) is UNSET:
        return msgspec.structs.replace(command, project=composed(caller.project))
    return command


def fault_reply(fault: Fault, reader: Reader) -> ToolReply:
    """Return a refusal as this client reads it."""
    body = worded_body(fault_body(fault), reader)
    return ToolReply(body, text_of(body), is_error=True)


def to_body(shape: msgspec.Struct) -> Body:
    """Return a reply of the gateway's own as plain values."""
    body: Body = msgspec.json.decode(msgspec.json.encode(shape))  # to_builtins would keep tuples
    return body


def _fault_of(answer: Answer) -> Fault:
    if answer.fault is None:
        raise TypeError(f"answer {answer.id} has neither reply nor fault")
    if answer.fault.command_id is UNSET:
        return msgspec.structs.replace(answer.fault, command_id=answer.id)
    return answer.fault
