"""How many connections one worker process may have: the workers of a server share what others leave.

A pure rule; the figures come from the query `connection_limits`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SPARE: Final = 10  # connections left for migrations, command lines and people, or a quarter where there are few


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on connections (the server's, the database's or the login's) and who has them now."""

    most: int
    others: int  # held by anybody else than workers
    ours: int  # held by all workers, the asking one among them
    workers: int  # processes that hold any


@dataclass(frozen=True, slots=True)
class Share:
    """How many connections each worker process may have; `exceeded`: the workers together have too many now."""

    each: int
    exceeded: bool


def share(limits: Sequence[Limit]) -> Share:
    """Return the share of a process under all of these limits; each may have one connection whatever they say."""
    budgets = [(limit, max(0, limit.most - limit.others - min(SPARE, limit.most // 4))) for limit in limits]
    return Share(
        each=max(1, min(budget // max(1, limit.workers) for limit, budget in budgets)),
        exceeded=any(limit.ours > budget for limit, budget in budgets),
    )
