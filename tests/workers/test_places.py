"""Commands are carried out in the database that their namespace is in."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from engramq.schemas.commands import Authenticate, Identity, Ping
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.faults import EngramqError, FaultCode, refuse
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import ALL_SCOPES, WorkerKind
from engramq.workers import places
from engramq.workers.db.errors import Held, Moved
from engramq.workers.db.readiness import NotReady
from engramq.workers.places import Places, Served
from engramq.workers.queue.contract import Job, Outcome, Periodic, SessionUse

pytestmark = pytest.mark.anyio

KIND = WorkerKind.RECALL
Does = Callable[[], Outcome]


class Database:
    """Does what it is told to, and counts."""

    def __init__(self, *does: Outcome | Exception) -> None:
        self.does, self.asked, self.opened, self.looked = list(does), 0, 0, 0
        self.told: list[SessionUse] = []
        self.entered: Exception | None = None

    def served(self) -> Served:
        async def enter(_namespace: str) -> None:
            if isinstance(self.entered, Exception):
                raise self.entered

        async def run(_job: Job) -> Outcome:
            self.asked += 1
            done = self.does.pop(0) if len(self.does) > 1 else self.does[0]
            if isinstance(done, Exception):
                raise done
            return done

        async def tell(uses: Any) -> None:
            self.told += uses

        async def look() -> None:
            self.looked += 1

        return Served(run={KIND: run}, enter=enter, schedule=(Periodic("sweep", 5.0, look),), sessions_used=tell)

    async def open(self) -> Served:
        self.opened += 1
        return self.served()


def outcome(status: str = "success") -> Outcome:
    return Outcome(Identity(status=cast(Any, status)))


def job(command: Any = None, namespace: str = "ada") -> Job:
    envelope = Envelope(
        id=uuid7(), namespace=namespace, principal=Principal(name="ada", scopes=ALL_SCOPES),
        command=command or Ping(), issued_at=0.0,
    )  # fmt: skip
    return Job(envelope, cast(Any, None))


def left_for(place: str, *does: Outcome | Exception) -> Database:
    """Return a database whose namespaces have gone to another one."""
    database = Database(*does)
    database.entered = Moved("ada", place)
    return database


def runner(primary: Database, **others: Database) -> Callable[[Job], Awaitable[Outcome]]:
    return Places(primary.served(), {name: one.open for name, one in others.items()}).runner(KIND)


async def test_a_namespace_that_never_moved_asks_no_other_database() -> None:
    here, there = Database(outcome()), Database(outcome())
    assert (await runner(here, second=there)(job())).reply == outcome().reply
    assert (there.opened, there.asked) == (0, 0)


async def test_where_a_namespace_is_gone_to_is_remembered() -> None:
    here, there = Database(Moved("ada", "second")), Database(outcome())
    run = runner(here, second=there)
    for _ in range(3):
        await run(job())
    assert (here.asked, there.asked, there.opened) == (1, 3, 1)
    there.does = [Moved("ada", "primary")]
    here.does = [outcome()]
    await run(job())  # it has come back
    await run(job())
    assert (here.asked, there.asked) == (3, 4)


async def test_a_place_that_settings_do_not_name_is_said() -> None:
    with pytest.raises(EngramqError, match="'third', which the settings of this worker do not name") as refused:
        await runner(Database(Moved("ada", "third")), second=Database(outcome()))(job())
    assert "third in ENGRAMQ_DATABASES" in refused.value.fault.recovery


async def test_a_namespace_that_goes_round_is_given_up() -> None:
    with pytest.raises(EngramqError, match="Each database says of namespace 'ada' that it is in another one") as lost:
        await runner(Database(Moved("ada", "second")), second=Database(Moved("ada", "primary")))(job())
    assert lost.value.fault.code == FaultCode.UNAVAILABLE


async def test_a_database_that_is_away_is_said_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "AGAIN_S", 0.0)
    opened, there = [NotReady("It is away.", "Start it.")], Database(outcome())

    async def open_it() -> Served:
        if opened:
            raise opened.pop()
        return there.served()

    run = Places(Database(Moved("ada", "second")).served(), {"second": open_it}).runner(KIND)
    with pytest.raises(EngramqError, match="is away"):
        await run(job())
    await run(job())
    assert there.asked == 1


async def test_a_worker_asks_the_first_database_again_while_the_other_one_holds() -> None:
    """A move that failed when the namespace had left lets the first database serve it again."""
    here, there = Database(Moved("ada", "second"), outcome()), Database(Held("arriving"))
    async with asyncio.timeout(10):
        await runner(here, second=there)(job())
    assert (here.asked, there.asked) == (2, 1)


async def test_a_command_waits_while_its_namespace_is_held_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Database(Held("held"), Held("held"), outcome())
    await runner(here)(job())
    assert here.asked == 3
    monkeypatch.setattr(places, "HELD_S", 0.1)
    with pytest.raises(Held):  # the queue carries it out later
        await runner(Database(Held("held")))(job())


async def test_no_more_than_a_few_wait_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "HELD_MAX", 0)
    here = Database(Held("held"), outcome())
    with pytest.raises(Held):
        await runner(here)(job())
    assert here.asked == 1


async def test_a_token_is_looked_for_everywhere() -> None:
    unknown, known = outcome("unknown"), outcome("success")
    command = Authenticate(token_sha256="0" * 64)
    here, second, third = left_for("second", unknown), Database(known), Database(known)
    assert (await runner(here, second=second, third=third)(job(command))).reply == known.reply
    assert (second.asked, third.asked) == (1, 0)
    assert (await runner(Database(unknown), second=Database(unknown))(job(command))).reply == unknown.reply


@pytest.mark.long
async def test_a_token_of_a_tenant_that_never_moved_there_is_nobodys_here() -> None:
    """A further database may have a tenant of its own by the name of one that is here."""
    command, unknown, known = Authenticate(token_sha256="0" * 64), outcome("unknown"), outcome("success")
    assert (await runner(Database(unknown), second=Database(known))(job(command))).reply == unknown.reply
    here = left_for("third", unknown)
    assert (await runner(here, second=Database(known), third=Database(known))(job(command))).reply == known.reply
    here.entered = Held("left")
    with pytest.raises(Held):
        await runner(here, second=Database(known))(job(command))


async def test_a_token_is_found_beside_a_database_that_cannot_say_and_unknown_to_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One is away, one has its tenant on the way: no good token is answered by `unknown`."""
    monkeypatch.setattr(places, "HELD_S", 0.1)
    unknown, known = outcome("unknown"), outcome("success")
    away, held = EngramqError(refuse(FaultCode.UNAVAILABLE, "It is away.").fault), Held("held")
    command = Authenticate(token_sha256="0" * 64)
    for problem in (away, held):
        found = await runner(left_for("third", unknown), second=Database(problem), third=Database(known))(job(command))
        assert found.reply == known.reply
        assert (await runner(left_for("second", problem), second=Database(known))(job(command))).reply == known.reply
        with pytest.raises(type(problem)):
            await runner(Database(unknown), second=Database(problem), third=Database(unknown))(job(command))
    arriving = Database(Held("held"), known)
    assert (await runner(left_for("second", Held("held")), second=arriving)(job(command))).reply == known.reply
    assert arriving.asked == 2


async def test_upkeep_and_clocks_are_those_of_each_database() -> None:
    here, there = Database(Moved("ada", "second")), Database(outcome())
    both = Places(here.served(), {"second": there.open})
    assert [one.name for one in both.schedule()] == ["sweep", "sweep@second"]
    for one in both.schedule():
        await one.run()
    assert (here.looked, there.looked) == (1, 1)
    await both.runner(KIND)(job())
    adas, bens = SessionUse("ada", "s", 1), SessionUse("ben", "s", 1)
    await both.sessions_used([adas, bens])
    assert (here.told, there.told) == ([bens], [adas])
