"""Show beside a hit that asks for something what followed it in its thread: the answer often stands there."""

import logging
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET

from engramq.schemas import limits
from engramq.schemas.faults import EngramqError
from engramq.schemas.passages import Passages, words_of
from engramq.schemas.pastes import asks
from engramq.schemas.records import FollowedBy, Memory
from engramq.workers.db.errors import StatementTimeout
from engramq.workers.db.lookups import Ask, array
from engramq.workers.db.queries import sql
from engramq.workers.db.transaction import Lookup
from engramq.workers.search.candidates import Filters

log = logging.getLogger(__name__)

FOLLOWED_BY: Final = sql("followed_by")
ASKING: Final = 5  # hits that get what followed them: the first that ask


class _Reply(NamedTuple):
    hit: str
    id: str
    speaker: str | None
    content: str


_replies: Final = msgspec.json.Decoder(list[_Reply])


async def add_replies(ask: Ask, memories: Sequence[Memory], question: str, filters: Filters) -> None:
    """Give the first hits that ask what followed them, unless the database fails at that.

    Nothing is looked up where none asks in a thread.
    """
    in_threads = (memory for memory in memories if memory.thread is not None and asks(memory.content))
    asking = {memory.id: memory for memory in islice(in_threads, ASKING)}
    if not asking:
        return
    try:
        (answer,) = await ask([Lookup(FOLLOWED_BY, {"ids": array(list(asking)), **filters.visible})])
    except (EngramqError, StatementTimeout) as problem:  # the hits are known, and are the answer
        log.warning("What followed was not looked up: %s", problem)
        return
    words = words_of(question)
    for reply in _replies.decode(answer) if answer is not None else ():
        asking[reply.hit].followed_by = FollowedBy(
            id=reply.id,
            speaker=UNSET if reply.speaker is None else reply.speaker,
            passage=Passages(reply.content, words).within(limits.FOLLOWED_CHARS),
        )
