"""connect_by_query: link the memory that best matches one query to the one that best matches another."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.commands import Command, ConnectByQuery, LinkRequest, QueryConnected
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import QueryLinkAction
from engramq.workers.db.database import Store
from engramq.workers.db.ledger import Effect, Ledger
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.best_matches import Found, best_matches
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import connect
from engramq.workers.queue.contract import Handler, Job, Outcome

DIGITS: Final = 4  # of confidence


class Guess(NamedTuple):
    """What a query found, with the chance that it is what was meant; nothing at all is never that."""

    found: Found | None
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLinker:
    """The handler of the command. Breadcrumbs and counters stay as they are."""

    store: Store
    ledger: Ledger
    vectorizer: Vectorizer
    sizes: Sizes
    confidence: Confidence
    rules: LinkRules

    async def connect(self, job: Job) -> Outcome:
        """Carry out ConnectByQuery. A dry run is not even noted in the ledger, unless it may be asked for again."""
        command, envelope = job.envelope.command, job.envelope
        assert isinstance(command, ConnectByQuery)
        if envelope.principal.untrusted:
            raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not look up trusted memories to link them.")

        async def prepare() -> Effect:
            guesses = await self._guess(job, command)
            return lambda tx: self._carry_out(tx, job, command, guesses)

        if command.dry_run and envelope.idempotency_key is None:
            reply = told(command, await self._guess(job, command))
            reply.command_id = envelope.id
            return Outcome(reply)
        recorded = await self.ledger.run_prepared(job, prepare)
        reply_ = recorded.reply
        if isinstance(reply_, QueryConnected):  # the ledger does not keep what was asked
            reply_.source_query, reply_.target_query = command.source_query, command.target_query
        return Outcome(reply_, replayed=recorded.replayed)

    async def _guess(self, job: Job, command: ConnectByQuery) -> tuple[Guess, Guess]:
        try:
            embeddings = await self.vectorizer.embed([command.source_query, command.target_query])
            curve = await self.confidence.calibration()
        except EmbedderUnavailable as problem:
            raise _unavailable(problem) from problem
        found = await self.store.read(job.envelope.namespace, lambda tx: best_matches(tx, self.sizes, embeddings))
        source, target = (
            Guess(one, None if one is None else round(curve.confidence(one.cosine), DIGITS)) for one in found
        )
        return source, target

    async def _carry_out(
        self, tx: Transaction, job: Job, command: ConnectByQuery, guesses: tuple[Guess, Guess]
    ) -> QueryConnected:
        reply = told(command, guesses)
        if reply.action is not QueryLinkAction.CONNECTED:
            return reply
        assert reply.source_id is not None
        assert reply.target_id is not None
        request = LinkRequest(
            source=reply.source_id,
            target=reply.target_id,
            relation=command.relation,
            note=command.note,
            if_exists=command.if_exists,
        )
        try:
            made = await connect(tx, request, envelope=job.envelope, rules=self.rules)
        except EngramqError as refusal:  # nothing has been written then
            named = msgspec.structs.replace(refusal.fault, command_id=job.envelope.id)
            reply.action, reply.connect_result = QueryLinkAction.REFUSED, fault_body(named)
            reply.summary = f"Refused: {refusal.fault.error}"
        else:
            made.command_id = job.envelope.id
            reply.connect_result, reply.summary = reply_body(made), made.summary
        return reply


def told(command: ConnectByQuery, guesses: tuple[Guess, Guess]) -> QueryConnected:
    """Return the answer as far as it is known before anything is written."""
    action = _action(command, guesses)
    (source, source_confidence), (target, target_confidence) = guesses
    return QueryConnected(
        action=action,
        source_query=command.source_query,
        target_query=command.target_query,
        source_id=source and source.memory_id,
        target_id=target and target.memory_id,
        source_content=source and source.content,
        target_content=target and target.content,
        source_confidence=source_confidence,
        target_confidence=target_confidence,
        connect_result=None,
        summary=_summary(action, command, guesses),
    )


def _action(command: ConnectByQuery, guesses: tuple[Guess, Guess]) -> QueryLinkAction:
    source, target = guesses
    if any(one.confidence is None or one.confidence < command.min_confidence for one in guesses):
        return QueryLinkAction.INSUFFICIENT_CONFIDENCE
    assert source.found is not None
    assert target.found is not None
    if source.found.memory_id == target.found.memory_id:
        return QueryLinkAction.SAME_MEMORY
    return QueryLinkAction.DRY_RUN_PREVIEW if command.dry_run else QueryLinkAction.CONNECTED


def _summary(action: QueryLinkAction, command: ConnectByQuery, guesses: tuple[Guess, Guess]) -> str:
    source, target = (one.found and one.found.memory_id for one in guesses)
    match action:
        case QueryLinkAction.INSUFFICIENT_CONFIDENCE:
            weak = [
                f"{which} {'found nothing' if one.confidence is None else f'is sure by {one.confidence:.2f} only'}"
                for which, one in zip(("source_query", "target_query"), guesses, strict=True)
                if one.confidence is None or one.confidence < command.min_confidence
            ]
            return f"Nothing was linked: {' and '.join(weak)}, and min_confidence is {command.min_confidence:.2f}."
        case QueryLinkAction.SAME_MEMORY:
            return f"Nothing was linked: both queries mean memory {source}."
        case QueryLinkAction.DRY_RUN_PREVIEW:
            return f"Nothing was written: {source} and {target} would be linked."
        case _:
            return ""  # what connect says


def _unavailable(problem: EmbedderUnavailable) -> EngramqError:
    pause = problem.failure.retry_after_s
    return refuse(
        FaultCode.UNAVAILABLE,
        f"The model that looks queries up is away: {problem.failure.reason}.",
        retry_after_s=UNSET if pause is None else pause,
    )


def handlers(linker: QueryLinker) -> Mapping[type[Command], Handler]:
    """Return the handler by its command."""
    return {ConnectByQuery: linker.connect}
