"""Linking by query: the memory that best matches one query, linked to the one that best matches another.

Looked up by plain cosine of the content, under the visibility rule.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas.codec import fault_body, reply_body
from engramq.schemas.commands import ConnectByQuery, LinkRequest, QueryConnected
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.vocabulary import Partition, QueryLinkAction
from engramq.workers.db.memory_rows import similarity
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes, send_nearest
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.other_models import Reading
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links.replies import connected
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.writer import assert_one

DIGITS: Final = 4  # of confidence
NEAR: Final = 5  # looked at, since the order that the vector index gives is only nearly right


class Found(NamedTuple):
    """The memory that matches best, and its cosine."""

    memory_id: str
    content: str
    cosine: float


class Guess(NamedTuple):
    """What a query found, with the chance that it is what was meant; nothing at all is never that."""

    found: Found | None
    confidence: float | None


Guesses = tuple[Guess, Guess]


async def embed(command: ConnectByQuery, vectorizer: Vectorizer, confidence: Confidence) -> Reading:
    """Return both queries embedded; raises EngramqError with `unavailable` when the model is away."""
    try:
        embeddings = await vectorizer.embed([command.source_query, command.target_query])
        return Reading(embeddings, await confidence.calibration())
    except EmbedderUnavailable as problem:
        raise _unavailable(problem) from problem


async def guess(tx: Transaction, sizes: Sizes, readings: Sequence[Reading], project: str | None) -> Guesses:
    """Return the best match of each query in this project and in none, and how sure it is: the surest of all models."""
    of_models = [
        [
            Guess(one, None if one is None else round(reading.curve.confidence(one.cosine), DIGITS))
            for one in await best_matches(tx, sizes, reading.embeddings, project)
        ]
        for reading in readings
    ]
    source, target = (max(guesses, key=_sureness) for guesses in zip(*of_models, strict=True))
    return source, target


def _sureness(guess: Guess) -> float:
    return -1.0 if guess.confidence is None else guess.confidence


async def best_matches(
    tx: Transaction, sizes: Sizes, embeddings: Sequence[Embedding], project: str | None
) -> list[Found | None]:
    """Return the nearest active trusted memory to each embedding, None where there is none; see `send_nearest`."""
    sent = [await send_nearest(tx, sizes, one, (Partition.TRUSTED,), k=NEAR, project=project) for one in embeddings]
    rows = [await one.fetchone() for one in sent]
    return [None if row is None else Found(str(row["id"]), row["content"], similarity(row["distance"])) for row in rows]


async def connect(
    tx: Transaction, command: ConnectByQuery, guesses: Guesses, *, envelope: Envelope, rules: LinkRules
) -> QueryConnected:
    """Link what was found if it is sure enough, as `connect` does; say what came of it."""
    reply = reply_before(command, guesses)
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
        made = connected(await assert_one(tx, request, envelope=envelope, rules=rules))
    except EngramqError as refusal:  # nothing has been written then
        named = msgspec.structs.replace(refusal.fault, command_id=envelope.id)
        reply.action, reply.connect_result = QueryLinkAction.REFUSED, fault_body(named)
        reply.summary = f"Refused: {refusal.fault.error}"
    else:
        made.command_id = envelope.id
        reply.connect_result, reply.summary = reply_body(made), made.summary
    return reply


def reply_before(command: ConnectByQuery, guesses: Guesses) -> QueryConnected:
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


def _action(command: ConnectByQuery, guesses: Guesses) -> QueryLinkAction:
    source, target = guesses
    if any(one.confidence is None or one.confidence < command.min_confidence for one in guesses):
        return QueryLinkAction.INSUFFICIENT_CONFIDENCE
    assert source.found is not None
    assert target.found is not None
    if source.found.memory_id == target.found.memory_id:
        return QueryLinkAction.SAME_MEMORY
    return QueryLinkAction.DRY_RUN_PREVIEW if command.dry_run else QueryLinkAction.CONNECTED


def _summary(action: QueryLinkAction, command: ConnectByQuery, guesses: Guesses) -> str:
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
