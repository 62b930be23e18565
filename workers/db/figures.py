"""Count what the whole store holds, at a cost that does not grow with it: estimates, and counts with a bound."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from engramq.schemas import limits
from engramq.workers.db import namespaces, reembedding
from engramq.workers.db.database import Store
from engramq.workers.db.namespaces import Looks
from engramq.workers.db.transaction import Transaction

NAMESPACES_MAX: Final = 100  # of those that changed, in which pending memories are counted
MESSAGES_MAX: Final = 10_000  # of webhooks, of each sort


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFigures:
    """Undelivered messages of all webhooks here: `waiting`, the oldest for `oldest_s` seconds; `dead`, given up.

    `due` are those of the waiting that could be sent now; the others wait for their next try. Each count ends at
    MESSAGES_MAX.
    """

    due: int
    waiting: int
    oldest_s: float
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFigures:
    """The totals of all namespaces.

    `memories` is an estimate; `pending` counts memories without a vector up to a bound; `unfinished` counts namespaces
    that upkeep has to look at; `reembedding` is how many memories still have vectors of another model while they are
    made anew.
    """

    memories: int
    bytes: int
    pending: int
    unfinished: int
    reembedding: int
    webhooks: WebhookFigures


async def webhook_figures(store: Store) -> WebhookFigures:
    """Count the messages of webhooks; raises EngramqError (`unavailable`)."""
    (row,) = await store.ask("webhook_messages_counted", limit=MESSAGES_MAX)
    return WebhookFigures(due=row["due"], waiting=row["waiting"], oldest_s=row["oldest_s"], dead=row["dead"])


async def store_figures(store: Store) -> StoreFigures:
    """Return the figures of the store; raises EngramqError (`unavailable`)."""
    (size,) = await store.ask("store_size")
    unfinished = await namespaces.find_changed(store, Looks.SWEEP)
    change = await reembedding.progress(store)
    return StoreFigures(
        memories=size["memories"],
        bytes=size["bytes"],
        pending=await _pending(store, unfinished),
        unfinished=len(unfinished),
        reembedding=0 if change is None else change.remaining,
        webhooks=await webhook_figures(store),
    )


async def _pending(store: Store, namespaces: Iterable[str]) -> int:
    """Count pending memories: only a namespace with a change that is not settled can have some."""
    pending = 0
    for namespace in islice(namespaces, NAMESPACES_MAX):
        if pending < limits.PENDING_COUNTED:
            row = await store.read(
                namespace, partial(Transaction.row, query="pending_counted", limit=limits.PENDING_COUNTED - pending)
            )
            assert row is not None
            pending += int(row["pending"])
    return pending
