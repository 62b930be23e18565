"""The commands for people on a home of their own: the first of them starts it, and each is quick."""

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from bench.servers import running_servers
from engramq.schemas.command_line import ExitCode
from tests.stack.test_whole_stack import Installation, installation

__all__ = ["installation"]

pytestmark = pytest.mark.timeout(300)


@pytest.mark.promise("RC-3")
def test_a_home_starts_by_its_first_command_and_outlives_its_gateway(installation: Installation) -> None:
    def done(*arguments: str, given: bytes | None = None) -> str:
        ended = installation.run(*arguments, given=given)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    stored = done("store", given=b"The spare key hangs in the shed").strip()
    assert done("search", "spare", "key").startswith(stored)
    assert done("list", "--namespace", "another") == ""
    (gateway,) = [service["pid"] for service in installation.status()["services"] if service["name"] == "gateway"]
    os.kill(gateway, signal.SIGKILL)
    assert json.loads(done("show", stored, "--json"))["memory"]["id"] == stored
    assert done("forget", stored).strip() == "archived"
    assert done("restore", stored[:20]).strip() == "restored"
    ended = installation.run("search", "x", "--namespace", " ")
    assert ended.returncode == 2


@pytest.mark.promise("OP-5")
def test_a_home_of_an_unreleased_revision_is_refused_with_what_to_do(installation: Installation) -> None:
    assert installation.run("store", "The spare key hangs in the shed").returncode == 0
    assert installation.run("down").returncode == 0
    with (
        running_servers(Path(installation.environment["ENGRAMQ_HOME"])) as servers,
        psycopg.connect(servers.database_url_owner) as owner,
    ):
        owner.execute("update schema_migrations set checksum = 'other'")
    for command in ("up", "list"):
        ended = installation.run(command)
        assert ended.returncode == 1
        assert b"unreleased revision" in ended.stderr
        assert b"`engramq export`" in ended.stderr
    log = (Path(installation.environment["ENGRAMQ_HOME"]) / "logs" / "supervisor.log").read_text().splitlines()
    died = [json.loads(line) for line in log if '"Service died"' in line and '"migrate"' in line]
    assert {each["exit_code"] for each in died} == {ExitCode.MISUSED}, "else the supervisor tries twice more, and waits"
