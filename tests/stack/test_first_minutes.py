"""A newcomer's first minutes with past sessions and page, and the commands for people: the first starts the home."""

import json
import os
import re
import signal
from pathlib import Path

import anyio
import psycopg
import pytest

from bench.servers import running_servers
from engramq.schemas.command_line import ExitCode
from tests.deploy.importing.agent_homes import WRITERS
from tests.deploy.local.hooks.sessions import Session
from tests.gateway.ui.browsing import Browser
from tests.scenarios.stage import Agent
from tests.stack.test_whole_stack import Installation, installation

pytestmark = pytest.mark.timeout(300)


__all__ = ["installation"]


WRONG = "The staging port of rover is 8443"
RIGHT = "The staging port of rover is 9443, since October"
QUESTION = "On which port does the staging of rover listen?"


@pytest.mark.promise("RC-14")
def test_past_sessions_answer_and_a_correction_on_the_page_reaches_the_next_session(installation: Installation) -> None:
    home = Path(installation.environment["ENGRAMQ_HOME"])
    person, repository = home / "person", home / "person" / "rover"
    (repository / ".git").mkdir(parents=True)
    installation.environment["HOME"] = str(person)
    for number, write in enumerate(WRITERS.values()):
        write(
            person, str(repository), f"{number:08x}-0000-4000-8000-000000000000", [("user", f"{WRONG}.{' ' * number}")]
        )
    started = installation.run("up", "--detach")
    at = re.search(rb"http://127\.0\.0\.1:(\d+)/", started.stdout + started.stderr)
    assert at is not None, started
    imported = installation.run("import", "--found", "--yes")
    assert imported.returncode == 0, imported.stderr.decode()
    anyio.run(corrected, installation, repository, int(at[1]))
    told = Session(home / "new.jsonl", installation.environment, folder=str(repository))
    heard = told.tell("SessionStart", source="startup").context + told.tell("UserPromptSubmit", prompt=QUESTION).context
    assert RIGHT in heard
    assert WRONG not in heard.replace(RIGHT, "")


async def corrected(installation: Installation, repository: Path, port: int) -> None:
    """Ask in a new session, then verify, promote and correct on the page what it found."""
    async with installation.client() as client:
        asked = await Agent(client).call(
            "search_memories", query=QUESTION, partitions=["trusted", "untrusted"], project=repository.name
        )
    found = [memory["id"] for memory in asked["memories"] if memory["content"].startswith(WRONG)]
    assert found, json.dumps(asked)
    async with Browser.on(port) as browser:
        inbox = await browser.get("/ui/inbox")
        assert WRONG in inbox.text
        place = f"/ui/memories/{found[0]}"
        for action, values in (
            ("verify", {"verification": "verified"}),
            ("promote", {}),
            ("reword", {"content": RIGHT}),
        ):
            shown = await browser.send(await browser.get(place), f"{place}/{action}", **values)
            assert shown.status == 200, shown.text
        assert RIGHT in (await browser.get("/ui/changes")).text


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
    died = [json.loads(line) for line in log if '"Service died"' in line and '"worker"' in line]
    assert {each["exit_code"] for each in died} == {ExitCode.MISUSED}, "else the supervisor tries twice more, and waits"
