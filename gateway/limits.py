"""Limit callers: calls by principal and namespace, failed authentications by address, work that callers share."""

import asyncio
import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from engramq.gateway.identity.authorization import Caller
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.settings import Settings

KEPT_BUCKETS: Final = 10_000
BURST_S: Final = 2.0  # a rested caller may make the calls of so many seconds at once
MINUTE_S: Final = 60.0
BUSY_RETRY_S: Final = 0.5  # when to retry if too many calls are under way

RATE: Final = 200.0  # calls per second of an authenticated principal, unless the settings say otherwise
CONCURRENCY: Final = 100.0

ATTEMPT_RATE: Final = 0.5  # failed authentications of an address, sign-ins of a principal, per second
ATTEMPT_BURST: Final = 30.0

GRACE_S: Final = 10  # what is under way at a stop may take so long

Clock = Callable[[], float]


class Buckets:
    """Token buckets by key: each holds `burst` at most and gains `rate` a second.

    Beyond KEPT_BUCKETS the least recently used one is forgotten, and so is full when its key comes again.
    """

    def __init__(self, rate: float, burst: float, clock: Clock = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable, count: float = 1.0) -> float:
        """Take `count` and return 0, or take nothing and return the seconds until the bucket holds one.

        With a count of 0 nothing is taken whatever it holds.
        """
        level, since = self._levels.get(key, (self._burst, 0.0))
        now = self._clock()
        level = min(self._burst, level + (now - since) * self._rate)
        if level < 1.0:
            return (1.0 - level) / self._rate
        if count:
            self._levels[key] = (level - count, now)
            self._levels.move_to_end(key)
            if len(self._levels) > KEPT_BUCKETS:
                self._levels.popitem(last=False)
        return 0.0


class CallLimits:
    """Limits on the calls of each principal in its namespace, and on all of a namespace; None or 0 means any number.

    `a_minute` is of a namespace, `each_a_minute` of a principal by its name alone: who has rested for a
    minute may make as many at once. A call that is refused counts for none of them.

    When none `are_set` there is no need to ask for admission.
    """

    def __init__(
        self,
        rate: float | None,
        concurrency: float | None,
        clock: Clock = time.monotonic,
        *,
        a_minute: int | None = None,
        each_a_minute: int | None = None,
    ) -> None:
        self._tenants = Buckets(a_minute / MINUTE_S, a_minute, clock) if a_minute else None
        self._principals = Buckets(each_a_minute / MINUTE_S, each_a_minute, clock) if each_a_minute else None
        self._buckets = Buckets(rate, max(1.0, rate * BURST_S), clock) if rate else None
        self._concurrency = concurrency or None
        self._under_way: dict[Hashable, int] = {}
        self.are_set = any((self._buckets, self._concurrency, self._tenants, self._principals))

    @contextmanager
    def admit(self, caller: Caller) -> Iterator[None]:
        """Count a call of this caller while the block lasts; raises EngramqError with `rate_limited`."""
        key = (caller.namespace, caller.principal.identity)
        under_way = self._under_way.get(key, 0)
        if self._concurrency is not None and under_way >= self._concurrency:
            error = f"At most {self._concurrency:g} calls of a principal may be under way at once."
            raise refuse(FaultCode.RATE_LIMITED, error, retry_after_s=BUSY_RETRY_S)
        namespace, principal = caller.namespace, caller.principal
        limits = (
            (self._buckets, key, "calls per second than a principal may make."),
            (self._principals, (namespace, principal.name), "calls a minute than a principal may make."),
            (self._tenants, namespace, "calls a minute than all principals of the namespace may make together."),
        )
        for count in (0.0, 1.0):  # what is refused counts for none of them
            for buckets, bucket, what in limits:
                if buckets is not None and (wait_s := buckets.take(bucket, count)) > 0:
                    wait_s = round(wait_s, 3) + 0.001
                    raise refuse(FaultCode.RATE_LIMITED, f"These are more {what}", retry_after_s=wait_s)
        self._under_way[key] = under_way + 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]


UNLIMITED: Final = CallLimits(None, None)


def call_limits(settings: Settings, *, authenticated: bool) -> CallLimits:
    """Return the limits that the settings ask for; authenticated callers have some by default."""
    quotas = settings.quotas
    rate = RATE if authenticated and quotas.principal_calls_per_second is None else quotas.principal_calls_per_second
    return CallLimits(
        rate, CONCURRENCY if authenticated else None, a_minute=quotas.calls, each_a_minute=quotas.principal_calls
    )


class AttemptLimit:
    """Counts attempts of each who makes them, as sign-ins by principal.

    So one who tries all the time keeps nobody else out.
    """

    def __init__(self, error: str, clock: Clock = time.monotonic) -> None:
        """`error`: what is said to who has tried too often."""
        self._error = error
        self._buckets = Buckets(ATTEMPT_RATE, ATTEMPT_BURST, clock)

    def check(self, who: Hashable) -> None:
        """Raise EngramqError with `rate_limited` when they have tried too often recently."""
        self._take(who, 0.0)

    def note(self, who: Hashable) -> None:
        """Count an attempt; raises EngramqError with `rate_limited` when it was one too many."""
        self._take(who, 1.0)

    def _take(self, who: Hashable, count: float) -> None:
        if (wait_s := self._buckets.take(who, count)) > 0:
            raise refuse(FaultCode.RATE_LIMITED, self._error, retry_after_s=round(wait_s, 1))


class FailureLimit(AttemptLimit):
    """Counts failed authentications by the network of an address."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        super().__init__("Authentication failed too often.", clock)

    def _take(self, who: Hashable, count: float) -> None:
        super()._take(network_of(str(who)), count)


def network_of(address: str) -> str:
    """Return what counts as one address: of IPv6 the network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


T = TypeVar("T")


class SharedWork(Generic[T]):
    """Runs at most `bound` pieces of work. A piece that has begun goes on when its callers have gone."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def run(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of the work under way for `key`, begun now if there is none.

        Raises what the work raises, or EngramqError with `overloaded` when too much is under way.
        """
        return await asyncio.shield(self.begin(key, work))

    def begin(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the task that does the work for `key`, begun now if there is none; see `run`."""
        task = self._running.get(key)
        if task is None:
            if len(self._running) >= self._bound:
                raise refuse(FaultCode.OVERLOADED, "Too many requests are waiting.", retry_after_s=1.0)
            task = self._running[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._end(key, done))
        return task

    def _end(self, key: Hashable, task: asyncio.Task[T]) -> None:
        del self._running[key]
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain when nobody waits any more
