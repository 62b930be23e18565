"""Servers of the module's own, so that they can be broken, and the commands run in this process."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import uuid4

import psycopg
import pytest

from bench.servers import Servers, running_servers
from engramq.deploy.cli import main
from engramq.deploy.local.embedded.postgres import WORKER_ROLE
from tests.deploy.conftest import home
from tests.faults.world import free_port

__all__ = ["home"]

Told = tuple[int, dict[str, Any]]
Environment = dict[str, str]
Command = Callable[..., Told]


@pytest.fixture(scope="module")
def own() -> Iterator[Servers]:
    place = Path(tempfile.mkdtemp(prefix="eq-"))
    try:
        with running_servers(place, fsync=False) as servers:
            yield servers
    finally:
        shutil.rmtree(place, ignore_errors=True)


def administer(servers: Servers, *statements: str) -> None:
    with psycopg.connect(servers.database_url_owner, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def url_of(servers: Servers, database: str, role: str = "engramq") -> str:
    return servers.postgres.url(role).replace("/engramq?", f"/{database}?")


@pytest.fixture
def bare(own: Servers) -> Iterator[str]:
    """The name of an empty database."""
    name = f"bare_{uuid4().hex[:8]}"
    administer(own, f"create database {name}")
    yield name
    administer(own, f"drop database {name} with (force)")


@pytest.fixture
def environment(own: Servers, home: Any, tmp_path: Path) -> Environment:
    """What names the module's own servers, a home and a free port."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    return mine | {
        "ENGRAMQ_HOME": str(home.path),
        "ENGRAMQ_PORT": str(free_port()),
        "ENGRAMQ_REDIS_URL": own.redis_url,
        "ENGRAMQ_DATABASE_URL": own.postgres.url(WORKER_ROLE),
        "ENGRAMQ_KEY_PREFIX": f"doctor-{uuid4().hex[:8]}",
        "ENGRAMQ_EMBEDDER": "hash",
        "ENGRAMQ_TEST_SWEEP_INTERVAL_S": "1",
    }


@pytest.fixture
def alone(environment: Environment) -> Environment:
    """The same without servers: the home's embedded ones, which do not run."""
    return {k: v for k, v in environment.items() if k not in {"ENGRAMQ_REDIS_URL", "ENGRAMQ_DATABASE_URL"}}


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command with --json; returns its exit code and what it told."""

    def run(environment: Environment, *arguments: str) -> Told:
        capsys.readouterr()
        with mock.patch.dict(os.environ, environment, clear=True):
            code = main([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def doctor(ask: Command) -> Command:
    """Run the doctor; returns its exit code and the checks by name."""

    def run(environment: Environment, *options: str) -> Told:
        code, told = ask(environment, "doctor", *options)
        return code, {check["name"]: check for check in told["checks"]} | {"done": told["done"]}

    return run


def wrong(found: dict[str, Any], name: str) -> str:
    """What is told of a check that did not pass, and its mend."""
    check = found[name]
    assert check.get("state", "ok") != "ok", found
    return f"{check['told']} {check['mend']}"
