"""Load that keeps account: what every caller was told of each store, search and outcome."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum, auto
from functools import partial

from engramq.schemas.ids import uuid7
from tests.faults.callers import Body, Cut, LoadClient, NotSent

AGAIN_S = 0.05  # between a refusal and the next call
FINISH_S = 30.0  # within which a keyed store that was begun has to be acknowledged
SIGNAL = 0.4  # of outcomes: at or below .5 none makes links
WAIT_S = 60.0


class Fate(StrEnum):
    """What became of a call, as its caller knows."""

    ACKNOWLEDGED = auto()
    REFUSED = auto()  # surely without an effect
    UNKNOWN = auto()


@dataclass(slots=True)
class Stored:
    """One store and what its caller knows of it."""

    content: str
    word: str  # that no other content has
    key: str | None
    fate: Fate = Fate.UNKNOWN
    memory_id: str = ""


@dataclass(slots=True)
class Outcomes:
    """How many outcomes of one memory were acknowledged, and of how many nobody knows."""

    acknowledged: int = 0
    unknown: int = 0


@dataclass(slots=True)
class Account:
    """What callers were told."""

    stores: list[Stored] = field(default_factory=list)
    outcomes: dict[str, Outcomes] = field(default_factory=dict)
    told: Counter[str] = field(default_factory=Counter)  # calls by what came of them
    misses: list[str] = field(default_factory=list)  # own stores that a later search did not find
    slowest_s: float = 0.0
    latencies_s: list[float] = field(default_factory=list)
    served: list[tuple[float, float]] = field(default_factory=list)  # acknowledged stores: begin and end
    pending: list[str] = field(default_factory=list)  # commands that were told so
    reads: list[tuple[float, bool]] = field(default_factory=list)  # of who only reads: begin, whether answered

    @property
    def acknowledged(self) -> list[Stored]:
        return [store for store in self.stores if store.fate is Fate.ACKNOWLEDGED]

    @property
    def failed(self) -> int:
        """Calls that were not answered well."""
        return sum(count for what, count in self.told.items() if what != "done")


class Load:
    """So many callers, each doing one thing after the other until `stop`.

    The last of them only reads. The one before it waits for `served_after`: all others may be waiting for answers that
    a fault has lost, which says nothing of how soon the service is back.
    """

    def __init__(self, callers: list[LoadClient], run: str, *, seed: int, pause_s: float = 0.0) -> None:
        """`pause_s`: how long each caller rests after a call."""
        self.account = Account()
        self._pause_s = pause_s
        self._callers = callers
        self._run = run
        self._seed = seed
        self._over = False
        self._asked = 0
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Let the callers begin."""
        *writing, _, reading = range(len(self._callers))
        lives = [*(self._live(number) for number in writing), self._read(reading)]
        self._tasks = [asyncio.create_task(life) for life in lives]

    async def stop(self) -> None:
        """Have the callers finish what they have begun, and hang up."""
        self._over = True
        await asyncio.gather(*self._tasks)
        for caller in self._callers:
            await caller.aclose()

    async def more(self, stores: int) -> None:
        """Wait until so many more stores have been acknowledged; raises TimeoutError."""
        until = len(self.account.served) + stores
        await self._until(lambda: len(self.account.served) >= until)

    async def served_after(self, moment: float) -> float:
        """Wait for a store that began after a moment of time.monotonic(); return how much later it was acknowledged."""
        asking = asyncio.create_task(self._ask_until_served())
        self._tasks.append(asking)
        await self._until(lambda: any(began >= moment for began, _ in self.account.served))
        await asking
        return min(ended for began, ended in self.account.served if began >= moment) - moment

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S), self._changed:
            while not condition():
                for task in self._tasks:
                    if task.done() and task.exception() is not None:
                        await task
                await self._changed.wait()

    async def _ask_until_served(self) -> None:
        caller, fate = self._callers[-2], Fate.UNKNOWN
        while fate is not Fate.ACKNOWLEDGED and not self._over:
            self._asked += 1
            fate = (await self._store(caller, f"asked{self._asked}", keyed=False)).fate

    async def _live(self, number: int) -> None:
        caller, chance = self._callers[number], random.Random(f"{self._seed}/{number}")
        mine: list[Stored] = []
        count = 0
        while not self._over:
            match chance.choices(("store", "search", "outcome", "get"), (5, 2, 2, 1))[0]:
                case "search" if mine:
                    await self._search(caller, mine[-1])
                case "outcome" if mine:
                    await self._outcome(caller, chance.choice(mine), keyed=chance.random() < 0.5)
                case "get" if mine:
                    await self._ask(lambda: caller.call("get_memory", memory_id=chance.choice(mine).memory_id))
                case _:
                    count += 1
                    stored = await self._store(caller, f"{number}x{count}", keyed=chance.random() < 0.5)
                    if stored.fate is Fate.ACKNOWLEDGED:
                        mine.append(stored)
                        del mine[:-50]

    async def _read(self, number: int) -> None:
        caller, chance = self._callers[number], random.Random(f"{self._seed}/{number}")
        await self._until(lambda: bool(self.account.served))
        while not self._over:
            stored, began = chance.choice(self.account.acknowledged), time.monotonic()
            fate, _ = await self._ask(partial(caller.call, "get_memory", memory_id=stored.memory_id))
            self.account.reads.append((began, fate is Fate.ACKNOWLEDGED))

    async def _store(self, caller: LoadClient, name: str, *, keyed: bool) -> Stored:
        word = f"zq{self._run}x{name}"
        stored = Stored(f"The parcel {word} waits on its shelf", word, uuid7() if keyed else None)
        self.account.stores.append(stored)
        arguments = {"content": stored.content} | ({"idempotency_key": stored.key} if stored.key else {})
        began = time.monotonic()
        stored.fate, body = await self._persist(lambda: caller.call("store_memory", **arguments), keyed=keyed)
        if stored.fate is Fate.ACKNOWLEDGED:
            stored.memory_id = body["stored"]["id"]
            self.account.served.append((began, time.monotonic()))
        async with self._changed:
            self._changed.notify_all()
        return stored

    async def _outcome(self, caller: LoadClient, about: Stored, *, keyed: bool) -> None:
        key = {"idempotency_key": uuid7()} if keyed else {}
        arguments = {"memory_ids": [about.memory_id], "signal": SIGNAL, **key}
        fate, _ = await self._persist(lambda: caller.call("record_outcome", **arguments), keyed=keyed)
        counted = self.account.outcomes.setdefault(about.memory_id, Outcomes())
        counted.acknowledged += fate is Fate.ACKNOWLEDGED
        counted.unknown += fate is Fate.UNKNOWN

    async def _search(self, caller: LoadClient, stored: Stored) -> None:
        fate, body = await self._ask(lambda: caller.call("search_memories", query=stored.word))
        found = [item["id"] for item in body.get("memories", ())]
        if fate is Fate.ACKNOWLEDGED and stored.memory_id not in found:
            self.account.misses.append(stored.content)

    async def _persist(self, ask: Callable[[], Awaitable[Body]], *, keyed: bool) -> tuple[Fate, Body]:
        """Ask once, or with a key until it is acknowledged: then whatever was not known before has been settled."""
        fate, body = await self._ask(ask)
        until = time.monotonic() + FINISH_S
        while keyed and fate is not Fate.ACKNOWLEDGED and time.monotonic() < until:
            fate, body = await self._ask(ask)
        # After a keyed call whose first try is unknown, a refusal of the last one says nothing.
        return (Fate.UNKNOWN if keyed and fate is Fate.REFUSED else fate), body

    async def _ask(self, ask: Callable[[], Awaitable[Body]]) -> tuple[Fate, Body]:
        began, body, fate = time.monotonic(), Body(), Fate.UNKNOWN
        try:
            body = await ask()
        except NotSent as problem:
            told, fate = f"not sent: {problem}", Fate.REFUSED
        except Cut as problem:
            told = f"cut: {problem}"
        else:
            told, fate = _judged(body)
        took = time.monotonic() - began
        self.account.told[told] += 1
        if told == "pending":
            self.account.pending.append(body["command_id"])
        self.account.slowest_s = max(self.account.slowest_s, took)
        self.account.latencies_s.append(took)
        refused_s = min(float(body.get("retry_after_s") or AGAIN_S), 1.0)
        await asyncio.sleep(self._pause_s if fate is Fate.ACKNOWLEDGED else refused_s)
        return fate, body


def _judged(body: Body) -> tuple[str, Fate]:
    match body["status"]:
        case "pending":
            return "pending", Fate.UNKNOWN
        case "error":
            return str(body.get("code")), Fate.REFUSED
        case _:
            return "done", Fate.ACKNOWLEDGED
