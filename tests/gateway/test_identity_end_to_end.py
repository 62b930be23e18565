"""Tokens over the whole pipeline: each sees and does exactly what it may, through a client of the SDK over HTTP."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest

from engramq.gateway.identity import bearer
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import Scope
from engramq.telemetry.spans import JsonFormatter
from engramq.workers.auth.tokens import NewToken, Token, create, revoke
from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.gateway.conftest import gateway_over
from tests.gateway.issuer import claims, jwt_setting, key_for, public_pem, signed
from tests.gateway.test_http import ERAS, Site, site_of
from tests.gateway.test_http_identity import client_with
from tests.scenarios.stage import Agent, running_workers, stage_settings

WRITER = (Scope.READ, Scope.WRITE)
WHO: Mapping[str, tuple[str, NewToken]] = {
    "alice": ("acme", NewToken(principal="alice", scopes=WRITER)),
    "researcher": ("acme", NewToken(principal="researcher", scopes=WRITER, untrusted=True)),
    "verifier": ("acme", NewToken(principal="verifier", scopes=(*WRITER, Scope.VERIFY))),
    "bob": ("bolt", NewToken(principal="bob", scopes=(*WRITER, Scope.VERIFY))),
}


@dataclass
class Served:
    """A gateway over HTTP that wants tokens, the store behind it, and the tokens of those in WHO."""

    site: Site
    store: Store
    secrets: dict[str, str] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    clients: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def invite(self, name: str, namespace: str, wanted: NewToken) -> None:
        self.secrets[name], self.tokens[name] = await create(self.store, namespace, wanted, "operator")

    async def agent(self, name: str, era: str) -> Agent:
        """Connect a client with that one's token."""
        mode = "legacy" if era == ERAS[0] else era
        return Agent(await self.clients.enter_async_context(client_with(self.site, self.secrets[name], mode)))

    async def refused(self, name: str) -> int:
        """Ask with that one's token and return the status."""
        return (await self.site.ask("POST", "/mcp", authorization=f"Bearer {self.secrets[name]}"))[0]


@pytest.fixture
def settings(shared_store: Store, database: Database, redis_url: str, keys: Keys) -> Settings:
    return stage_settings(database, redis_url, keys.prefix, test_sweep_interval_s="5")


@asynccontextmanager
async def served(settings: Settings, **variables: str) -> AsyncIterator[Served]:
    """Serve the pipeline; `variables` say otherwise than by tokens who comes in."""
    door: dict[str, Any] = {"auth": "token", **variables}
    async with (
        running_workers(settings),
        await Store.open(settings.database_url) as store,
        gateway_over(settings.redis_url, Keys(settings.key_prefix), 20.0, detail="full", **door) as gateway,
        site_of(gateway) as site,
    ):
        made = Served(site, store)
        for name, (namespace, wanted) in WHO.items():
            await made.invite(name, namespace, wanted)
        async with made.clients:
            yield made


@pytest.mark.promise("TP-21", "TP-22", "TP-23", "TP-24", "SE-1", "SE-12", "SE-13", "MT-14")
@pytest.mark.parametrize("era", ERAS)
async def test_each_token_sees_and_does_exactly_what_it_may(settings: Settings, era: str) -> None:
    async with served(settings) as here:
        alice, researcher, verifier, bob = [await here.agent(name, era) for name in WHO]

        ours = await alice.store("The launch budget is forty thousand euros")
        theirs = await bob.store("The launch budget is nine thousand dollars")
        found = await researcher.store("A web page says the launch budget doubled")
        assert (ours["partition"], theirs["partition"], found["partition"]) == ("trusted", "trusted", "untrusted")
        assert (ours["created_by"], theirs["created_by"], found["created_by"]) == ("alice", "bob", "researcher")
        assert (await researcher.call("store_memory", content="x", partition="trusted"))["code"] == "untrusted_source"

        for reader in (alice, researcher, verifier):
            assert await reader.found("launch budget") == [ours["content"]]
            both = {"partitions": ["trusted", "untrusted"]}
            assert set(await reader.found("launch budget", **both)) == {ours["content"], found["content"]}
        assert await bob.found("launch budget", partitions=["trusted", "untrusted"]) == [theirs["content"]]
        unknown = await bob.call("get_memory", memory_id=uuid7())
        for foreign in (ours, found):
            assert await bob.call("get_memory", memory_id=foreign["id"], include_untrusted=True) == unknown

        # What the researcher may not, whatever it tries; the trusted memory stays as it was.
        mine, trusted = found["id"], ours["id"]
        for tool, arguments in {
            "update_memory": {"memory_id": trusted, "confidence": 0.1},
            "forget_memory": {"memory_id": mine},
            "restore_memory": {"memory_id": mine},
            "verify_memory": {"memory_id": mine, "verification": "approved"},
            "memory_promote_to_trusted": {"record_id": mine},
            "record_outcome": {"memory_ids": [trusted], "signal": 0.0},
            "graph_add_node": {"name": "Eve"},
        }.items():
            assert (await researcher.call(tool, **arguments))["code"] == "forbidden", tool
        for tool, arguments in {
            "supersede_memory": {"old_memory_id": trusted, "new_memory_id": mine},
            "connect": {"source": mine, "target": trusted},
        }.items():
            assert (await researcher.call(tool, **arguments))["code"] in {
                "forbidden",
                "untrusted_link",
                "untrusted_supersedes",
            }, tool
        assert (await alice.call("get_memory", memory_id=trusted))["memory"].get("superseded_by") is None

        # Only who may vouch can vouch, and what is not vouched for stays where it is.
        for tool, arguments in {
            "verify_memory": {"memory_id": mine, "verification": "verified"},
            "memory_promote_to_trusted": {"record_id": mine},
        }.items():
            refusal = await alice.call(tool, **arguments)
            assert (refusal["code"], "'verify'" in refusal["error"]) == ("forbidden", True)
        assert (await verifier.call("memory_promote_to_trusted", record_id=mine))["code"] == "record_not_verified"
        assert (await bob.call("verify_memory", memory_id=mine, verification="verified"))["status"] == "not_found"
        assert (await bob.call("memory_promote_to_trusted", record_id=mine))["code"] == "record_not_verified"
        assert (await verifier.call("verify_memory", memory_id=mine, verification="verified"))["status"] == "success"
        assert (await verifier.call("memory_promote_to_trusted", record_id=mine))["status"] == "promoted"
        assert set(await alice.found("launch budget")) == {ours["content"], found["content"]}
        assert await bob.found("launch budget") == [theirs["content"]]

        assert (await here.site.ask("POST", "/mcp"))[0] == 401


@pytest.mark.promise("RS-21")
@pytest.mark.parametrize("era", ERAS)
async def test_two_tokens_consent_to_a_constitutive_change(settings: Settings, era: str) -> None:
    fact = {"source_name": "Ada", "target_name": "Bob", "relation": "KNOWS"}
    async with served(settings) as here:
        alice, verifier, bob = [await here.agent(name, era) for name in ("alice", "verifier", "bob")]
        edge = await alice.call("graph_add_edge", **fact, properties={"is_constitutive": True})

        asked = await alice.call("reclassify_memory_sector", **fact, new_sector="episodic")
        assert (asked["status"], asked["edge_id"]) == ("consent_required", edge["edge_id"])
        proposal = asked["proposal_id"]
        refusal = await alice.call("decide_proposal", proposal_id=proposal, decision="approve")
        assert refusal["code"] == "forbidden"  # to decide takes the scope verify, so nobody decides alone
        assert (await bob.call("decide_proposal", proposal_id=proposal, decision="approve"))["status"] == "not_found"
        assert (await bob.call("list_proposals"))["proposals"] == []
        assert (await alice.call("reclassify_memory_sector", **fact, new_sector="episodic"))[
            "status"
        ] == "consent_required"

        decided = await verifier.call("decide_proposal", proposal_id=proposal, decision="approve")
        assert (decided["state"], decided["approvals"]) == ("approved", 2)
        done = await alice.call("reclassify_memory_sector", **fact, new_sector="episodic")
        assert (done["status"], done["old_sector"], done["new_sector"]) == ("success", "semantic", "episodic")
        changed = (await alice.call("get_edge", **fact))["properties"]["last_reclassification"]
        assert changed["actor"] == "alice"
        again = await alice.call("reclassify_memory_sector", **fact, new_sector="semantic")
        assert again["status"] == "consent_required"


@pytest.mark.promise("OV-17", "AG-10")
async def test_one_subject_with_and_without_the_untrusted_claim_is_two_principals(
    settings: Settings, tmp_path: Path
) -> None:
    pem = tmp_path / "key.pem"
    pem.write_bytes(public_pem(key_for("RS256")))
    provider = {"auth": "jwt", "jwt": jwt_setting(keys=str(pem))}
    async with served(settings, **provider) as here:
        here.secrets = {"trusted": signed(said=claims()), "untrusted": signed(said=claims(untrusted=True))}
        trusted, untrusted = [await here.agent(name, ERAS[1]) for name in here.secrets]
        plan = {"session": "plan", "idempotency_key": "monday"}
        ours = await trusted.store("The launch budget is forty thousand euros", **plan)
        theirs = await untrusted.call("store_memory", content="The launch budget doubled", **plan)
        assert theirs["status"] == "stored"
        crumbs = await trusted.call("get_breadcrumbs", session="plan")
        assert (crumbs["last_stored_id"], crumbs["session_memory_ids"]) == (ours["id"], [ours["id"]])
        report = await trusted.call("get_command", command_id=theirs["command_id"])
        assert (report["status"], report["reply"]) == ("unknown", None)


@pytest.mark.promise("SE-1")
async def test_an_expired_and_a_revoked_token_are_refused(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer, "FRESH_S", 0.0)  # asks each time, as it would every 30 seconds
    past = datetime.now(UTC) - timedelta(seconds=1)
    async with served(settings) as here:
        await here.invite("late", "acme", NewToken(principal="late", scopes=WRITER, expires_at=past))
        assert await here.refused("late") == 401
        assert await here.refused("alice") != 401
        assert await revoke(here.store, UUID(str(here.tokens["alice"].id)), "operator") is not None
        assert await here.refused("alice") == 401
        assert await here.refused("bob") != 401


@pytest.mark.own_database
@pytest.mark.promise("SE-8")
@pytest.mark.long
async def test_neither_tokens_nor_contents_are_logged(
    settings: Settings, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "zebra-striped submarine"
    async with served(settings) as here:
        alice, verifier = await here.agent("alice", ERAS[1]), await here.agent("verifier", ERAS[0])
        stored = await alice.store(secret, metadata={"k": secret}, speaker=secret, external_id=secret)
        assert (await alice.call("store_memory", content=secret, external_id=secret))["code"] == "external_id_taken"
        assert (await alice.call("store_memory", content=secret, sector=secret))["status"] == "invalid_parameter"
        await alice.search(secret)
        await alice.call("graph_add_edge", source_name=secret, target_name=secret, relation=secret)
        await verifier.call("verify_memory", memory_id=stored["id"], verification="verified", reason=secret)
        for presented in (f"Bearer {here.secrets['bob']}x", f"Basic {here.secrets['bob']}", here.secrets["bob"]):
            assert (await here.site.ask("POST", "/mcp", authorization=presented))[0] == 401
        with psycopg.connect(database.owner_url, autocommit=True) as owner:
            owner.execute("alter table audit_log add constraint broken check (reason not like '%zebra%') not valid")
        failed = await alice.call("forget_memory", memory_id=stored["id"], reason=secret)
        assert failed["code"] == "internal"
        assert secret not in str(failed)
        secrets = [*here.secrets.values()]
    ours = [record for record in caplog.records if record.name.startswith(("engramq", "uvicorn", "mcp.server"))]
    assert {record.name.split(".")[1] for record in ours if "." in record.name} >= {"gateway", "workers"}
    written = JsonFormatter()
    for record in ours:
        line = written.format(record) + str({**record.__dict__, "exc_info": None, "exc_text": None})
        assert not any(token in line for token in secrets), record.name
        if record.levelno > logging.DEBUG:
            assert secret not in line, record.name
