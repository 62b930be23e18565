"""Connect by query: link the memory that best matches one query to the one that best matches another.

Looked up by plain cosine of the content, under the visibility rule.
"""

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.commands import ConnectByQuery, LinkRequest, QueryConnected, Reply
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import Partition, QueryLinkAction
from engramq.workers.db.memory_rows import similarity
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes, send_nearest
from engramq.workers.embedders.confidence import ConfidenceCurve
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.other_models import ForeignVectors, FormerQuestions
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.connect import assert_link
from engramq.workers.links.rules import LinkRules
from engramq.workers.runner import Context, handles
from engramq.workers.trust import require_trusted

DIGITS: Final = 4  # of confidence
NEAR: Final = 5  # looked at, since the order that the vector index gives is only nearly right


class QueryMatch(NamedTuple):
    """The memory that matches a query best."""

    memory_id: str
    content: str


class Guess(NamedTuple):
    """A match of a query, with the chance that it is the one that was meant; without a match it never is."""

    match: QueryMatch | None
    confidence: float | None


Guesses = tuple[Guess, Guess]


async def look_up_ends(command: ConnectByQuery, context: Context) -> tuple[Guesses, str | UnsetType]:
    """Find the memories that two queries mean in this project and in none, and what has to be said of the search.

    How sure that is says the surest of all models. Raises EngramqError: `forbidden`, `unavailable` without a model.
    """
    require_trusted(context.envelope.principal, "not look up trusted memories to link them")
    queries, namespace = [command.source_query, command.target_query], context.envelope.namespace
    try:
        embeddings = await context.services[Vectorizer].embed(queries)
        own = FormerQuestions(embeddings, await context.services[ConfidenceCurve].calibration())
    except EmbedderUnavailable as problem:
        pause = problem.retry_after_s
        raise refuse(
            FaultCode.UNAVAILABLE,
            f"The model that looks queries up is away: {problem.reason}.",
            retry_after_s=UNSET if pause is None else pause,
        ) from problem
    foreign, sizes = context.services[ForeignVectors], context.services[Sizes]
    project = context.envelope.project_named()
    seen = namespace, context.store.viewer
    await foreign.refresh(seen)
    others = await foreign.read(seen, (Partition.TRUSTED,), embeddings[0].model_id, queries)

    async def guess(tx: Transaction) -> Guesses:
        by_model = [await _guesses(tx, sizes, reading, project) for reading in (own, *others.readings)]
        source, target = (max(guesses, key=_sureness) for guesses in zip(*by_model, strict=True))
        return source, target

    return await context.store.read(namespace, guess), others.notice


async def _guesses(tx: Transaction, sizes: Sizes, reading: FormerQuestions, project: str | None) -> list[Guess]:
    """Return the nearest active trusted memory to each query as one model reads it; see `send_nearest`."""
    sent = [
        await send_nearest(tx, sizes, embedding, Partition.TRUSTED, k=NEAR, project=project)
        for embedding in reading.embeddings
    ]
    guesses = []
    for rows in sent:
        if (row := await rows.fetchone()) is None:
            guesses.append(Guess(None, None))
            continue
        confidence = round(reading.curve.confidence(similarity(row["distance"])), DIGITS)
        guesses.append(Guess(QueryMatch(str(row["id"]), row["content"]), confidence))
    return guesses


def _sureness(guess: Guess) -> float:
    return -1.0 if guess.confidence is None else guess.confidence


def leaves_nothing(command: ConnectByQuery, envelope: Envelope) -> bool:
    """Say whether this is a dry run that nobody can ask for again."""
    return command.dry_run and envelope.idempotency_key is None


async def add_queries(reply: Reply, command: ConnectByQuery, context: Context) -> None:
    """Put the queries back into the reply: the ledger does not keep what was asked."""
    if isinstance(reply, QueryConnected):
        reply.source_query, reply.target_query = command.source_query, command.target_query
        reply.command_id = reply.command_id or context.envelope.id


@handles(ConnectByQuery, before=look_up_ends, after=add_queries, unrecorded=leaves_nothing)
async def connect_by_query(
    tx: Transaction, command: ConnectByQuery, context: Context, looked_up: tuple[Guesses, str | UnsetType]
) -> QueryConnected:
    """Link what two queries mean if it is sure enough, as `connect` does. Breadcrumbs and counters stay as they are."""
    guesses, notice = looked_up
    action, envelope = _action(command, guesses), context.envelope
    (source, source_confidence), (target, target_confidence) = guesses
    reply = QueryConnected(
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
        notice=notice,
    )
    if action is not QueryLinkAction.CONNECTED:
        return reply
    assert source is not None
    assert target is not None
    request = LinkRequest(
        source=source.memory_id,
        target=target.memory_id,
        relation=command.relation,
        note=command.note,
        if_exists=command.if_exists,
    )
    try:
        connected = await assert_link(tx, request, envelope=envelope, rules=context.services[LinkRules])
    except EngramqError as refusal:  # nothing has been written then
        named = msgspec.structs.replace(refusal.fault, command_id=envelope.id)
        reply.action, reply.connect_result = QueryLinkAction.REFUSED, fault_body(named)
        reply.summary = f"Refused: {refusal.fault.error}"
    else:
        connected.command_id = envelope.id
        reply.connect_result, reply.summary = reply_body(connected), connected.summary
    return reply


def _action(command: ConnectByQuery, guesses: Guesses) -> QueryLinkAction:
    source, target = guesses
    if any(_sureness(guess) < command.min_confidence for guess in guesses):
        return QueryLinkAction.INSUFFICIENT_CONFIDENCE
    if source.match is not None and target.match is not None and source.match.memory_id == target.match.memory_id:
        return QueryLinkAction.SAME_MEMORY
    return QueryLinkAction.DRY_RUN_PREVIEW if command.dry_run else QueryLinkAction.CONNECTED


def _summary(action: QueryLinkAction, command: ConnectByQuery, guesses: Guesses) -> str:
    source, target = (guess.match and guess.match.memory_id for guess in guesses)
    match action:
        case QueryLinkAction.INSUFFICIENT_CONFIDENCE:
            weak = [
                f"{which} {'found nothing' if guess.confidence is None else f'is sure by {guess.confidence:.2f} only'}"
                for which, guess in zip(("source_query", "target_query"), guesses, strict=True)
                if _sureness(guess) < command.min_confidence
            ]
            return f"Nothing was linked: {' and '.join(weak)}, and min_confidence is {command.min_confidence:.2f}."
        case QueryLinkAction.SAME_MEMORY:
            return f"Nothing was linked: both queries mean memory {source}."
        case QueryLinkAction.DRY_RUN_PREVIEW:
            return f"Nothing was written: {source} and {target} would be linked."
        case _:
            return ""  # what connect says
