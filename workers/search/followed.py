"""Show beside a hit that asks for something what followed it in its thread: the answer often stands there."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.passages import Passages, words_of
from engramq.schemas.pastes import asks
from engramq.schemas.records import FollowedBy, Memory
from engramq.workers.db.lookups import Ask, array
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup
from engramq.workers.search.candidates import Filters, single_partitions

FOLLOWED_BY: Final = sql("followed_by")


class _Reply(NamedTuple):
    hit: str
    id: str
    speaker: str | None
    content: str


_replies: Final = msgspec.json.Decoder(list[_Reply])


async def add_replies(ask: Ask, memories: Sequence[Memory], question: str, filters: Filters) -> None:
    """Give hits that ask what followed them; nothing is looked up where none asks in a thread."""
    asking = {memory.id: memory for memory in memories if memory.thread is not None and asks(memory.content)}
    if not asking:
        return
    values = {
        "ids": array(list(asking)),
        "partitions": array(filters.partitions),
        **single_partitions(filters.partitions),
        "include_superseded": filters.include_superseded,
        "as_of": filters.as_of,
    }
    (answer,) = await ask([Lookup(FOLLOWED_BY, values)])
    words = words_of(question)
    for reply in _replies.decode(answer) if answer is not None else ():
        asking[reply.hit].followed_by = FollowedBy(
            id=reply.id,
            speaker=UNSET if reply.speaker is None else reply.speaker,
            passage=Passages(reply.content, words).within(limits.FOLLOWED_CHARS),
        )
