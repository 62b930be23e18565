"""What is left of other sessions: notes and transcripts that are odd stop neither a hook nor what can be captured."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local.hooks.capture import LOG
from engramq.deploy.local.hooks.notes import FOLDER, QUIET_S, SessionNotes
from engramq.deploy.local.hooks.turns import INVALID
from tests.deploy.local.hooks.gateway import answering, takes_all
from tests.deploy.local.hooks.sessions import Session

pytestmark = [pytest.mark.promise("RC-5"), pytest.mark.timeout(120)]


def test_a_path_that_is_none_is_no_trouble_now_or_for_later_sessions(somebody: Session) -> None:
    home = somebody.home
    noted = home.path / FOLDER / f"claude-code.{somebody.id}.json"
    with answering(home):
        ended = somebody.tell("Stop", transcript_path="/tmp/a\0b", cwd="/\0")
        assert ended.is_silent
        # As notes may be that something else has written.
        noted.write_text(json.dumps({"transcript": "/tmp/a\0b", "offset": 0}))
        os.utime(noted, (time.time() - 2 * QUIET_S,) * 2)
        ended = Session(somebody.transcript, somebody.environment).tell("SessionStart", source="startup")
    assert (ended.code, ended.errors) == (0, "")


def test_sessions_that_cannot_be_caught_up_keep_no_other_one_from_it(somebody: Session, tmp_path: Path) -> None:
    """Files of clients that were killed end within a line: there is more in them than can ever be captured."""
    home = somebody.home
    torn = tmp_path / "torn.jsonl"
    torn.write_text('{"type": "user"')
    unreadable = tmp_path / "folder"
    unreadable.mkdir()
    somebody.says("user", "The last word.")
    names = [f"torn-{number}" for number in range(60)]
    for name in (*names[:30], "unreadable", "behind", "unreadable-too", *names[30:]):
        progress = SessionNotes(home, "claude-code", name)
        file = {"behind": somebody.transcript, **dict.fromkeys(names, torn)}.get(name, unreadable)
        progress.transcript = str(file)
        progress.write()
    for note in (home.path / FOLDER).iterdir():
        os.utime(note, (time.time() - 2 * QUIET_S,) * 2)
    with answering(home) as calls:
        deadline = time.monotonic() + 30
        while not (stored := [call for call in calls if call["name"] == "import_memories"]):
            assert time.monotonic() < deadline
            ended = Session(somebody.transcript, somebody.environment).tell("SessionStart", source="startup")
            assert (ended.code, ended.errors) == (0, "")
    assert [record["content"] for record in stored[0]["arguments"]["records"]] == ["The last word."]


def test_a_long_session_is_captured_in_calls_that_a_slow_machine_can_answer(somebody: Session) -> None:
    home = somebody.home
    said = [f"Turn {number}." for number in range(40)]
    for text in said:
        somebody.says("user", text)
    with answering(home) as calls:
        deadline = time.monotonic() + 30
        while SessionNotes(home, "claude-code", somebody.id).is_behind or not calls:
            assert time.monotonic() < deadline
            somebody.tell("Stop")
    sent = [[record["content"] for record in call["arguments"]["records"]] for call in calls]
    assert max(map(len, sent)) == 16
    assert {text for texts in sent for text in texts} == set(said)


def test_a_turn_that_is_refused_for_good_is_said_and_keeps_no_other_one_from_being_kept(somebody: Session) -> None:
    home = somebody.home
    for text in ("Before.", "What no memory may say.", "After."):
        somebody.says("user", text)

    def refusing(call: dict[str, Any]) -> dict[str, Any]:
        if any("no memory" in record["content"] for record in call["arguments"]["records"]):
            return {"status": INVALID, "code": INVALID, "field": "records[0].content", "error": "It may not be said."}
        return takes_all(call)

    with answering(home, refusing) as calls:
        ended = somebody.tell("Stop")
        again = somebody.tell("Stop")
    kept = [[record["content"] for record in call["arguments"]["records"]] for call in calls[1:]]
    assert kept == [["Before."], ["What no memory may say."], ["After."]]
    assert "1 of this session's turns were refused and not kept: records[0].content: It may not be" in ended.errors
    assert again.errors == ""
    noted = [json.loads(line) for line in (home.logs / LOG).read_text().splitlines()]
    assert [(line["session"], line["refused"]) for line in noted] == [(somebody.id, 1)]
    assert "no memory" not in (home.logs / LOG).read_text()


def test_rows_that_an_import_rejects_are_said(somebody: Session) -> None:
    home = somebody.home
    somebody.says("user", "One.")
    with answering(home, lambda call: {**takes_all(call), "accepted": 0}):
        ended = somebody.tell("Stop")
    assert "1 of this session's turns were refused and not kept: get_command has the receipts of c1" in ended.errors


@pytest.mark.parametrize("code", ["forbidden", "quota_exceeded", "overloaded"])
def test_what_may_be_taken_later_is_sent_anew(somebody: Session, code: str) -> None:
    home = somebody.home
    somebody.says("user", "One.")
    with answering(home, lambda _call: {"status": "error", "code": code, "error": "Not now."}) as calls:
        somebody.tell("Stop")
        somebody.tell("Stop")
    assert len(calls) == 2
    assert not (home.logs / LOG).exists()
