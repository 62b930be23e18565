"""What a person answers to OpenCode's questions comes in, as 1.18.34 keeps it; what its other tools give does not."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.records import UncheckedRow
from engramq.deploy.importing.sessions import Projects, SessionRows, Transcripts
from engramq.deploy.importing.transcript_files import StoredSession
from engramq.deploy.importing.transcripts import READERS
from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.turns import Spoken
from engramq.schemas.vocabulary import TranscriptFormat
from tests.deploy.importing.agent_homes import SAID, opencode

pytestmark = pytest.mark.promise("SN-1")

ASKED = {"questions": [{"question": "Which tea?", "header": "Tea"}, {"question": "How warm?", "header": "Heat"}]}
OUTPUT = 'User has answered your questions: "Which tea?"="Hibiscus, never black".'


def spoken(folder: Path, tool: str, state: dict[str, Any]) -> list[tuple[str, str]]:
    path = opencode(folder, "/work/rover", "ses_1")
    part = {"type": "tool", "tool": tool, "callID": "c1", "state": {"status": "completed", "output": OUTPUT, **state}}
    with closing(sqlite3.connect(path)) as database, database:
        row = ("p9", "msg_ses_11", "ses_1", json.dumps(part, separators=(",", ":")))
        database.execute("insert into part values (?, ?, ?, ?)", row)
    reader = READERS[TranscriptFormat.OPENCODE]
    sessions = [each for each in reader.sessions(path) if isinstance(each, StoredSession)]
    said = [each for session in sessions if not reader.head(session).is_subagent for each in reader.said(session)]
    return [(each.turn.speaker, each.turn.text) for each in said if isinstance(each, Spoken)]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([["Hibiscus, never black"], []], "Which tea?\nHibiscus, never black"),
        ([["Mint", "Fennel"], ["80"]], "Which tea?\nMint, Fennel\nHow warm?\n80"),
    ],
)
def test_an_answer_is_a_turn_of_the_person(tmp_path: Path, answers: list[list[str]], words: str) -> None:
    said = spoken(tmp_path, "question", {"input": ASKED, "metadata": {"answers": answers}})
    assert said == [SAID[0], ("user", words), SAID[1]]


@pytest.mark.parametrize(
    ("tool", "state"),
    [
        ("bash", {"input": ASKED, "metadata": {"answers": [["Mint"]]}}),
        ("question", {"input": ASKED, "metadata": {}}),
        ("question", {"input": {"questions": "?"}, "metadata": {"answers": [["Mint"]]}}),
        ("question", {"input": ASKED, "metadata": {"answers": ["Mint", 7]}}),
        ("question", {"input": {"questions": [7]}, "metadata": {"answers": [[]]}}),
    ],
)
def test_what_is_no_answer_is_no_turn(tmp_path: Path, tool: str, state: dict[str, Any]) -> None:
    assert spoken(tmp_path, tool, state) == list(SAID)


def test_a_session_of_answers_alone_is_none_without_a_turn(tmp_path: Path) -> None:
    spoken(tmp_path, "question", {"input": ASKED, "metadata": {"answers": [["Mint"]]}})
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("delete from part where id <> 'p9'")
    rows = SessionRows(Projects(Home(tmp_path / "engramq"), "default", set_for_all="rover"))
    rows.list_all([Transcripts(TranscriptFormat.OPENCODE, (path,))])
    assert [row.values["content"] for row in rows.rows() if isinstance(row, UncheckedRow)] == ["Which tea?\nMint"]
    assert {left_out.what for left_out in rows.left_out} == {"sessions of subagents"}
