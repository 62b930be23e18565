"""Both servers over TLS, with an authority of their own, passwords, and a Redis user of the least rights."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from redis import Redis

from engramq.gateway.queue.look import NoLook, look_at_mailboxes
from engramq.schemas import redis_problems as rights
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings, SettingsError, read_settings
from engramq.workers.app import run
from engramq.workers.db.database import Store
from engramq.workers.db.readiness import NotReady
from tests.architecture.source import ROOT
from tests.conftest import Database
from tests.lanes import lanes_at
from tests.queue.server import Server
from tests.scale.certificates import Authority, TlsDoor, context_of
from tests.scale.story import tell, terminal_of
from tests.scenarios.stage import stage_settings, staged, until

pytestmark = [pytest.mark.promise("SC-4"), pytest.mark.timeout(120)]

ACL = ROOT / "deploy" / "redis.acl"
PASSWORD = "heather%2Fhoney"  # as a URL has it
USER = f"engramq:{PASSWORD}"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "own")


@pytest.fixture
def guarded(tmp_path: Path, key_prefix: str) -> Iterator[Server]:
    """A Redis whose users are those of deploy/redis.acl, and an administrator."""
    lines = ACL.read_text().replace("PASSWORD", "heather/honey").replace("engramq:*", f"{key_prefix}:*")
    acl = tmp_path / "users.acl"
    acl.write_text(f"{lines}user admin on >root ~* &* +@all\n")
    folder = tmp_path / "redis"
    folder.mkdir()
    server = Server(folder)
    server.url = f"unix://admin:root@{server.socket}"
    server.start(aclfile=str(acl), acllog_max_len="1000")
    yield server
    server.kill()


@asynccontextmanager
async def tls_redis(server: Server, authority: Authority, *, mutual: bool = False) -> AsyncIterator[str]:
    """Serve a Redis by TLS; yields its URL without parameters."""
    context = context_of(authority.issue("localhost"), authority.certificate if mutual else None)
    async with TlsDoor(server.socket, context) as door:
        yield f"rediss://{USER}@localhost:{door.port}/0"


def socket_of(database_url: str) -> Path:
    parts = urlsplit(database_url)
    found = parse_qs(parts.query)
    return Path(found["host"][0]) / f".s.PGSQL.{found.get('port', ['5432'])[0]}"


@asynccontextmanager
async def tls_database(database: Database, authority: Authority, name: str = "localhost") -> AsyncIterator[str]:
    """Serve a database by TLS; yields a URL that names no authority."""
    async with TlsDoor(socket_of(database.url), context_of(authority.issue(name)), postgresql=True) as door:
        user = urlsplit(database.url).username
        yield f"postgresql://{user}@localhost:{door.port}/{database.name}?sslmode=verify-full"


async def test_the_whole_story_by_tls_as_a_user_of_the_least_rights(
    guarded: Server, database: Database, authority: Authority, key_prefix: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    mine = authority.issue("engramq")
    async with tls_redis(guarded, authority, mutual=True) as redis, tls_database(database, authority) as postgresql:
        settings = stage_settings(
            database,
            f"{redis}?ssl_ca_certs={authority.certificate}&ssl_certfile={mine.certificate}&ssl_keyfile={mine.key}",
            key_prefix,
        )
        trusted = f"{postgresql}&sslrootcert={authority.certificate}"
        settings = read_settings(
            {
                **{f"ENGRAMQ_{name.upper()}": str(getattr(settings, name)) for name in ("redis_url", "key_prefix")},
                "ENGRAMQ_DATABASE_URL": trusted,
                "ENGRAMQ_EMBEDDER": "hash",
                "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "0.2",
                "ENGRAMQ_REPLY_TIMEOUT_S": "20",
            }
        )
        async with staged(settings) as stage:
            terminal = terminal_of(settings, capsys, ENGRAMQ_PORT="0", ENGRAMQ_HOME=str(tmp_path / "home"))
            await tell(stage, terminal, tmp_path, guarded.url)
            told = (await terminal("doctor", "--json"))[1]
            checks = {check["name"]: check.get("state", "ok") for check in json.loads(told)["checks"]}
            assert {checks[name] for name in ("redis", "database", "worker", "queue")} == {"ok"}, told
            rewritten = await terminal("purge", "--rewrite")
            assert "NOPERM" not in rewritten[2], rewritten
    with Redis.from_url(guarded.url) as administrator:
        assert refused_by(administrator) == []


def refused_by(administrator: Any) -> list[Any]:
    return [(item["reason"], item["object"]) for item in administrator.acl_log()]


def test_the_rights_that_are_listed_are_those_that_are_used() -> None:
    """No command of a script or of a connection is missing in the table, and deploy/redis.acl is the table."""
    given = {word[1:] for word in ACL.read_text().split() if word.startswith("+")}
    two = {"SCRIPT", "MEMORY"}
    listed = {"|".join(item[: 1 + (item[0] in two)]).lower() for item in (*rights.COMMANDS, *rights.TRANSACTION)}
    assert given == listed | {"discard", "select", "asking", "command", "cluster|slots"}
    source = Path(rights.__file__).resolve().parents[1]
    scripts = "".join(file.read_text() for file in (source / "schemas" / "lua").glob("*.lua"))
    called = {command.lower() for command in re.findall(r"redis\.call\('([A-Z]+)'", scripts)}
    assert called
    packed = {
        match.lower()
        for half in ("schemas", "gateway", "workers")
        for file in (source / half).rglob("*.py")
        for match in re.findall(r"""pack\(\s*"([A-Z]+)\"""", file.read_text())
    }
    assert (called | packed) <= {item.partition("|")[0] for item in given}


@pytest.mark.parametrize("taken", ["-zadd", "-bgrewriteaof", "-evalsha -blmpop", "-multi", "resetkeys"])
async def test_a_missing_right_is_named_by_the_doctor_and_in_the_log(
    guarded: Server, database: Database, key_prefix: str, tmp_path: Path, taken: str,
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    with Redis.from_url(guarded.url) as administrator:
        administrator.execute_command("ACL", "SETUSER", "engramq", *taken.split())
    settings = stage_settings(database, f"unix://{USER}@{guarded.socket}", key_prefix)
    terminal = terminal_of(settings, capsys, ENGRAMQ_PORT="0", ENGRAMQ_HOME=str(tmp_path / "home"))
    code, told, _ = await terminal("doctor", "--json")
    (found,) = [check for check in json.loads(told)["checks"] if check["name"] == "redis"]
    words = [word[1:].upper() for word in taken.split() if word.startswith("-")] or ["the keys of this installation"]
    assert code != 0
    assert found["told"].startswith(rights.NOT_ALLOWED)
    assert all(word in found["told"] for word in words), found
    assert "deploy/redis.acl" in found["mend"]

    assert await logged_by_workers(settings, caplog) == found["told"]
    with Redis.from_url(guarded.url) as administrator:
        assert administrator.keys("*rights*") == []


async def logged_by_workers(settings: Settings, caplog: pytest.LogCaptureFixture) -> str:
    """Start workers and return what they first say that Redis refuses."""
    stop = asyncio.Event()

    def said() -> list[str]:
        return [vars(record)["error"] for record in caplog.records if record.message == "Redis refuses"]

    async def spoken() -> bool:
        return bool(said())

    with caplog.at_level(logging.ERROR):
        caplog.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(run(("recall",), settings, stop=stop, handle_signals=False))  # type: ignore[arg-type]
            await until(spoken)
            stop.set()
    return said()[0]


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ("", "of a CA that is not trusted here"),
        ("?ssl_ca_certs={other}", "of a CA that is not trusted here"),
        ("?ssl_ca_certs={own}", "a client certificate"),
        ("?ssl_ca_certs={own}&ssl_certfile={foreign}&ssl_keyfile={foreign_key}", "a client certificate"),
        ("?ssl_ca_certs={own_key}", "A certificate or key file"),
        ("?ssl_ca_certs=/no/such/file.pem", "A certificate or key file"),
        ("?ssl_ca_certs={own}&ssl_certfile={mine}&ssl_keyfile={own_key}", "A certificate or key file"),
    ],
)
async def test_what_is_wrong_with_a_handshake_is_said(
    guarded: Server, authority: Authority, tmp_path: Path, key_prefix: str, parameters: str, told: str
) -> None:
    other = Authority(tmp_path, "other")
    foreign, mine, own_key = other.issue("engramq"), authority.issue("engramq"), authority.issue("localhost").key
    async with tls_redis(guarded, authority, mutual=True) as url:
        named = parameters.format(
            other=other.certificate, own=authority.certificate, own_key=own_key, foreign=foreign.certificate,
            foreign_key=foreign.key, mine=mine.certificate,
        )  # fmt: skip
        settings = read_settings({"ENGRAMQ_REDIS_URL": url + named})
        with pytest.raises(NoLook, match=told):
            await look_at_mailboxes(lanes_at(settings.redis_url, Keys(key_prefix)))


async def test_another_name_an_expired_certificate_and_the_wrong_scheme_are_said(
    guarded: Server, authority: Authority, key_prefix: str
) -> None:
    keys, trusted = Keys(key_prefix), f"?ssl_ca_certs={authority.certificate}"

    async def refusal(url: str) -> str:
        with pytest.raises(NoLook) as raised:
            await look_at_mailboxes(lanes_at(read_settings({"ENGRAMQ_REDIS_URL": url}).redis_url, keys))
        return str(raised.value)

    async with TlsDoor(guarded.socket, context_of(authority.issue("elsewhere.example"))) as door:
        address = f"{USER}@localhost:{door.port}/0"
        assert "another host name" in await refusal(f"rediss://{address}{trusted}")
        unchecked = read_settings({"ENGRAMQ_REDIS_URL": f"rediss://{address}{trusted}&ssl_check_hostname=false"})
        await look_at_mailboxes(lanes_at(unchecked.redis_url, keys))
    async with TlsDoor(guarded.socket, context_of(authority.issue("localhost", days=-1))) as door:
        assert "not valid now" in await refusal(f"rediss://{USER}@localhost:{door.port}/0{trusted}")
    async with tls_redis(guarded, authority) as url:
        assert "wants a password" in await refusal(url.replace(PASSWORD, "wrong") + trusted)
    plain = await asyncio.start_server(_echo_error, "127.0.0.1", 0)
    async with plain:
        port = plain.sockets[0].getsockname()[1]
        assert "does not speak TLS" in await refusal(f"rediss://localhost:{port}/0")


async def _echo_error(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer as a Redis without TLS does to the first bytes of a handshake."""
    await reader.read(1)
    writer.write(b"-ERR unknown command\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("redis://h/0?ssl_ca_certs=/etc/hostname", "must begin with rediss"),
        ("rediss://h/0?ssl_ca_certs=relative.pem", "absolute path"),
        ("rediss://h/0?ssl_certfile=/etc/hostname", "both or neither"),
        ("rediss://h/0?ssl_cert_reqs=maybe", "required or optional or none"),
        ("rediss://h/0?ssl_cipher=x", "takes of TLS only"),
    ],
)
def test_bad_parameters_are_refused_by_name(query: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as raised:
        read_settings({"ENGRAMQ_REDIS_URL": query})
    assert str(raised.value).startswith("ENGRAMQ_REDIS_URL")


async def test_postgresql_is_verified_by_its_authority_and_its_name(
    database: Database, authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Authority(tmp_path, "other")
    for name, trusted, told in (
        ("localhost", authority, ""),
        ("localhost", other, "of a CA that is not trusted here"),
        ("elsewhere.example", authority, "of another host name"),
    ):
        async with tls_database(database, authority, name) as url:
            settings = read_settings({"ENGRAMQ_DATABASE_URL": f"{url}&sslrootcert={trusted.certificate}"})
            environment = {"ENGRAMQ_PORT": "0", "ENGRAMQ_HOME": str(tmp_path / "home"), "ENGRAMQ_EMBEDDER": "hash"}
            checks = json.loads((await terminal_of(settings, capsys, **environment)("doctor", "--json"))[1])["checks"]
            (found,) = [check for check in checks if check["name"] == "database"]
            assert told in found.get("told", ""), found
            assert bool(told) == (found.get("state", "ok") != "ok")
            if told:
                with pytest.raises(NotReady, match=told):
                    await Store.open(settings.database_url)
