"""Transcripts as versions of each client write them, and one that no line is understood of: nothing of it is given up.

Those of Codex are of the released programs, cut to what tells the form; the others are written after theirs.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local.doctor.machine import hooks_check
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.capture import LOG
from engramq.deploy.local.hooks.notes import FOLDER, QUIET_S, SessionNotes
from tests.deploy.local.hooks.gateway import answering
from tests.deploy.local.hooks.sessions import CODEX, Session

pytestmark = [pytest.mark.promise("RC-5"), pytest.mark.timeout(120)]

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").iterdir())
SAID = [("user", "We deploy the zebra server on Fridays."), ("assistant", "Then I shall wait for Friday.")]
UNHEARD_OF: dict[str, Any] = {"timestamp": "2027-01-01T10:00:00.000Z", "type": "turn", "words": {"user": "Hello."}}


def session_in(folder: Path, client: str) -> Session:
    home = Home(folder / "home")
    home.ensure()
    return Session(folder / "transcript.jsonl", {"PATH": os.environ["PATH"], "ENGRAMQ_HOME": str(home.path)}, client)


def home_of(session: Session) -> Home:
    return Home(Path(session.environment["ENGRAMQ_HOME"]))


def notes_of(session: Session) -> SessionNotes:
    return SessionNotes(home_of(session), session.client, session.id)


def ends_a_turn(session: Session) -> list[tuple[str, str]]:
    """Tell of a turn's end; return what was captured, each turn once."""
    with answering(home_of(session)) as calls:
        ended = session.tell("Stop", stop_hook_active=False)
    assert (ended.code, ended.output) == (0, "")
    records = {record["external_id"]: record for call in calls for record in call["arguments"]["records"]}
    return [(record["speaker"], record["content"]) for record in records.values()]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_what_was_said_is_read_out_of_each_versions_transcript(transcript: Path, tmp_path: Path) -> None:
    session = session_in(tmp_path, transcript.stem.rpartition("-")[0])
    session.transcript.write_bytes(transcript.read_bytes())
    assert ends_a_turn(session) == SAID
    assert ends_a_turn(session) == []
    assert hooks_check(home_of(session)).state == "ok"


def test_a_codex_that_was_upgraded_goes_on_in_its_own_form(tmp_path: Path) -> None:
    session = session_in(tmp_path, CODEX)
    old, new = (path for path in TRANSCRIPTS if path.name.startswith(CODEX))
    session.transcript.write_bytes(old.read_bytes() + new.read_bytes())
    assert ends_a_turn(session) == SAID * 2


def test_where_somebody_spoke_and_no_line_is_understood_nothing_is_passed_over(tmp_path: Path) -> None:
    session = session_in(tmp_path, CODEX)
    session.note(UNHEARD_OF)
    assert ends_a_turn(session) == []
    assert notes_of(session).offset == 0
    session.note(UNHEARD_OF)
    ends_a_turn(session)
    (line,) = (home_of(session).logs / LOG).read_text().splitlines()
    assert json.loads(line)["session"] == session.id
    assert "no line of its transcript is understood" in line
    assert "Hello" not in line
    check = hooks_check(home_of(session))
    assert check.state == "degraded"
    assert "codex" in check.told

    # As a release would see it that reads the form.
    session.transcript.write_text("")
    session.note(*[UNHEARD_OF] * 2)
    session.says("user", "The kettle is blue.")
    assert ends_a_turn(session) == [("user", "The kettle is blue.")]
    assert not notes_of(session).is_behind
    assert hooks_check(home_of(session)).state == "ok"


def test_what_a_turn_said_while_the_stack_was_away_is_not_passed_over_by_a_later_session(tmp_path: Path) -> None:
    session = session_in(tmp_path, CODEX)
    session.note(UNHEARD_OF)
    session.tell("Stop", stop_hook_active=False)
    note = home_of(session).path / FOLDER / f"{CODEX}.{session.id}.json"
    os.utime(note, (note.stat().st_mtime - 2 * QUIET_S,) * 2)
    with answering(home_of(session)):
        Session(session.transcript, session.environment, CODEX).tell("SessionStart", source="startup")
    assert notes_of(session).is_behind
    assert hooks_check(home_of(session)).state == "degraded"


def test_lines_of_a_client_in_which_nobody_spoke_are_passed_over_in_silence(tmp_path: Path) -> None:
    session = session_in(tmp_path, "claude-code")
    session.says("user", "The kettle is blue.")
    assert ends_a_turn(session) == [("user", "The kettle is blue.")]
    ends_a_turn(session)  # as two hooks of one event do
    session.note({"type": "last-prompt", "lastPrompt": "The kettle is blue."})
    with answering(home_of(session)):
        session.tell("SessionEnd", reason="exit")
    assert not notes_of(session).is_behind
    assert not (home_of(session).logs / LOG).exists()
