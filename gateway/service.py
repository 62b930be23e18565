"""Answer one tool call from any protocol: check, authorize, resolve references, ask a worker, render the reply."""

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, tzinfo
from functools import partial
from typing import Any, Final, TypeAlias, cast

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec
from msgspec import UNSET

from engramq.gateway import cursors
from engramq.gateway.budget import Body, fit_to_budget
from engramq.gateway.identity.authorization import Caller, admit, authorize
from engramq.gateway.limits import UNLIMITED, CallLimits
from engramq.gateway.mcp.arguments import Arguments, check_arguments
from engramq.gateway.mcp.audience import ALL_TOOLS, Audience, audience_of, reword_body, reword_for, tools_for
from engramq.gateway.mcp.guide import explain
from engramq.gateway.mcp.schema import PendingReply
from engramq.gateway.queue.bus import Bus, Unanswered
from engramq.gateway.redaction import WITH_MEMORIES, redact_command
from engramq.gateway.replies import (
    ReplyStyle,
    begin_at,
    body_of,
    cut_to_part,
    end_without_cursor,
    items_of,
    notice_of,
    rest_of,
    rest_of_items,
    tell_next,
    withheld_body_of,
)
from engramq.gateway.sessions import (
    Breadcrumbs,
    add_references,
    fresh_session,
    no_session,
    resolve_references,
    stood_for,
)
from engramq.schemas import commands
from engramq.schemas.codec import fault_body, fingerprint, text_of
from engramq.schemas.command_line import count_of
from engramq.schemas.commands.base import Page
from engramq.schemas.envelope import Answer, Envelope
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.fields import compose_letters
from engramq.schemas.ids import uuid7
from engramq.schemas.limits import REPLY_CHARS_MAX
from engramq.schemas.passages import words_of
from engramq.schemas.pastes import read_prompt
from engramq.schemas.settings import Redact
from engramq.schemas.vocabulary import Detail, Scope
from engramq.telemetry.spans import SpanKind, Subject, trace

log = logging.getLogger(__name__)

# Threads that look for secrets. One computes at a time; with a second, a short command waits for no long one.
REDACTING_THREADS: Final = 2
AT_ONCE_CHARS: Final = 200_000  # a longer reply is cut in a thread, so that other calls go on meanwhile


# Takes how much of a total is done, the total, and that in words.
Report: TypeAlias = Callable[[int, int, str], Awaitable[None]]

# Hears of each call: the tool, what came of it (the status of the reply, or the code of a refusal), seconds.
ObserveCall: TypeAlias = Callable[[str, str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool. `arguments` are as the client sent them, of any JSON type; `tools` are its profile's.

    `unlisted`: what may be called all the same. `together`: the id of the action on many that this call is a part of.
    `report`: None where nobody listens, and for tools that report nothing.
    """

    tool: commands.Tool
    arguments: Any
    caller: Caller
    traceparent: str | None = None
    tools: tuple[commands.Tool, ...] = ALL_TOOLS
    unlisted: tuple[commands.Tool, ...] = ()
    report: Report | None = None
    together: str = ""


@dataclass(frozen=True, slots=True)
class ToolReply:
    """The reply that the client reads, as an object and as the same in JSON, and whether it is a refusal."""

    body: Body
    text: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class Service:
    """Answers tool calls; it keeps nothing of a call. Each kind of clients has one, all over the same bus.

    `zone`: of times that callers give without an offset. `redact`: out of which memories secrets are taken. `observe`
    hears of each call.
    """

    bus: Bus
    sessions: Breadcrumbs
    secrets: cursors.CursorSecret
    _: KW_ONLY
    limits: CallLimits = UNLIMITED
    style: ReplyStyle = field(default_factory=ReplyStyle)
    redact: Redact = Redact.OFF
    zone: tzinfo = UTC
    redacting: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(REDACTING_THREADS))
    observe: ObserveCall | None = None

    async def call(self, call: Call) -> ToolReply:
        """Return the reply to a call; every refusal is a reply, nothing is raised but cancellation."""
        started, tool = time.perf_counter(), call.tool.name
        principal = call.caller.principal
        audience = audience_of(call.tools, principal.scopes, principal.untrusted)
        with trace(f"tools/call {tool}", SpanKind.SERVER, call.traceparent, {"gen_ai.tool.name": tool}) as subject:
            try:
                with self.limits.admit(call.caller) if self.limits.are_set else nullcontext():
                    reply = await self._answer(call, audience, subject)
            except EngramqError as refusal:
                reply = fault_reply(refusal.fault, audience)
            except Exception:  # the SDK would send the text of an unforeseen error to the client
                log.exception("Tool call failed", extra={"tool": tool})
                fault = refuse(FaultCode.INTERNAL, "The gateway failed at this call.").fault
                reply = fault_reply(fault, audience)
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
            if subject.span is not None:
                subject.span.tell("engramq.command_id", subject.command_id)
                subject.span.tell("engramq.outcome", outcome)
        if self.observe is not None:
            self.observe(tool, outcome, taken_s)
        return reply

    async def _answer(self, call: Call, audience: Audience, subject: Subject) -> ToolReply:
        tool, caller = call.tool, call.caller
        if tool.name not in audience.tools:  # first: nobody mends arguments of what they may not call
            admit(tool.parameters, tool.scope, caller.principal)
        if tool.batches:  # many items take as long as hundreds of other calls
            arguments = await anyio.to_thread.run_sync(check_arguments, tool, call.arguments, self.zone)
        else:
            arguments = check_arguments(tool, call.arguments, self.zone)
        if not isinstance(arguments.parameters, commands.Command):
            session = arguments.session or caller.session
            return await self._render(
                call, audience, arguments, await self._answer_here(call, session, arguments.parameters)
            )
        command, removed = authorize(arguments.parameters, caller.principal), 0
        if isinstance(command, WITH_MEMORIES[self.redact]):
            command, removed = await self._redact(command)
        if call.report is not None:
            await call.report(*_progress(tool, command, settled=False))
        envelope = Envelope(
            id=uuid7(),
            command=command,
            namespace=caller.namespace,
            principal=caller.principal,
            session=arguments.session or caller.session,
            in_session=tool.takes_session,
            idempotency_key=arguments.idempotency_key,
            # Before references are resolved: a repeated request is the same, though @stored may mean another memory.
            fingerprint=fingerprint(command) if tool.write else "",
            traceparent=subject.traceparent,
            project=compose_letters(caller.project) if caller.project else "",
            together=call.together,
        )
        if tool.takes_references:
            envelope = await resolve_references(tool, envelope, self.sessions)
        answer = await self._ask(envelope, subject)
        if isinstance(answer, Unanswered):
            names = stood_for(envelope.references) if envelope.references else UNSET
            body = to_body(PendingReply(command_id=answer.command_id, resolved_references=names))
            return ToolReply(body, text_of(body), is_error=False)
        if call.report is not None:
            await call.report(*_progress(tool, command, settled=True))
        return await self._reply(call, audience, arguments, envelope, answer, removed)

    async def _redact(self, command: commands.Command) -> tuple[commands.Command, int]:
        """Return the command without secrets, and how many were taken out of it."""
        # A caller who has gone ends it: a batch may take seconds.
        return await anyio.to_thread.run_sync(
            redact_command, command, self.redact, anyio.from_thread.check_cancelled, limiter=self.redacting
        )

    async def _ask(self, envelope: Envelope, subject: Subject) -> commands.Reply | Unanswered:
        """Return the reply to a command, or that it is pending; raises EngramqError, with what references stood for."""
        try:
            sent = envelope
            if getattr(envelope.command, cursors.CURSOR, UNSET) is not UNSET:
                secret = await self.secrets.cursor_secret()
                sent = msgspec.structs.replace(envelope, command=cursors.unseal_cursor(envelope, secret))
            subject.command_id = envelope.id
            answer = await self.bus.send(sent, sent.command.patience_s)
            if isinstance(answer, Unanswered) and envelope.command.write:
                return answer
            if isinstance(answer, Unanswered):  # a read that was not answered in time never will be
                raise refuse(FaultCode.UNAVAILABLE, "No worker answered in time.")
            if answer.reply is None:
                raise EngramqError(_fault_of(answer))
        except EngramqError as refused:
            raise EngramqError(add_references(refused.fault, envelope.references)) from refused
        if envelope.references and answer.reply.resolved_references is UNSET:
            answer.reply.resolved_references = stood_for(envelope.references)
        return answer.reply

    async def _reply(
        self,
        call: Call,
        audience: Audience,
        arguments: Arguments,
        envelope: Envelope,
        reply: commands.Reply,
        removed: int,
    ) -> ToolReply:
        """Return a worker's reply as the client reads it. `removed`: so many secrets were taken out of the command."""
        principal, command = call.caller.principal, cast(commands.Command, arguments.parameters)
        notice = notice_of(reply, command, principal, removed) if call.tool.write else None
        if Scope.READ not in principal.scopes:
            body = withheld_body_of(reply, command, principal.name, notice)
        else:
            is_for_program = REPLY_CHARS_MAX in (arguments.max_chars, self.style.max_chars)
            detail, reader = arguments.detail or self.style.detail, principal.acts_for or principal.name
            body = body_of(reply, detail, reader, with_nulls=is_for_program)
            if notice is not None:
                body["notice"] = " ".join(filter(None, (body.get("notice"), notice)))
        if not isinstance(reply, Page) or not isinstance(after := getattr(reply, cursors.NEXT_CURSOR), str | None):
            return await self._render(call, audience, arguments, body)
        # A page may have to end early, and then ends with another cursor, which is as long.
        secret = await self.secrets.cursor_secret()
        seal = partial(cursors.seal_cursor, secret=secret, envelope=envelope)
        ends = reply.positions()
        body[cursors.NEXT_CURSOR] = seal(ends[-1]) if ends else None
        body = (await self._render(call, audience, arguments, body)).body
        shown = len(body[reply.listed])
        if shown == len(ends):
            body[cursors.NEXT_CURSOR] = None if after is None else seal(after)
        else:
            body[cursors.NEXT_CURSOR] = seal(ends[shown - 1])
        if call.tool.bounded:
            end_without_cursor(body, arguments.max_chars or self.style.max_chars)
        return ToolReply(body, text_of(body), is_error=False)

    async def _render(self, call: Call, audience: Audience, arguments: Arguments, body: Body) -> ToolReply:
        """Return a reply for its audience: in words that fit their tools, and within its budget."""
        if audience.absent is not None:
            body = reword_body(body, audience)
        budget, asked = arguments.max_chars or self.style.max_chars, arguments.parameters
        if isinstance(asked, commands.GetMemory):
            body = cut_to_part(body, asked.part, budget)
        if isinstance(asked, commands.GetCommand) and asked.first:
            begin_at(body, asked.first)
        text = text_of(body)
        if not call.tool.bounded or len(text) <= budget:
            return ToolReply(body, text, is_error=False)
        is_full, items = (arguments.detail or self.style.detail) is Detail.FULL, items_of(body)

        def rest(needed: int) -> str:
            if any(items):
                return rest_of_items(body)
            return reword_for(rest_of(call.tool, body, is_full=is_full, needed=needed), audience)

        def cut() -> str:
            query = asked.query if isinstance(asked, commands.SearchMemories) else ""
            return fit_to_budget(body, budget, rest, words_of(read_prompt(query).words))

        # Sentences of many long texts take a second, in which others are answered.
        text = cut() if len(text) <= AT_ONCE_CHARS else await anyio.to_thread.run_sync(cut)
        if any(items):
            tell_next(body, items)
            text = text_of(body)
        return ToolReply(body, text, is_error=False)

    async def _answer_here(self, call: Call, session: str, asked: msgspec.Struct) -> Body:
        """Return the reply to a tool that no worker is asked for."""
        principal = call.caller.principal
        reply: msgspec.Struct
        match call.tool.name:
            case "begin_session":
                session = session or fresh_session()
                instance = await self.sessions.begin(call.caller.namespace, principal.identity, session)
                reply = commands.SessionBegun(session=session, instance=instance)
            case "get_breadcrumbs":
                if not session:
                    raise no_session("session", "There is no session whose breadcrumbs could be read.")
                reply = await self.sessions.read(call.caller.namespace, principal.identity, session)
            case _:
                assert isinstance(asked, commands.GuideTopic)
                audience = audience_of(call.tools, principal.scopes, principal.untrusted)
                reply = explain(asked, audience, tools_for(call.unlisted, principal), in_session=bool(session))
        return to_body(reply)


def _progress(tool: commands.Tool, command: commands.Command, *, settled: bool) -> tuple[int, int, str]:
    """Return how far a batch is, as a report takes it: its items are checked, or all settled, in one transaction."""
    items = [item for name in tool.batches for item in getattr(command, name)]
    total, refused = len(items), sum(item.fault is not UNSET for item in items)
    state = "settled" if settled else f"checked, {refused} refused"
    return total if settled else 0, total, f"{count_of(total, 'item')} {state}"


def fault_reply(fault: Fault, audience: Audience) -> ToolReply:
    """Return a refusal as this client reads it."""
    body = reword_body(fault_body(fault), audience)
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
