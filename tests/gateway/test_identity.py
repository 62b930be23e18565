"""Bearer tokens: whose they are is asked once, remembered briefly, and never guessed."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engramq.gateway.identity import bearer
from engramq.gateway.identity.authorization import Caller, settings_caller
from engramq.gateway.identity.bearer import FRESH_S, UNKNOWN_S, TokenAuthenticator
from engramq.gateway.limits import SharedWork
from engramq.schemas.commands import Authenticate, Identity, Pong
from engramq.schemas.envelope import Answer, Principal
from engramq.schemas.faults import EngramqError, Fault, FaultCode, refuse
from engramq.schemas.ids import new_token, token_digest
from engramq.schemas.settings import SettingsError, read_settings
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, Scope


def no_limit() -> None:
    """Admit everybody."""


class Registry:
    """Answers like the workers: `said` by digest; counts what it is asked; may be `away` or wait for `gate`."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.said: dict[str, Identity] = {}
        self.asked: list[str] = []
        self.away = False
        self.fault: Fault | None = None
        self.gate: asyncio.Event | None = None
        bus: Any = self
        self.authenticator = TokenAuthenticator(bus, lambda: self.now, lambda: self.now)

    async def ask(self, command: Any, *, namespace: str, principal: Principal, **_: Any) -> Any:
        assert isinstance(command, Authenticate)
        assert namespace == SYSTEM_NAMESPACE
        self.asked.append(command.token_sha256)
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise refuse(FaultCode.UNAVAILABLE, "away")
        if self.fault is not None:
            return Answer(id="a", fault=self.fault)
        return Answer(id="a", reply=self.said.get(command.token_sha256, Identity(status="unknown")))

    def issue(self, **changes: Any) -> str:
        token = new_token()
        known: dict[str, Any] = {
            "status": "success",
            "namespace": "ns",
            "principal": "p",
            "scopes": (Scope.READ,),
            **changes,
        }
        self.said[token_digest(token)] = Identity(**known)
        return token

    async def whose(self, token: str, admit: Callable[[], None] = no_limit) -> Caller | None:
        return await self.authenticator.caller_of(token, admit)


@pytest.fixture
def registry() -> Registry:
    return Registry()


async def test_a_token_says_who_calls_and_nothing_else_does(registry: Registry) -> None:
    token = registry.issue(namespace="n2", principal="p2", scopes=(Scope.READ, Scope.WRITE), untrusted=True)
    principal = Principal(name="p2", scopes=(Scope.READ, Scope.WRITE), untrusted=True)
    assert await registry.whose(token) == Caller("n2", principal)
    assert registry.asked == [token_digest(token)]
    assert token not in repr(registry.asked)


@pytest.mark.promise("OV-15")
async def test_a_token_has_a_project_of_its_own_and_whoever_needs_none_that_of_the_settings(registry: Registry) -> None:
    ours, none = await registry.whose(registry.issue(project="mars")), await registry.whose(registry.issue())
    assert ours is not None
    assert none is not None
    assert (ours.project, none.project) == ("mars", "")
    assert settings_caller(read_settings({"ENGRAMQ_PROJECT": "venus"})).project == "venus"
    assert settings_caller(read_settings({})).project == ""
    with pytest.raises(SettingsError, match="ENGRAMQ_PROJECT"):
        read_settings({"ENGRAMQ_PROJECT": "x" * 256})


@pytest.mark.promise("SE-1")
async def test_a_token_is_asked_about_again_within_30_seconds(registry: Registry) -> None:
    assert FRESH_S <= 30
    token = registry.issue()
    for _ in range(3):
        assert await registry.whose(token) is not None
    registry.now += FRESH_S - 0.1
    assert await registry.whose(token) is not None
    assert len(registry.asked) == 1
    registry.said.clear()  # revoked
    registry.now += 0.1
    assert await registry.whose(token) is None
    assert await registry.whose(token) is None
    assert len(registry.asked) == 2


async def test_the_time_that_the_answer_took_counts(registry: Registry) -> None:
    token = registry.issue()
    registry.gate = asyncio.Event()
    asking = asyncio.create_task(registry.whose(token))
    while not registry.asked:
        await asyncio.sleep(0)
    registry.now += FRESH_S
    registry.gate.set()
    assert await asking is not None
    await registry.whose(token)
    assert len(registry.asked) == 2


@pytest.mark.promise("SE-1")
async def test_a_token_that_expires_while_it_is_remembered_is_refused_at_once(registry: Registry) -> None:
    token = registry.issue(expires_at=registry.now + 2)
    assert await registry.whose(token) is not None
    registry.now += 1.9
    assert await registry.whose(token) is not None
    registry.now += 0.1
    assert await registry.whose(token) is None
    assert len(registry.asked) == 1


async def test_an_unknown_token_is_remembered_for_less(registry: Registry) -> None:
    assert UNKNOWN_S < FRESH_S
    token = new_token()
    for _ in range(3):
        assert await registry.whose(token) is None
    assert len(registry.asked) == 1
    registry.now += UNKNOWN_S
    registry.said[token_digest(token)] = Identity(status="success", namespace="ns", principal="p")
    assert await registry.whose(token) is not None


@pytest.mark.parametrize(
    "token", ["x", "engramq_", "engramq_" + "a" * 42, "engramq_" + "a" * 44, "engramq_" + "é" * 43, "a" * 100_000]
)
async def test_what_has_not_the_form_of_a_token_is_not_asked_about(registry: Registry, token: str) -> None:
    assert await registry.whose(token) is None
    assert registry.asked == []


async def test_many_who_bring_the_same_unknown_token_ask_once(registry: Registry) -> None:
    registry.gate = asyncio.Event()
    token = registry.issue()
    asking = [asyncio.create_task(registry.whose(token)) for _ in range(50)]
    await asyncio.sleep(0)
    asking[0].cancel()  # who began it leaves; the others still get their answer
    await asyncio.sleep(0)
    registry.gate.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert all(isinstance(item, Caller) for item in found[1:])
    assert len(registry.asked) == 1


@pytest.mark.promise("SE-1")
async def test_without_an_answer_nobody_is_let_in_and_nobody_turned_away(registry: Registry) -> None:
    token = registry.issue()
    assert await registry.whose(token) is not None
    registry.now += FRESH_S
    registry.away = True
    with pytest.raises(EngramqError) as refusal:
        await registry.whose(token)
    assert refusal.value.fault.code is FaultCode.UNAVAILABLE
    registry.away, registry.fault = False, refuse(FaultCode.INTERNAL, "broken").fault
    with pytest.raises(EngramqError):
        await registry.whose(token)
    registry.fault = None
    assert await registry.whose(token) is not None


async def test_an_answer_to_something_else_lets_nobody_in(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    async def confused(*_: Any, **__: Any) -> Answer:
        return Answer(id="a", reply=Pong(payload=b""))

    monkeypatch.setattr(registry, "ask", confused)
    with pytest.raises(TypeError):
        await registry.whose(new_token())


async def test_guesses_push_no_good_token_out_and_are_bounded(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bearer, "KEPT", 3)
    good = [registry.issue() for _ in range(3)]
    for token in good:
        await registry.whose(token)
    for _ in range(20):
        await registry.whose(new_token())
    registry.asked.clear()
    for token in good:
        assert await registry.whose(token) is not None
    assert registry.asked == []
    assert len(registry.authenticator._unknown) == 3
    await registry.whose(registry.issue())
    assert len(registry.authenticator._known) == 3


async def test_only_tokens_that_were_never_good_need_admission(registry: Registry) -> None:
    def refused() -> None:
        raise refuse(FaultCode.RATE_LIMITED, "too often", retry_after_s=1.0)

    token = registry.issue()
    with pytest.raises(EngramqError):
        await registry.whose(token, refused)
    assert registry.asked == []
    assert await registry.whose(token) is not None
    registry.now += FRESH_S  # it was good: who shares an address with a guesser goes on
    assert await registry.whose(token, refused) is not None


async def test_lookups_under_way_are_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.gate = asyncio.Event()
    registry.authenticator._lookups = SharedWork(2)
    asking = [asyncio.create_task(registry.whose(new_token())) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(EngramqError) as refusal:
        await registry.whose(new_token())
    assert refusal.value.fault.code is FaultCode.OVERLOADED
    registry.gate.set()
    assert await asyncio.gather(*asking) == [None, None]
    assert registry.authenticator._lookups._running == {}
