"""Bearer tokens: made on the command line, kept as digests, found by gateways in any namespace."""

import asyncio
import json
import logging
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from engramq.deploy.cli import main
from engramq.deploy.cli.options import expiry, scopes
from engramq.schemas import limits
from engramq.schemas.command_line import ExitCode
from engramq.schemas.commands import Authenticate, Identity
from engramq.schemas.faults import EngramqError
from engramq.schemas.ids import TOKEN_PREFIX, format_time, new_token, token_digest
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE, Scope
from engramq.workers.auth import tokens
from engramq.workers.auth.handlers import authenticate
from engramq.workers.db.database import Store
from tests.assignments import assignment
from tests.conftest import Database
from tests.running import runner

UNKNOWN_ID = "0199c1de-0000-7000-8000-000000000000"


async def identity(store: Store, token: str) -> Identity:
    command = Authenticate(token_sha256=token_digest(token))
    reply = (await runner(store, authenticate).run(assignment(command, namespace=SYSTEM_NAMESPACE))).reply
    assert isinstance(reply, Identity)
    return reply


async def created(store: Store, namespace: str = "acme", **wanted: Any) -> tuple[str, tokens.Token]:
    new = tokens.NewToken(**{"principal": "ada", "scopes": (Scope.READ, Scope.WRITE), **wanted})
    return await tokens.create(store, namespace, new, "operator")


@pytest.mark.promise("SE-8", "OV-15")
async def test_a_token_says_whose_it_is_and_is_kept_as_a_digest_alone(store: Store, database: Database) -> None:
    in_an_hour = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    secret, kept = await created(store, untrusted=True, expires_at=in_an_hour, label="research", project="mars")
    assert await identity(store, secret) == Identity(
        status="success",
        token_id=str(kept.id),
        namespace="acme",
        principal="ada",
        scopes=(Scope.READ, Scope.WRITE),
        untrusted=True,
        expires_at=in_an_hour.timestamp(),
        project="mars",
    )
    other, _ = await created(store, "globex", principal="bob", scopes=tuple(Scope))
    assert (await identity(store, other)).namespace == "globex"
    assert (await identity(store, other)).project == ""
    everything = repr([database.rows(f"select t::text from {table} t") for table in ("tokens", "audit_log")])
    for token in (secret, other):
        assert token not in everything
        assert token.removeprefix(TOKEN_PREFIX) not in everything
        assert token_digest(token) in everything


@pytest.mark.promise("SE-8")
async def test_unknown_revoked_and_expired_tokens_are_nobodys(store: Store) -> None:
    nobody = Identity(status="unknown")
    expired, _ = await created(store, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    revoked, kept = await created(store)
    assert (await identity(store, revoked)).status == "success"
    assert await tokens.revoke(store, kept.id, "operator") is not None
    for token in (expired, revoked, new_token(), "", TOKEN_PREFIX, "\ud800", "'; drop table tokens; --"):
        assert await identity(store, token) == nobody


async def test_revoking_finds_a_token_anywhere_once_and_is_audited(store: Store, database: Database) -> None:
    await created(store, "acme")
    _, kept = await created(store, "globex")
    first = await tokens.revoke(store, kept.id, "eve")
    assert first is not None
    assert first[1]
    assert await tokens.revoke(store, kept.id, "mal") == (first[0], False)
    with psycopg.connect(database.owner_url) as connection:
        rows = connection.execute(
            "select namespace, actor, action, old->'principal', new->'principal' from audit_log "
            "where target_id = %s order by id",
            [kept.id],
        ).fetchall()
    assert rows == [("globex", "operator", "create_token", None, "ada"), ("globex", "eve", "revoke_token", "ada", None)]
    assert [token.revoked_at is None for token in await tokens.list_kept(store, "acme")] == [True]
    assert [token.revoked_at is None for token in await tokens.list_kept(store, "globex")] == [False]
    assert await tokens.list_kept(store, "initech") == []


@pytest.mark.promise("OV-17")
@pytest.mark.parametrize("first", [False, True])
async def test_a_second_token_of_a_name_with_the_other_trust_is_refused(store: Store, *, first: bool) -> None:
    _, kept = await created(store, untrusted=first)
    with pytest.raises(EngramqError) as refusal:
        await created(store, untrusted=not first)
    assert str(kept.id) in refusal.value.fault.error
    assert f"engramq token revoke {kept.id}" in refusal.value.fault.recovery
    assert [token.id for token in await tokens.list_kept(store, "acme")] == [kept.id]

    await created(store, untrusted=first)  # a second one of the same trust
    await created(store, "globex", untrusted=not first)
    await created(store, principal="Ada", untrusted=not first)


@pytest.mark.promise("OV-17")
async def test_a_name_may_change_its_trust_once_its_tokens_count_no_more(store: Store) -> None:
    _, kept = await created(store)
    await created(store, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await tokens.revoke(store, kept.id, "operator")
    _, other = await created(store, untrusted=True)
    assert other.untrusted


@pytest.mark.promise("OV-17")
async def test_of_two_tokens_of_other_trust_that_are_made_at_once_one_is_refused(store: Store) -> None:
    made = await asyncio.gather(
        *(created(store, untrusted=number % 2 == 0) for number in range(8)), return_exceptions=True
    )
    kept = {item[1].untrusted for item in made if not isinstance(item, BaseException)}
    assert len(kept) == 1
    assert {type(item) for item in made if isinstance(item, BaseException)} == {EngramqError}


@pytest.fixture
def environment(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ENGRAMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ENGRAMQ_DATABASE_URL", database.url)
    monkeypatch.setenv("ENGRAMQ_NAMESPACE", "acme")


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("auth", ["none", "token"])
def test_a_token_ends_by_itself_and_says_where_nobody_checks_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], auth: str
) -> None:
    monkeypatch.setenv("ENGRAMQ_AUTH", auth)
    assert main(["token", "create", "--principal", "ada", "--json"]) == 0
    made, said = capsys.readouterr()
    left = datetime.fromisoformat(json.loads(made)["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=limits.TOKEN_USUAL_DAYS - 1) < left <= timedelta(days=limits.TOKEN_USUAL_DAYS)
    assert ("Here ENGRAMQ_AUTH is none" in said) is (auth == "none")


@pytest.mark.usefixtures("environment")
@pytest.mark.promise("SE-8")
def test_the_command_line_shows_a_token_once(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert main(["token", "create", "--principal", "ada\u200blovelace", "--expires", "90d", "--label", "desk"]) == 0
    shown = capsys.readouterr()
    token = shown.out.strip()
    assert shown.out == f"{token}\n"
    assert len(token) == len(TOKEN_PREFIX) + 43
    assert "'ada\\u200blovelace' in acme  read,write  expires " in shown.err

    arguments = ["--namespace", "globex", "--principal", "bob", "--scopes", "verify,read", "--untrusted", "--json"]
    arguments += ["--project", "mars", "--expires", "never"]
    assert main(["token", "create", *arguments]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["token"].startswith(TOKEN_PREFIX)
    told = {
        name: made[name]
        for name in ("namespace", "principal", "scopes", "untrusted", "project", "expires_at", "revoked_at")
    }
    assert told == {
        "namespace": "globex", "principal": "bob", "scopes": ["read", "verify"], "untrusted": True,
        "project": "mars",
        "expires_at": None, "revoked_at": None,
    }  # fmt: skip

    assert main(["token", "create", "--namespace", "globex", "--principal", "bob"]) == ExitCode.FAILED
    refused = capsys.readouterr()
    assert f"'bob' is an untrusted principal's, by its token {made['id']}. Give another --principal" in refused.err
    assert refused.out == ""

    assert main(["token", "list"]) == 0
    listed = capsys.readouterr().out
    assert len(listed.splitlines()) == 2
    assert "bob in globex  read,verify untrusted  project mars  never expires" in listed
    assert main(["token", "list", "--namespace", "globex", "--json"]) == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert row == {name: value for name, value in made.items() if name != "token"}
    assert main(["token", "revoke", made["id"]]) == 0
    assert "revoked" in capsys.readouterr().out
    assert main(["token", "revoke", made["id"].upper()]) == 0
    assert "it was before" in capsys.readouterr().out
    assert main(["token", "list", "--namespace", "initech"]) == 0
    assert "there are none" in capsys.readouterr().err
    assert main(["token", "revoke", UNKNOWN_ID]) == ExitCode.FAILED
    assert f"no token {UNKNOWN_ID}" in capsys.readouterr().err
    for secret in (token, made["token"], token_digest(token), token_digest(made["token"])):
        assert secret not in listed + caplog.text


def test_an_expiry_is_a_time_from_now_or_the_end_of_a_day() -> None:
    for text, hours in (("12h", 12), ("90d", 90 * 24), ("2w", 14 * 24)):
        late = expiry(text) - datetime.now(UTC) - timedelta(hours=hours)
        assert abs(late) < timedelta(minutes=1)
    assert format_time(expiry("2999-12-31")) == "2999-12-31T23:59:59.999999Z"
    assert expiry("2999-12-31T00:00:00+01:00") == datetime(2999, 12, 30, 23, tzinfo=UTC)


def test_scopes_come_in_their_order_each_once() -> None:
    assert scopes("write, read,write") == (Scope.READ, Scope.WRITE)
