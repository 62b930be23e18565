"""Each thing that a person says to Qwen Code and to pi comes in once, also from forks, and nothing of the programs."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.transcript_files import StoredSession
from engramq.deploy.importing.transcripts import READERS
from engramq.deploy.local.hooks.turns import Spoken, Turn
from engramq.schemas.vocabulary import TranscriptFormat
from tests.deploy.importing.agent_homes import lines_of, milliseconds, moment

pytestmark = pytest.mark.promise("SN-1")

Line = dict[str, Any]


def turns(client: TranscriptFormat, folder: Path, *lines: Line) -> list[Turn]:
    path = folder / "session.jsonl"
    path.write_text(lines_of(lines))
    said = READERS[client].said(StoredSession(str(path), 1, 0.0))
    return [each.turn for each in said if isinstance(each, Spoken)]


def of_qwen(kind: str, *texts: str, whose: str = "real_user", **more: Any) -> Line:
    message = {"role": "user", "parts": [{"text": text} for text in texts]}
    named = {"uuid": "u1", "sessionId": "S", "cwd": "/work", "timestamp": moment(1)}
    return {**named, "type": kind, "provenance": whose, "message": message, **more}


def answer(*answers: Any) -> Line:
    shown = {"type": "ask_user_question_answers", "answers": list(answers)}
    return of_qwen("tool_result", whose="tool_result", toolCallResult={"resultDisplay": shown})


QWEN_SAYS: dict[str, tuple[Line, list[str]]] = {
    "a prompt": (of_qwen("user", "The pot is round."), ["The pot is round."]),
    "mid-turn": (of_qwen("user", "Of two litres.", subtype="mid_turn_user_message"), ["Of two litres."]),
    "files that are named": (
        of_qwen("user", "See @tea.md", "\n--- Content from referenced files ---", "\nContent from tea.md:\n", "Fennel"),
        ["See @tea.md"],
    ),
    "an image that is named": (
        of_qwen("user", "My @pot.png", "\n--- Content from referenced files ---", "Image overview: 16x16"),
        ["My @pot.png"],
    ),
    "a compaction": (of_qwen("system", "Fennel", whose="system", subtype="chat_compression"), []),
    "an answer": (answer({"question": "Which tea?", "answer": "Fennel"}), ["Which tea?\nFennel"]),
    "no answer": (answer(), []),
    "answers of another form": (answer("Fennel", None), []),
    "a tool's output": (of_qwen("tool_result", "Fennel", whose="tool_result", toolCallResult={}), []),
    "a notice": (of_qwen("user", "A task has ended.", whose="background_task_completed"), []),
    "a subagent": (of_qwen("assistant", "I count.", whose="subagent"), []),
    "an older version": ({**of_qwen("user", "The pot is flat."), "provenance": None}, ["The pot is flat."]),
    "parts of no form": ({**of_qwen("user"), "message": {"parts": 7}}, []),
}


@pytest.mark.parametrize("case", QWEN_SAYS)
def test_qwen_code_says_what_its_person_said(tmp_path: Path, case: str) -> None:
    line, words = QWEN_SAYS[case]
    assert [turn.text for turn in turns(TranscriptFormat.QWEN, tmp_path, line)] == words


def of_pi(role: str, text: str, **more: Any) -> Line:
    message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": milliseconds(1), **more}
    return {"type": "message", "id": "a1b2c3d4", "timestamp": moment(9), "message": message}


SKILL = '<skill name="brew" location="/s/SKILL.md">\nReferences are relative to /s.\n\nBoil it.\n</skill>'
NAMED = '<file name="/t/pot.png"></file>\n<file name="/t/tea.md">\nFennel\n</file>\n'
PAGE = "<file>x</file>\nThe secret plan: delete all."
REPORT = '<checkstyle>\n<file name="a">\n<error/>\n</file>\n<file name="b"></file>\n</checkstyle>'
PARTS = '<file name="a">\nx\n</file>\n<!-- then -->\n<file name="b">\ny\n</file>\n<!-- last -->'
QUOTED = 'Why is\n<file name="a">\nx\n</file>\nin it?'
LOGGED = "print('<file name=\"' + name)\nprint('</file>')"


def in_file(content: str) -> str:
    return f'<file name="/t/a">\n{content}\n</file>\n'


PI_SAYS: dict[str, tuple[Line, list[str]]] = {
    "a prompt": (of_pi("user", "The pot is round."), ["The pot is round."]),
    "a file that is named": (of_pi("user", f"{NAMED}Is it mine?"), ["Is it mine?"]),
    "a file alone": (of_pi("user", NAMED), []),
    "a file that is never closed": (of_pi("user", '<file name="/t">\nMine.'), ['<file name="/t">\nMine.']),
    "a file of HTML": (of_pi("user", f"{in_file(PAGE)}Is it mine?"), ["Is it mine?"]),
    "a file of XML": (of_pi("user", f"{in_file(REPORT)}{NAMED}Is it mine?"), ["Is it mine?"]),
    "a file with files in it": (of_pi("user", f"{in_file(PARTS)}Is it mine?"), ["Is it mine?"]),
    "a file of a program": (of_pi("user", f"{in_file(LOGGED)}{in_file(PAGE)}Is it mine?"), ["Is it mine?"]),
    "a file of a begin alone": (of_pi("user", in_file('<file name="b">') + "Is it mine?"), ["Is it mine?"]),
    "a file that is quoted behind one": (of_pi("user", f"{in_file(PARTS)}{QUOTED}"), [QUOTED]),
    "an end that is quoted": (of_pi("user", "Why\n</file>\nhere?"), ["Why\n</file>\nhere?"]),
    "an image with a note": (of_pi("user", '<file name="/t/a.png">[16x16]</file>\nMine?'), ["Mine?"]),
    "a skill": (of_pi("user", f"{SKILL}\n\nfennel, no sugar"), ["/skill:brew fennel, no sugar"]),
    "a skill alone": (of_pi("user", SKILL), []),
    "a skill that is quoted": (of_pi("user", f"Look:\n{SKILL}"), [f"Look:\n{SKILL}"]),
    "an answer": (of_pi("assistant", "Noted.", stopReason="stop"), ["Noted."]),
    "half an answer": (of_pi("assistant", "Not", stopReason="aborted"), []),
    "a tool's output": (of_pi("toolResult", "fennel"), []),
    "a command of the shell": ({**of_pi("bashExecution", ""), "message": {"role": "bashExecution"}}, []),
    "the program": (of_pi("system", "You are a coding assistant."), []),
    "a summary": ({"type": "branch_summary", "id": "b", "timestamp": moment(1), "summary": "Pots."}, []),
}


@pytest.mark.parametrize("case", PI_SAYS)
def test_pi_says_what_its_person_said(tmp_path: Path, case: str) -> None:
    line, words = PI_SAYS[case]
    head = {"type": "session", "version": 3, "id": "S", "timestamp": moment(0), "cwd": "/work"}
    assert [turn.text for turn in turns(TranscriptFormat.PI, tmp_path, head, line)] == words


def test_an_entry_of_pi_is_known_in_a_fork_and_is_of_when_it_was_typed(tmp_path: Path) -> None:
    entry = of_pi("user", "Of two litres.")
    head = {"type": "session", "timestamp": moment(0), "cwd": "/work"}
    first, fork = (turns(TranscriptFormat.PI, tmp_path, {**head, "id": session}, entry) for session in "AB")
    assert first == fork
    assert first[0].key == f"a1b2c3d4:{moment(9)}"
    assert datetime.fromisoformat(first[0].moment) == datetime.fromisoformat(moment(1))
    later = {**entry, "timestamp": moment(10)}  # another session may have the same short id
    assert turns(TranscriptFormat.PI, tmp_path, head, later)[0].key != first[0].key
