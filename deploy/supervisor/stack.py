"""What a supervisor runs: its services, which of them each kind of client waits for, and what that client is told.

Knows nothing of how they are run (runner.py) nor which they are (default.py), so tests supervise programs of their own.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deploy.embedded.process import Launch

# Within this a gateway sends its last replies, and a worker ends or hands back what it holds; then it is killed.
GRACE_S = 12.0


@dataclass(frozen=True)
class Service:
    """One program to be kept running.

    `after` are the services that must be ready before it starts. `prepare` runs before the first start and `mend`
    before each later one; `is_ready` is a probe. These three may block, within a bound: they get a thread. Without a
    probe a service is ready once started; one that runs `once` is ready when it has ended well.
    """

    name: str
    launch: Callable[[], Launch]
    after: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    mend: Callable[[], None] | None = None
    is_ready: Callable[[], bool] | None = None
    once: bool = False
    stop_signals: Sequence[tuple[int, float]] = ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, 5.0))


@dataclass(frozen=True)
class Stack:
    """All of it. Services start in their order (as far as `after` lets them) and stop in the reverse.

    `needs` names what a lease of each kind waits for. `addresses` is what its holder is told. `http` makes the service
    that runs only while an `up` lease is held, from the settings which that lease came with; it answers with the
    service and its URL, and raises DeployError when its port is taken. `settings` are the ENGRAMQ_* variables that
    all of this was started with.
    """

    services: tuple[Service, ...]
    needs: Mapping[str, tuple[str, ...]]
    addresses: Mapping[str, str] = field(default_factory=dict)
    http: Callable[[Mapping[str, str]], tuple[Service, str]] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
