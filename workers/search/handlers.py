"""Carries out the search of memories."""

import asyncio
from uuid import UUID

from msgspec import UNSET

from engramq.schemas.commands import MemoryList, SearchMemories
from engramq.schemas.vocabulary import Partition
from engramq.workers.db.transaction import Transaction
from engramq.workers.db.vectors import Embedding, Sizes
from engramq.workers.embedders.vectorizer import Vectorizer
from engramq.workers.handling import Context, handles
from engramq.workers.links.co_retrieval import CoRetrievals
from engramq.workers.queue.contract import SessionState, SessionUse
from engramq.workers.search.search import find_memories
from engramq.workers.search.usage import Usage


async def embed_query(command: SearchMemories, context: Context) -> Embedding | None:
    """Return the query's embedding; None when nothing can be found, or when the model cannot be reached."""
    return None if command.sectors == () else await context.services[Vectorizer].try_embed(command.query)


@handles(SearchMemories, before=embed_query)
async def search_memories(
    tx: Transaction, command: SearchMemories, context: Context, embedding: Embedding | None
) -> MemoryList:
    """Find memories. While the model is away words alone decide, whatever ranking was asked for."""
    if command.sectors == ():
        context.session_state = SessionState(recalled=())
        return MemoryList(memories=[], count=0)
    memories = await find_memories(tx, context.services[Sizes], command, embedding)
    context.session_state = SessionState(recalled=tuple(one.id for one in memories))
    # An untrusted principal keeps no trusted memory from fading.
    untrusted = context.envelope.principal.untrusted
    counting = [one for one in memories if not (untrusted and one.partition is Partition.TRUSTED)]

    async def count(use: SessionUse | None) -> None:
        await asyncio.gather(
            context.services[Usage].note(context.envelope.namespace, [UUID(one.id) for one in counting]),
            context.services[CoRetrievals].note(counting, use),
        )

    context.after_reply = count if counting else None
    return MemoryList(memories=memories, count=len(memories), degraded=True if embedding is None else UNSET)
