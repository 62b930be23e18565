"""PostgreSQL, Redis and the model: what doctor says when one is away, refuses, or lacks something."""

import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from redis import Redis

from bench.servers import Servers
from engramq.deploy.local.embedded import process
from engramq.deploy.local.embedded.postgres import WORKER_ROLE
from engramq.schemas.settings import read_settings
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.model_files import files_check
from tests.deploy.local.doctor.conftest import Command, Environment, administer, url_of, wrong

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("OP-4")]

PASSWORD = "sesame"
AT_ONCE_S = 10.0
START_S = 60.0


def test_servers_that_are_not_there_are_named_within_seconds(environment: Environment, doctor: Command) -> None:
    nowhere = {
        "ENGRAMQ_REDIS_URL": "redis://127.0.0.1:1/0",
        "ENGRAMQ_DATABASE_URL": "postgresql://ada:x@127.0.0.1:2/engramq",
    }
    began = time.monotonic()
    code, found = doctor(environment | nowhere)
    assert time.monotonic() - began < AT_ONCE_S
    assert code == 1
    assert "Redis cannot be reached." in wrong(found, "redis")
    assert "PostgreSQL cannot be reached" in wrong(found, "database")
    assert "Connection refused" in wrong(found, "database")
    assert "ENGRAMQ_DATABASE_URL" in wrong(found, "database")
    assert "No gateway answers" in wrong(found, "gateway")


def test_a_server_without_pgvector_is_told_what_to_install(
    own: Servers, bare: str, environment: Environment, doctor: Command
) -> None:
    administer(own, f"alter database {bare} set extension_control_path = '/nowhere'")
    code, found = doctor(environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare)})
    assert code == 1
    assert "no pgvector" in wrong(found, "pgvector")
    assert "Install it" in wrong(found, "pgvector")


def test_a_missing_migration_is_named_and_mended(
    own: Servers, bare: str, environment: Environment, doctor: Command
) -> None:
    owned = environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare)}
    assert "engramq migrate" in wrong(doctor(owned)[1], "schema")
    _, found = doctor(owned, "--fix")
    assert any("migrated the database: 0031_schema" in line for line in found["done"])
    worker = environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare, WORKER_ROLE)}
    _, found = doctor(worker)
    assert {found[name].get("state", "ok") for name in ("database", "schema", "pgvector")} == {"ok"}


def test_a_newer_schema_is_named(own: Servers, bare: str, environment: Environment, doctor: Command) -> None:
    owned = environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare)}
    doctor(owned, "--fix")
    with psycopg.connect(url_of(own, bare), autocommit=True) as connection:
        connection.execute("insert into schema_migrations (version, name, checksum) values (999, 'newer', 'x')")
    assert "Upgrade engramq" in wrong(doctor(owned)[1], "schema")


def test_a_database_that_takes_no_writes_is_named(
    own: Servers, bare: str, environment: Environment, doctor: Command
) -> None:
    doctor(environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare)}, "--fix")
    administer(own, f"alter database {bare} set default_transaction_read_only = on")
    _, found = doctor(environment | {"ENGRAMQ_DATABASE_URL": url_of(own, bare, WORKER_ROLE)})
    assert found["database"]["state"] == "degraded"
    assert "read-only" in wrong(found, "database")


def test_a_wrong_password_of_either_server_is_named(own: Servers, environment: Environment, doctor: Command) -> None:
    access = own.home.postgres / "engramq.hba"
    usual = access.read_text()
    access.write_text("local all engramq peer map=engramq\nlocal all all scram-sha-256\n")
    administer(own, f"create role ada login password '{PASSWORD}'", "select pg_reload_conf()")
    redis = Redis.from_url(own.redis_url)
    redis.config_set("requirepass", PASSWORD)
    try:
        mistaken = own.postgres.url("ada").replace("ada@", "ada:open@")
        _, found = doctor(environment | {"ENGRAMQ_DATABASE_URL": mistaken})
    finally:
        redis.config_set("requirepass", "")
        redis.close()
        access.write_text(usual)
        administer(own, "drop role ada", "select pg_reload_conf()")
    assert "password" in wrong(found, "database")
    assert "role, password and database in ENGRAMQ_DATABASE_URL" in wrong(found, "database")
    assert "Redis wants a password" in wrong(found, "redis")
    assert "redis://USER:PASSWORD@" in wrong(found, "redis")


def test_a_password_that_the_stack_alone_knows_is_no_wrong_one(
    own: Servers, environment: Environment, alone: Environment, doctor: Command, ask: Command
) -> None:
    user = f"ada-{uuid4().hex[:8]}"
    known = {
        "ENGRAMQ_DATABASE_URL": own.database_url_owner,
        "ENGRAMQ_REDIS_URL": own.redis_url.replace("unix://", f"unix://{user}:{PASSWORD}@"),
    }
    with Redis.from_url(own.redis_url) as redis:
        redis.execute_command("ACL", "SETUSER", user, "on", f">{PASSWORD}", "~*", "&*", "+@all")
        command = [sys.executable, "-P", "-m", "engramq", "up"]
        with subprocess.Popen(command, env=environment | known, stdout=subprocess.DEVNULL) as up:
            try:
                assert process.wait_until(lambda: ask(alone, "status")[0] == 0, START_S)
                assert doctor(alone)[0] == 0
                redis.execute_command("ACL", "SETUSER", user, "resetpass", ">another")
                redis.execute_command("CLIENT", "KILL", "USER", user)
                assert process.wait_until(lambda: "Redis" in doctor(alone)[1]["redis"].get("told", ""), START_S)
            finally:
                up.terminate()
                up.wait(START_S)
                redis.execute_command("ACL", "DELUSER", user)


def test_a_redis_that_takes_no_writes_is_named(own: Servers, environment: Environment, doctor: Command) -> None:
    with Redis.from_url(own.redis_url) as redis:
        redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            _, found = doctor(environment)
        finally:
            redis.execute_command("REPLICAOF", "NO", "ONE")
    assert "read-only replica" in wrong(found, "redis")
    assert "master" in wrong(found, "redis")


def test_mailboxes_without_workers_and_dead_letters_are_named(
    own: Servers, environment: Environment, doctor: Command
) -> None:
    with Redis.from_url(own.redis_url) as redis:
        index = f"{environment['ENGRAMQ_KEY_PREFIX']}:dead-index:{WorkerKind.EDGES}"
        redis.zadd(index, {"x": 1})
        _, found = doctor(environment)
        redis.delete(index)
    told = wrong(found, "worker")
    assert found["worker"]["state"] == "failed"
    assert all(kind in told for kind in WorkerKind)
    assert "edges 1" in wrong(found, "dead_letters")
    assert "engramq dead list" in wrong(found, "dead_letters")


def test_a_model_that_is_missing_or_damaged_is_named(environment: Environment, doctor: Command, tmp_path: Path) -> None:
    with_e5 = environment | {"ENGRAMQ_EMBEDDER": "e5"}
    assert "engramq model build e5" in wrong(doctor(with_e5)[1], "model").lower()
    folder = Path(environment["ENGRAMQ_HOME"], "models", "e5")
    folder.mkdir(parents=True)
    for name in ("model.onnx", "tokenizer.json", "replacements.json"):
        (folder / name).write_bytes(b"half of it")
    assert "is damaged" in wrong(doctor(with_e5)[1], "model")
    bundled = files_check(read_settings({"ENGRAMQ_EMBEDDER": "minilm"}), tmp_path)
    assert (bundled.state, "is missing" in bundled.told) == ("failed", True)


def test_an_endpoint_that_does_not_answer_is_named(environment: Environment, doctor: Command) -> None:
    away = {"ENGRAMQ_EMBEDDER": "openai:m", "ENGRAMQ_EMBEDDER_URL": "http://127.0.0.1:1/v1"}
    _, found = doctor(environment | away)
    assert found["model"]["state"] == "degraded", "reads go on without it"
    assert "openai:m" in wrong(found, "model")
