"""What a fault has cost: every caller's account against the database, and against what tools say afterwards."""

import asyncio
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from engramq.workers.queue.dead_letters import DeadLetter
from engramq.workers.upkeep.unfinished import ROUND_EVERY_S
from tests.faults.callers import Cut, LoadClient, NotSent
from tests.faults.load import SIGNAL, Account, Fate, Stored

LOOKED_UP_MAX = 400  # stores that are looked for by tools as well
AT_ONCE = 8
TRIES = 5
FINISHED_S = ROUND_EVERY_S + 60.0  # beyond the newest thousand memories upkeep looks so often
FINISHED_WATCH_S = 0.2
SETTLED_S = 60.0  # within which all that was told pending ends
ENDED = {"done", "failed"}
UNDER_WAY = {"pending", "running", "error"}  # an error is of the call itself
UNFINISHED = """
    select count(*) as n from memories
    where content like %s and (sector_source is null or links_made_at is null)
"""


class Site(Protocol):
    """Where the load ran."""

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Ask the database as its owner."""

    async def callers(self, count: int) -> list[LoadClient]:
        """Return new clients."""

    async def dead_letters(self) -> list[DeadLetter]:
        """Return the commands that were given up."""


@dataclass(slots=True)
class Verdict:
    """Counts of what must be none, beside how much there was."""

    stores: int
    outcomes: int
    unknown: int  # stores of which the caller does not know; each may be there once or not at all
    lost: int
    doubled: int
    applied_though_refused: int
    unread: int  # acknowledged, in the database, and not given by get or search
    missed: int  # own stores that a search right after did not find
    forgotten: int  # told pending, and get_command does not know how they ended, which Redis emptied may cause
    unfinished: int  # acknowledged, and still without sector or links when no more of them are finished

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost, doubled or applied against what its caller was told."""
        wrong = (self.lost, self.doubled, self.applied_though_refused, self.unread, self.missed, self.unfinished)
        return not any(wrong)

    def told(self) -> dict[str, int]:
        return asdict(self)


async def verdict(site: Site, account: Account, run: str) -> Verdict:
    """Compare an account with what is there; the stack has to serve again."""
    rows = site.rows(
        "select content, count(*) as n, min(node_id::text) as id from memories where content like %s group by content",
        f"The parcel zq{run}x%",
    )
    there = {row["content"]: row for row in rows}
    acknowledged = account.acknowledged
    lost = [item for item in acknowledged if there.get(item.content, {}).get("id") != item.memory_id]
    refused = [store for store in account.stores if store.fate is Fate.REFUSED and store.content in there]
    outcomes = _outcomes(site, account)
    present = [item for item in acknowledged if item not in lost]
    return Verdict(
        stores=len(acknowledged),
        outcomes=sum(outcome.acknowledged for outcome in account.outcomes.values()),
        unknown=sum(store.fate is Fate.UNKNOWN for store in account.stores),
        lost=len(lost) + outcomes[0],
        doubled=sum(row["n"] > 1 for row in rows) + outcomes[1],
        applied_though_refused=len(refused),
        unread=await _unread(site, present[-LOOKED_UP_MAX:]),
        missed=len(account.misses),
        forgotten=await _forgotten(site, account.pending),
        unfinished=await _unfinished(site, f"The parcel zq{run}x%"),
    )


async def _unfinished(site: Site, contents: str) -> int:
    """Return how many memories still lack what follows a store when upkeep has finished none for a while."""
    (caller,) = await site.callers(1)  # the stack of a home ends when nobody uses it
    try:
        return await _unfinished_at_last(site, contents)
    finally:
        await caller.aclose()


async def _unfinished_at_last(site: Site, contents: str) -> int:
    least, give_up = sys.maxsize, 0.0
    while lacking := int(site.rows(UNFINISHED, contents)[0]["n"]):
        if lacking < least:
            least, give_up = lacking, time.monotonic() + FINISHED_S
        elif time.monotonic() > give_up:
            break
        await asyncio.sleep(FINISHED_WATCH_S)
    return lacking


def _outcomes(site: Site, account: Account) -> tuple[int, int]:
    """Return how many outcomes were lost, and how many there are too many, by what they have added up to."""
    rows = site.rows("select node_id::text as id, helped from memory_usage where helped > 0")
    added = {row["id"]: round(row["helped"] / SIGNAL) for row in rows}
    lost = doubled = 0
    for memory_id, told in account.outcomes.items():
        found = added.get(memory_id, 0)
        lost += max(0, told.acknowledged - found)
        doubled += max(0, found - told.acknowledged - told.unknown)
    return lost, doubled


async def _unread(site: Site, stores: list[Stored]) -> int:
    callers = await site.callers(AT_ONCE)
    waiting = list(stores)
    unread = 0

    async def look(caller: LoadClient) -> None:
        nonlocal unread
        while waiting:
            stored = waiting.pop()
            got = await _asked(caller, "get_memory", memory_id=stored.memory_id)
            found = await _asked(caller, "search_memories", query=stored.word)
            same = (got.get("memory") or {}).get("content") == stored.content
            unread += not (same and stored.memory_id in [item["id"] for item in found.get("memories", ())])

    await asyncio.gather(*(look(caller) for caller in callers))
    for caller in callers:
        await caller.aclose()
    return unread


async def _forgotten(site: Site, commands: list[str]) -> int:
    """Return how many commands have not ended, as far as get_command knows, when each had its time to."""
    (caller,) = await site.callers(1)
    forgotten, until = 0, time.monotonic() + SETTLED_S
    for command in commands:
        while (status := await _status(caller, command)) in UNDER_WAY and time.monotonic() < until:
            await asyncio.sleep(FINISHED_WATCH_S)
        forgotten += status not in ENDED
    await caller.aclose()
    return forgotten


async def _status(caller: LoadClient, command: str) -> str:
    try:
        return str((await caller.call("get_command", command_id=command))["status"])
    except (Cut, NotSent):
        return "error"


async def _asked(caller: LoadClient, tool: str, **arguments: Any) -> dict[str, Any]:
    for _ in range(TRIES):
        try:
            body = await caller.call(tool, **arguments)
        except (Cut, NotSent):
            continue
        if body["status"] == "success":
            return body
    return {}
