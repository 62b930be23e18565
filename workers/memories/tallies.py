"""Tallies: what a namespace has, as it was counted, and what this process has written since.

A count sees what was committed before it began. What ends its transaction later is kept beside it, so that it may be
in both for a while: a tally is never too low by what this process does, and what is certain is asked for by itself.
"""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self


@dataclass(slots=True)
class Amount:
    """So many memories, and bytes of their contents and metadata."""

    memories: int = 0
    bytes: int = 0

    def add(self, memories: int, size: int) -> None:
        """Add, or take away."""
        self.memories += memories
        self.bytes += size

    def floored(self) -> "Amount":
        """Return it without what it takes away."""
        return Amount(max(0, self.memories), max(0, self.bytes))


@dataclass(slots=True)
class Tally:
    """What all principals have together, and each of them."""

    all: Amount = field(default_factory=Amount)
    of: defaultdict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))

    @classmethod
    def counted(cls, rows: Iterable[tuple[str, int, int]]) -> Self:
        """Return the tally of rows (principal, memories, bytes)."""
        tally = cls()
        for row in rows:
            tally.add(*row)
        return tally

    def add(self, principal: str, memories: int, size: int) -> None:
        """Add what a principal has more, or less."""
        for amount in (self.all, self.of[principal]):
            amount.add(memories, size)

    def merge(self, other: "Tally") -> None:
        """Add all of another one."""
        for principal, amount in other.of.items():
            self.add(principal, amount.memories, amount.bytes)

    def one(self, principal: str | None) -> Amount:
        """Return what a principal has; None for all together."""
        return self.all if principal is None else self.of.get(principal, Amount())


@dataclass(slots=True, eq=False)
class Taking:
    """What one transaction has taken and not committed yet. `ended` is set when it has committed or was undone."""

    tally: Tally = field(default_factory=Tally)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class Known:
    """What is known of a namespace. Times are by time.monotonic; `began` is that of the last count.

    `missed`: when a count failed, or somebody stopped waiting for it; `failed`: whether the last one did; `until`: how
    long nobody needs to count; `ended`: when the last transaction was committed that had taken something.
    """

    base: Tally = field(default_factory=Tally)  # as counted
    settling: Tally = field(default_factory=Tally)  # committed before the count under way began, which will see it
    settled: Tally = field(default_factory=Tally)  # committed since
    open: set[Taking] = field(default_factory=set)
    began: float = -math.inf
    missed: float = -math.inf
    failed: bool = False
    until: float = -math.inf
    ended: float = -math.inf
    count: asyncio.Task[None] | None = None  # under way, or the last
    count_began: float = -math.inf

    @property
    def is_counted(self) -> bool:
        """Whether it was ever counted."""
        return self.began > -math.inf

    def begin(self, now: float) -> None:
        """Begin a count: it sees whatever was committed until now."""
        self.count_began = now
        self.settling, self.settled = self.settled, Tally()

    def finish(self, counted: Tally | None, now: float, rest_s: float) -> None:
        """End a count, with None when it failed: then all goes on as if there had been none."""
        self.until, self.failed = now + rest_s, counted is None
        if counted is None:
            self.settled.merge(self.settling)
            self.missed = now
        else:
            self.base, self.began = counted, self.count_began
        self.settling = Tally()

    def end(self, taking: Taking, kept: bool) -> None:
        """Let a transaction's taking be what it has come to."""
        self.open.discard(taking)
        if kept:
            self.settled.merge(taking.tally)
            self.ended = time.monotonic()
        taking.ended.set()

    def certain(self, mine: Taking, principal: str | None) -> Amount:
        """Return what a principal (None: all) had when it was counted, with what this transaction has taken."""
        return _sum((self.base.one(principal), mine.tally.one(principal)))

    def possible(self, mine: Taking, principal: str | None) -> Amount:
        """Return the most that a principal (None: all) may have: all others commit, but for what makes room."""
        others = (one.tally.one(principal).floored() for one in self.open if one is not mine)
        since = (self.settling.one(principal), self.settled.one(principal))
        return _sum((self.certain(mine, principal), *since, *others))


def _sum(amounts: Iterable[Amount]) -> Amount:
    total = Amount()
    for one in amounts:
        total.add(one.memories, one.bytes)
    return total
