"""A newcomer's first minutes: past sessions come in and answer, the page corrects, the next session knows it."""

import json
import re
from pathlib import Path

import anyio
import pytest

from tests.deploy.importing.agent_homes import WRITERS
from tests.deploy.local.hooks.sessions import Session
from tests.gateway.ui.browsing import Browser
from tests.scenarios.stage import Agent
from tests.stack.test_whole_stack import Installation, installation

__all__ = ["installation"]

pytestmark = [pytest.mark.promise("RC-14"), pytest.mark.timeout(300)]

WRONG = "The staging port of rover is 8443"
RIGHT = "The staging port of rover is 9443, since October"
QUESTION = "On which port does the staging of rover listen?"


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
