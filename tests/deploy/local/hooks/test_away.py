"""Hooks over a stack that is away: they start nothing and are silent, and what they could not tell is told later."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local.hooks.notes import FOLDER, QUIET_S, SessionNotes
from tests.deploy.local.hooks.conftest import Owner
from tests.deploy.local.hooks.gateway import answering, takes_all
from tests.deploy.local.hooks.sessions import Session
from tests.deploy.local.hooks.test_projects import full_disk, repository
from tests.deploy.local.hooks.test_sessions import told

pytestmark = [pytest.mark.promise("RC-5"), pytest.mark.timeout(240)]

TOPIC = "Which port has the zebra server?"
KETTLE = {"id": "01a2073f-0142-7000-ab42-aa1323cb0e68", "content": "The kettle is blue."}
RECALLS = ["SessionStart", "UserPromptSubmit"]


def knows(call: dict[str, Any]) -> dict[str, Any]:
    return {**takes_all(call), "memories": [KETTLE]}


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"])
def test_a_hook_starts_nothing_and_says_nothing(somebody: Session, event: str) -> None:
    home = somebody.home
    before = {path for path in home.path.rglob("*") if FOLDER not in path.parts}
    assert somebody.tell(event, prompt=TOPIC).is_silent
    assert {path for path in home.path.rglob("*") if FOLDER not in path.parts} == before
    assert not home.supervisor_socket.exists()


def test_what_a_sessions_start_could_not_tell_the_next_prompt_is_told(
    owner: Owner, session: Callable[..., Session], somebody: Session
) -> None:
    owner.stores("The kettle is blue.")
    owner.stores("The zebra server runs on port 4711.")
    begun = session(ENGRAMQ_HOME=somebody.environment["ENGRAMQ_HOME"])
    for event, source in (("SessionStart", "startup"), ("UserPromptSubmit", "")):
        assert begun.tell(event, source=source, prompt=TOPIC).output == ""
    (note,) = (somebody.home.path / FOLDER).iterdir()
    folder = owner.stack.home.path / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    shutil.move(note, folder / note.name)  # between file systems, too
    begun.environment["ENGRAMQ_HOME"] = str(owner.stack.home.path)
    context = told(begun, "UserPromptSubmit", prompt=TOPIC)
    assert context.index("4711") < context.index("kettle"), "what bears on the prompt comes first"
    assert 'This project is "time machine"' in context
    assert told(begun, "UserPromptSubmit", bound=3, prompt=TOPIC) == ""


def test_a_gateway_from_before_an_upgrade_is_asked_without_the_tool_that_it_does_not_know(somebody: Session) -> None:
    """It refused the whole hello, and nothing was told or captured until it was started anew."""
    with answering(somebody.home, unknown="list_standing") as calls:
        somebody.tell("SessionStart")
    assert {call["name"] for call in calls} == {"list_recent_memories"}


def test_a_prompt_without_words_is_told_what_a_start_owes(somebody: Session) -> None:
    somebody.tell("SessionStart", source="startup")
    with answering(somebody.home, knows) as calls:
        assert "kettle" in told(somebody, "UserPromptSubmit", prompt=" ")
    assert {call["name"] for call in calls} == {"list_recent_memories", "list_standing"}
    assert not somebody.notes.owes_start


def test_on_a_full_disk_a_session_in_a_new_folder_is_told_what_there_is(somebody: Session, tmp_path: Path) -> None:
    somebody.folder = str(repository(tmp_path / "rover"))
    with answering(somebody.home, knows), full_disk():
        context = told(somebody, "SessionStart", source="startup")
    assert "kettle" in context
    assert 'This project is "rover"' in context
    assert not somebody.home.projects.exists()


def test_on_a_full_disk_what_is_said_is_captured_and_what_is_refused_is_caught_up(somebody: Session) -> None:
    home = somebody.home
    somebody.says("user", "The first word.")
    with answering(home) as calls, full_disk():
        assert somebody.tell("Stop").code == 0
    assert ["The first word." in str(call) for call in calls] == [True]
    somebody.says("user", "The second word.")

    def refusing(_call: dict[str, Any]) -> dict[str, Any]:
        return {"status": "error", "code": "unavailable", "error": "The database's disk is full."}

    with answering(home, refusing):
        assert somebody.tell("Stop").code == 0
    assert somebody.notes.offset == 0
    with answering(home) as calls:
        assert somebody.tell("Stop").code == 0
    assert ["The first word." in str(call) and "The second word." in str(call) for call in calls] == [True]
    assert somebody.notes.offset == somebody.transcript.stat().st_size


def test_where_projects_cannot_be_known_apart_a_session_goes_on_in_the_one_that_it_had(
    somebody: Session, tmp_path: Path
) -> None:
    somebody.folder = str(repository(tmp_path / "rover"))
    somebody.tell("SessionStart", source="startup")
    other = Session(somebody.transcript, somebody.environment, folder=somebody.folder)
    home = somebody.home
    home.projects.write_text("{")
    for session, project in ((somebody, 'This project is "rover"'), (other, "")):
        context = ""
        with answering(home, knows):
            for _ in range(20):
                ended = session.tell("SessionStart", source="resume")
                assert (ended.code, ended.errors.count("\n")) == (0, 1)
                assert f"{home.projects} is no list of projects." in ended.errors
                context = ended.context
                if context:
                    break
        assert "kettle" in context
        assert ("This project is" in context, project in context) == (bool(project), True)


@pytest.mark.parametrize("tokens", ["0", "1", "100"])
def test_what_is_owed_is_paid_whatever_the_budget_and_whatever_there_is(somebody: Session, tokens: str) -> None:
    somebody.tell("SessionStart", source="startup")
    assert somebody.notes.owes_start
    somebody.environment["ENGRAMQ_HOOK_TOKENS"] = tokens
    deadline = time.monotonic() + 60
    with answering(somebody.home):
        while somebody.notes.owes_start:
            assert time.monotonic() < deadline
            assert somebody.tell("UserPromptSubmit", prompt=TOPIC).output == ""


def test_with_a_budget_of_nothing_no_prompt_asks_anything(somebody: Session) -> None:
    behind(somebody)
    somebody.environment["ENGRAMQ_HOOK_TOKENS"] = "0"
    somebody.tell("SessionStart", source="startup")
    with answering(somebody.home, knows) as calls:
        ended = somebody.tell("UserPromptSubmit", prompt=TOPIC)
    assert (ended.code, ended.output, ended.errors, calls) == (0, "", "", [])
    assert not somebody.notes.owes_start


def behind(session: Session) -> SessionNotes:
    """Leave another session of which something is still to be captured."""
    other = Session(session.transcript.with_name("other.jsonl"), session.environment)
    other.says("user", "The last word.")
    progress = other.notes
    progress.transcript = str(other.transcript)
    progress.write()
    note = session.home.path / FOLDER / f"{other.client}.{other.id}.json"
    os.utime(note, (time.time() - 2 * QUIET_S,) * 2)
    return progress


@pytest.mark.parametrize("event", RECALLS)
def test_a_stack_that_goes_while_another_session_is_caught_up_takes_nothing_back(somebody: Session, event: str) -> None:
    """Clients read one JSON object, and what was told must not be owed any more."""
    left = behind(somebody)
    somebody.tell("SessionStart", source="startup")
    tried: list[str] = []

    def refusing(call: dict[str, Any]) -> dict[str, Any]:
        if call["name"] != "import_memories":
            return knows(call)
        tried.append(call["name"])
        return {"status": "error", "code": "unavailable", "error": "Not now."}

    deadline = time.monotonic() + 60
    with answering(somebody.home, refusing):
        while True:
            ended = somebody.tell(event, prompt=TOPIC)
            assert (ended.code, ended.errors) == (0, "")
            if ended.output:
                break
            assert time.monotonic() < deadline
        told_once = json.loads(ended.output)["hookSpecificOutput"]["additionalContext"]
        assert KETTLE["content"] in told_once
        assert not somebody.notes.owes_start
        assert somebody.tell("UserPromptSubmit", prompt=TOPIC).output == ""
    assert tried
    assert SessionNotes(somebody.home, left.client, left.session).is_behind, "a later session tries again"


def test_a_home_that_takes_no_notes_is_recalled_from_all_the_same(somebody: Session) -> None:
    (somebody.home.path / FOLDER).write_text("in the way")
    with answering(somebody.home, knows):
        assert "kettle" in told(somebody, "SessionStart", source="startup")
