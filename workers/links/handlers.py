"""Carries out the commands on links between memories.

An untrusted principal may link and disconnect untrusted memories only.
"""

from msgspec import UnsetType

from engramq.schemas.commands import (
    BatchConnected,
    Connect,
    ConnectByQuery,
    Connected,
    Connects,
    Disconnect,
    Disconnected,
    LinkActivated,
    LinksScheduled,
    OutcomeRecorded,
    QueryConnected,
    RecordOutcome,
    Reply,
)
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Sizes
from engramq.workers.embedders.confidence import Confidence
from engramq.workers.embedders.other_models import ForeignVectors
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.links import disconnect, lookup, outcomes, writer
from engramq.workers.links.lookup import Guesses
from engramq.workers.links.replies import connected
from engramq.workers.links.rules import LinkRules
from engramq.workers.links.similarity import SimilarityLinker
from engramq.workers.queue.contract import SessionUse
from engramq.workers.runner import Context, handles, handles_without_transaction


@handles(Connect)
async def connect(tx: Transaction, command: Connect, context: Context) -> Connected:
    """Assert that two memories are related."""
    rules = context.services[LinkRules]
    return connected(await writer.assert_one(tx, command, envelope=context.envelope, rules=rules))


@handles(Connects)
async def connect_all(tx: Transaction, command: Connects, context: Context) -> BatchConnected:
    """Assert many links."""
    return await writer.assert_all(tx, command, envelope=context.envelope, rules=context.services[LinkRules])


@handles(Disconnect)
async def disconnect_memories(tx: Transaction, command: Disconnect, context: Context) -> Disconnected:
    """Remove the link between two memories."""
    return await disconnect.disconnect(tx, command, context.envelope)


@handles(RecordOutcome)
async def record_outcome(tx: Transaction, command: RecordOutcome, context: Context) -> OutcomeRecorded:
    """Note how much memories helped."""
    if context.envelope.principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not record outcomes.")
    return await outcomes.record_outcome(tx, command, envelope=context.envelope, rules=context.services[LinkRules])


async def look_up(command: ConnectByQuery, context: Context) -> tuple[Guesses, str | UnsetType]:
    """Find the memories that two queries mean, and what has to be said of the search.

    Raises EngramqError: `forbidden`, `unavailable` without a model.
    """
    if context.envelope.principal.untrusted:
        raise refuse(FaultCode.FORBIDDEN, "An untrusted principal may not look up trusted memories to link them.")
    asked = await lookup.embed(command, context.services[Vectorizer], context.services[Confidence])
    sizes, namespace, foreign = context.services[Sizes], context.envelope.namespace, context.services[ForeignVectors]
    project = context.envelope.project_named()
    await foreign.refresh(namespace)
    others = await foreign.read(
        namespace, (Partition.TRUSTED,), asked.embeddings[0].model_id, [command.source_query, command.target_query]
    )
    readings = [asked, *others.readings]
    guesses = await context.store.read(namespace, lambda tx: lookup.guess(tx, sizes, readings, project))
    return guesses, others.notice


def leaves_nothing(command: ConnectByQuery, envelope: Envelope) -> bool:
    """Say whether this is a dry run that nobody can ask for again."""
    return command.dry_run and envelope.idempotency_key is None


async def say_queries(reply: Reply, command: ConnectByQuery, context: Context) -> None:
    """Put the queries back into the reply: the ledger does not keep what was asked."""
    if isinstance(reply, QueryConnected):
        reply.source_query, reply.target_query = command.source_query, command.target_query
        reply.command_id = reply.command_id or context.envelope.id


@handles(ConnectByQuery, before=look_up, after=say_queries, unrecorded=leaves_nothing)
async def connect_by_query(
    tx: Transaction, command: ConnectByQuery, context: Context, found: tuple[Guesses, str | UnsetType]
) -> QueryConnected:
    """Link the memories that two queries mean. Breadcrumbs and counters stay as they are."""
    guesses, notice = found
    rules = context.services[LinkRules]
    reply = await lookup.connect(tx, command, guesses, envelope=context.envelope, rules=rules)
    reply.notice = notice
    return reply


@handles_without_transaction(LinkActivated)
async def link_activated(command: LinkActivated, context: Context) -> LinksScheduled:
    """Take memories to be linked after the reply, with those that come meanwhile."""
    linker = context.services[SimilarityLinker]

    async def link(_use: SessionUse | None) -> None:
        await linker.link_scheduled()

    context.after_reply = link
    return LinksScheduled(scheduled=linker.schedule(context.envelope.namespace, command.memories))
