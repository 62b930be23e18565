"""What a supervisor runs: its services, which of them each kind of client waits for, and what that client is told.

Knows nothing of how they are run (runner.py) nor which they are (default.py), so tests supervise programs of their own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from engramq.deploy.local.embedded.process import Launch

# Within this a gateway sends its last replies, and a worker ends or hands back what it holds; then it is killed.
GRACE_S = 12.0
# Programs that cannot start (a bad setting, a broken installation) have mostly ended by then.
SETTLE_S = 1.5
# Clients wait for the next stack meanwhile, and what an orphan holds is handed on when it is killed.
ORPHAN_GRACE_S = 2.0


@dataclass(frozen=True)
class SupervisedService:
    """One program to be kept running.

    `after` are the services that must be ready before it starts. `prepare` runs before the first start and `mend`
    before each later one; `is_ready` is a probe, `before_stop` what is done before it is stopped, when nobody uses it.
    These four may block, within a bound: they get a thread. Without a probe a service counts as ready once it has lived
    for `settle_s` seconds; one that runs `once`, when it has ended well. `tend` runs every second while it is ready, in
    a thread too, and returns what is wrong, if anything is. `stop_signals` end it, each within its seconds;
    `orphan_signals` do when its supervisor has been killed.
    """

    name: str
    launch: Callable[[], Launch]
    after: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    mend: Callable[[], None] | None = None
    is_ready: Callable[[], bool] | None = None
    tend: Callable[[], str] | None = None
    before_stop: Callable[[], object] | None = None
    settle_s: float = SETTLE_S
    once: bool = False
    stop_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 5.0))
    orphan_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, ORPHAN_GRACE_S), (signal.SIGKILL, 5.0))


@dataclass(frozen=True)
class Stack:
    """All of it. Services start in their order (as far as `after` lets them) and stop in the reverse.

    `needs` names what a lease of each kind waits for. `addresses` is what its holder is told. `http` makes the service
    that runs only while an `up` lease is held, from the settings which that lease came with; it answers with the
    service and its URL, and raises DeployError when its port is taken. `settings` are the ENGRAMQ_* variables that
    all of this was started with.
    """

    services: tuple[SupervisedService, ...]
    needs: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, str] = field(default_factory=dict)
    http: Callable[[Mapping[str, str]], tuple[SupervisedService, str]] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
