"""Make the words of a namespace's memories anew, in the background: after a change of its language, or of their rule.

The database says where it is, so a crash or a stop costs nothing. It goes through a namespace by ids, a few memories a
transaction, gives way to callers, and writes those only whose words change. After a change of its language searches
miss nothing meanwhile (see lexeme_rebuilds in `workers/db/schema.sql`); after one of the rule they find by the words
that both rules share.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from engramq.workers.db import namespaces
from engramq.workers.db.database import Store
from engramq.workers.db.transaction import Transaction
from engramq.workers.queue.background import Activity

log = logging.getLogger(__name__)


AT_ONCE: Final = 25  # memories of a transaction: each one that changes costs inserts into all indexes, 3 to 5 ms
TURN: Final = 40  # transactions of a namespace before it is another's turn
GIVE_WAY_MAX_S: Final = 0.25  # how long each of them waits while somebody waits for this process
# After a change, until no transaction is left that began before it and stores words of before: they last 30 s at most
# (`transaction_timeout` of the workers' sessions).
SETTLED_S: Final = 60.0


@dataclass(slots=True, kw_only=True)
class Rebuilding:
    """One per process."""

    store: Store
    activity: Activity
    stopping: asyncio.Event
    settled_s: float = SETTLED_S

    async def run(self) -> None:
        """Make anew what can be; what has to wait is done by a later call."""
        waiting = [row["namespace"] for row in await self.store.ask("rebuilding_namespaces")]
        while waiting and not self.stopping.is_set():
            waiting = [each for each in waiting if await self.store.apart(each, self._work(each), False)]

    async def _work(self, namespace: str) -> bool:
        """Take a turn at a namespace; return whether there is more to do now."""
        for _ in range(TURN):
            if self.stopping.is_set():
                return False
            await self.activity.pause(0.0, GIVE_WAY_MAX_S, self.stopping)
            if not await self.store.write(namespace, self._rebuild_some):
                return False
        return True

    async def _rebuild_some(self, tx: Transaction) -> bool:
        """Make the words of some memories anew; return whether the pass goes on."""
        await tx.send("commit_without_waiting")
        place = await tx.row("take_rebuild", settled_s=self.settled_s)
        if place is None:
            return False
        found = await tx.only_row("rebuild_lexemes", after_id=place["after_id"], limit=AT_ONCE)
        if found["seen"] == AT_ONCE:
            await tx.send("note_rebuilt", after_id=found["last"], seen=found["seen"])
        elif place["is_last"]:
            await tx.send("end_rebuild")
            await namespaces.note(tx)  # the words are to be counted anew
            log.info("Words made anew", extra={"namespace": tx.namespace})
        else:
            await tx.send("end_pass")
        return bool(found["seen"] == AT_ONCE)
