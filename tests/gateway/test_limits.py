"""Limits by principal and by address: when they refuse, what they tell, and that they forget."""

from dataclasses import replace

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engramq.gateway import limits
from engramq.gateway.identity.authorization import Caller
from engramq.gateway.limits import Buckets, CallLimits, FailureLimit, call_limits
from engramq.gateway.service import Call, Service
from engramq.schemas.commands import TOOLS, MemoryStats
from engramq.schemas.envelope import Principal
from engramq.schemas.faults import EngramqError, FaultCode
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import ALL_SCOPES
from tests.gateway.replies import check_reply
from tests.gateway.worker_side import WorkerSide


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def caller(name: str = "p", namespace: str = "ns", *, untrusted: bool = False) -> Caller:
    return Caller(namespace, Principal(name=name, scopes=ALL_SCOPES, untrusted=untrusted))


@given(rate=st.floats(0.1, 1_000), burst=st.floats(1, 100), pauses=st.lists(st.floats(0, 3), min_size=1, max_size=60))
def test_a_bucket_gives_its_burst_and_its_rate_and_no_more(rate: float, burst: float, pauses: list[float]) -> None:
    clock = Clock()
    buckets = Buckets(rate, burst, clock)
    taken, since = 0, clock.now
    for pause in pauses:
        clock.now += pause
        foretold = buckets.take("k", 0.0)
        wait = buckets.take("k")
        assert wait == foretold
        taken += wait == 0
        assert taken <= burst + (clock.now - since) * rate + 1e-6
        if wait:
            clock.now += wait + 1e-9 * (1 + wait) + 1e-6 / rate
            assert buckets.take("k") == 0
            taken += 1


def test_buckets_are_apart_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KEPT_BUCKETS", 3)
    buckets = Buckets(1.0, 1.0, Clock())
    for key in "abc":
        assert buckets.take(key) == 0
        assert buckets.take(key) == 1.0
    assert buckets.take("d") == 0  # pushes "a" out
    assert buckets.take("b") == 1.0
    assert buckets.take("a") == 0
    assert len(buckets._levels) == 3


def use(limit: CallLimits, *callers: Caller) -> None:
    """Make a call for each, which ends before the next one begins."""
    for who in callers:
        with limit.admit(who):
            pass


@pytest.mark.promise("SE-9")
def test_a_principal_is_told_when_to_come_again() -> None:
    clock = Clock()
    limit = CallLimits(2.0, None, clock)
    use(limit, *[caller()] * 4)
    with pytest.raises(EngramqError) as refusal:
        use(limit, caller())
    fault = refusal.value.fault
    assert fault.code is FaultCode.RATE_LIMITED
    assert isinstance(fault.retry_after_s, float)
    assert 0.5 <= fault.retry_after_s < 0.51
    use(limit, caller("q"), caller(namespace="other"), caller(untrusted=True))
    clock.now += fault.retry_after_s
    use(limit, caller())


@pytest.mark.promise("SE-9")
def test_only_so_many_calls_of_a_principal_are_under_way() -> None:
    limit = CallLimits(None, 2)
    with limit.admit(caller()), limit.admit(caller()):
        with pytest.raises(EngramqError) as refusal:
            use(limit, caller())
        assert refusal.value.fault.code is FaultCode.RATE_LIMITED
        assert refusal.value.fault.retry_after_s
        use(limit, caller("q"))
    use(limit, caller())
    assert limit._under_way == {}


def test_who_comes_with_a_token_is_limited_and_local_clients_only_if_asked() -> None:
    def chosen(authenticated: bool, **variables: str) -> tuple[float | None, float | None]:
        settings = read_settings({f"ENGRAMQ_{name.upper()}": value for name, value in variables.items()})
        limit = call_limits(settings, authenticated=authenticated)
        return (limit._buckets._rate if limit._buckets else None), limit._concurrency

    assert chosen(True) == (200.0, 100.0)
    assert chosen(False) == (None, None)
    for authenticated in (True, False):
        assert chosen(authenticated, quotas="principal_calls_per_second=5")[0] == 5.0
        assert chosen(authenticated, quotas="principal_calls_per_second=0")[0] is None


def test_failures_count_by_address() -> None:
    clock = Clock()
    failures = FailureLimit(clock)
    for number in range(30):
        failures.note(f"2001:db8::{number:x}")  # one network, however many addresses it has
        failures.note("192.0.2.1" if number % 2 else "::ffff:192.0.2.1")
    for address in ("2001:db8::ffff:1", "192.0.2.1"):
        for refused in (failures.check, failures.note):
            with pytest.raises(EngramqError) as refusal:
                refused(address)
            assert refusal.value.fault.retry_after_s == 2.0
    for address in ("2001:db8:0:1::1", "192.0.2.2", ""):
        failures.check(address)
    clock.now += 2.0
    failures.check("192.0.2.1")


@pytest.mark.promise("SE-9")
async def test_a_call_over_the_limit_is_refused_before_anything_is_enqueued(
    service: Service, workers: WorkerSide
) -> None:
    limited = replace(service, limits=CallLimits(0.5, None))
    call = Call(tool=TOOLS["memory_stats"], arguments={}, caller=caller())
    assert not (await limited.call(call)).is_error
    reply = await limited.call(call)
    body = check_reply("memory_stats", reply.body, is_error=reply.is_error)
    assert (body["code"], 0.5 < body["retry_after_s"] < 2.1) == ("rate_limited", True)  # less the time between both
    assert len(workers.seen) == 1
    assert not (await service.call(call)).is_error  # others over the same bus are not held back


@pytest.mark.promise("SE-9")
async def test_calls_at_once_are_counted_until_they_are_answered(service: Service, workers: WorkerSide) -> None:
    workers.script[MemoryStats] = lambda _c, _e: None
    limited = replace(service, limits=CallLimits(None, 2))
    call = Call(tool=TOOLS["memory_stats"], arguments={}, caller=caller())
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(limited.call, call)
        with anyio.fail_after(5):
            while len(workers.seen) < 2:
                await anyio.sleep(0.01)
        assert (await limited.call(call)).body["code"] == "rate_limited"
        tasks.cancel_scope.cancel()
    workers.script[MemoryStats] = lambda _c, _e: None
    assert limited.limits._under_way == {}


def test_all_principals_of_a_namespace_share_its_calls_a_minute() -> None:
    clock = Clock()
    limit = CallLimits(None, None, clock, a_minute=60)
    assert limit.are_set
    use(limit, *[caller(f"p{number}") for number in range(60)])
    with pytest.raises(EngramqError) as refusal:
        use(limit, caller("q"))
    fault = refusal.value.fault
    assert (fault.code, fault.retry_after_s) == (FaultCode.RATE_LIMITED, 1.001)
    assert "a minute" in fault.error
    use(limit, caller(namespace="other"))
    clock.now += 1.001
    use(limit, caller("q"))


@pytest.mark.parametrize(("quota", "kept_as"), [("calls", "_tenants"), ("principal_calls", "_principals")])
def test_calls_a_minute_are_limited_for_everybody_where_a_setting_says_so(quota: str, kept_as: str) -> None:
    settings = read_settings({"ENGRAMQ_QUOTAS": f"{quota}=120"})
    for authenticated in (True, False):
        assert getattr(call_limits(settings, authenticated=authenticated), kept_as) is not None
    assert getattr(call_limits(read_settings({}), authenticated=True), kept_as) is None


def test_a_principal_has_calls_a_minute_of_its_own_and_wastes_none_of_the_others() -> None:
    clock = Clock()
    limit = CallLimits(None, None, clock, a_minute=3, each_a_minute=2)
    assert limit.are_set
    refusals = []
    for name, untrusted in (("p", False), ("p", True), ("p", True), ("q", False), ("q", False)):
        try:
            use(limit, caller(name, untrusted=untrusted))
        except EngramqError as refusal:
            refusals.append((name, refusal.fault.error.removeprefix("These are more calls a minute than ")))
    assert refusals == [("p", "a principal may make."), ("q", "all principals of the namespace may make together.")]
    use(limit, caller(namespace="other"))
    clock.now += 20.001  # one more for the namespace; q has lost nothing by being refused
    use(limit, caller("q"))
