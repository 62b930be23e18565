"""Each thing that a person says to Copilot's command line comes in once, and nothing of its program."""

import json
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.transcript_files import StoredSession
from engramq.deploy.importing.transcripts import READERS, transcript_format
from engramq.deploy.local.hooks.turns import SessionFacts, Spoken
from engramq.schemas.vocabulary import TranscriptFormat
from tests.deploy.importing.agent_homes import WRITERS, lines_of, moment

pytestmark = pytest.mark.promise("SN-1")


def said(folder: Path, *events: tuple[str, dict[str, Any]]) -> tuple[list[tuple[str, str]], list[str]]:
    path = folder / "events.jsonl"
    start = ("session.start", {"sessionId": "s", "context": {"cwd": "/work"}})
    lines = enumerate([start, *events])
    path.write_text(
        lines_of(
            {"type": kind, "data": data, "id": f"e{at}", "timestamp": moment(at), "parentId": None}
            for at, (kind, data) in lines
        )
    )
    assert transcript_format(path) is TranscriptFormat.COPILOT
    found = list(READERS[TranscriptFormat.COPILOT].said(StoredSession(str(path), 1, 0.0)))
    turns = [(each.turn.speaker, each.turn.text) for each in found if isinstance(each, Spoken)]
    return turns, [each.what for each in found if isinstance(each, LeftOut)]


FORM = {"responseKind": "ask_user", "content": {"tea": "Fennel, never black"}, "message": "Which tea?"}
WORDS = [
    ("prompt", "user.message", {"content": "The pot must be round.", "delivery": "idle"}, "The pot must be round."),
    ("mid-turn", "user.message", {"content": "Of two litres.", "delivery": "steering"}, "Of two litres."),
    ("answer", "human_response.recorded", {"response": FORM}, "Which tea?\nFennel, never black"),
    ("refusal", "permission.completed", {"result": {"kind": "denied", "feedback": "No file."}}, "No file."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "words"), [each[1:] for each in WORDS], ids=[each[0] for each in WORDS])
def test_what_a_person_says_is_a_turn(tmp_path: Path, kind: str, data: dict[str, Any], words: str) -> None:
    assert said(tmp_path, (kind, data))[0] == [("user", words)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("permission.completed", {"result": {"kind": "approved"}}),
        ("user.message", {"content": "Use the skill.", "source": "skill-pdf"}),
        ("tool.execution_complete", {"result": {"content": "User responded: Fennel"}}),
        ("human_response.recorded", {"response": {"responseKind": "ask_user", "content": {}}}),
        ("assistant.message", {"content": "", "toolRequests": []}),
        ("user.message", {"content": 7}),
        ("user.message", {}),
    ],
)
def test_what_nobody_said_is_none(tmp_path: Path, kind: str, data: dict[str, Any]) -> None:
    assert said(tmp_path, (kind, data))[0] == []


@pytest.mark.promise("SN-2")
def test_an_event_that_is_not_known_is_counted_by_name(tmp_path: Path) -> None:
    assert "lines of a kind that this version does not know: user.sung" in said(tmp_path, ("user.sung", {}))[1]


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini", "copilot", "qwen", "pi", "cline", "continue"])
def test_the_folder_of_a_client_is_known_by_a_session_in_it(tmp_path: Path, client: str) -> None:
    folder = WRITERS[client](tmp_path, "/work/rover", "5a1e0000-0000-4000-8000-000000000001")
    home = next(above for above in folder.parents if above.parent == tmp_path)
    assert transcript_format(home) == client
    assert transcript_format(tmp_path) is None


@pytest.mark.promise("RC-14")
def test_the_first_sessions_of_codex_are_one_object_each(tmp_path: Path) -> None:
    """Until June 2025 a session was no file of lines; its turns have the time at which it began."""
    folder = tmp_path / ".codex" / "sessions"
    folder.mkdir(parents=True)

    def said_by(role: str, text: str) -> dict[str, Any]:
        return {
            "type": "message",
            "role": role,
            "content": [{"type": "input_text" if role == "user" else "output_text", "text": text}],
        }

    items = [
        said_by("user", "The kettle must be blue."), {"type": "reasoning", "summary": []},
        {"type": "local_shell_call", "call_id": "c"}, {"type": "local_shell_call_output", "call_id": "c"},
        said_by("assistant", "A blue one."), said_by("user", "Of two litres."),
    ]  # fmt: skip
    session = {"timestamp": "2025-04-20T10:11:12.000Z", "id": "0f0e", "instructions": ""}
    file = folder / "rollout-2025-04-20-0f0e.json"
    file.write_text(json.dumps({"session": session, "items": items}, indent=2))
    assert transcript_format(file) is TranscriptFormat.CODEX
    (listed,) = READERS[TranscriptFormat.CODEX].sessions(tmp_path / ".codex")
    assert isinstance(listed, StoredSession)
    assert READERS[TranscriptFormat.CODEX].head(listed).session == "0f0e"
    said = list(READERS[TranscriptFormat.CODEX].said(listed))
    turns = [each.turn for each in said if isinstance(each, Spoken)]
    assert [(turn.speaker, turn.text) for turn in turns] == [
        ("user", "The kettle must be blue."), ("assistant", "A blue one."), ("user", "Of two litres."),
    ]  # fmt: skip
    assert {each.began for each in said if isinstance(each, SessionFacts)} == {"2025-04-20T10:11:12.000Z"}
    assert [each for each in said if "does not know" in str(each)] == []
