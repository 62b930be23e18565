"""Each thing that a person says to Cline and to Continue comes in once, also from forks, and nothing of theirs."""

import json
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.transcript_files import StoredSession
from engramq.deploy.importing.transcripts import READERS
from engramq.deploy.local.hooks.turns import SessionFacts, Spoken, Turn
from engramq.schemas.vocabulary import TranscriptFormat
from tests.deploy.importing.agent_homes import milliseconds

pytestmark = pytest.mark.promise("SN-1")

Message = dict[str, Any]
CALL = "call_1"


def turns(client: TranscriptFormat, folder: Path, document: Message) -> list[Turn]:
    path = folder / "session.json"
    path.write_text(json.dumps(document))
    said = READERS[client].said(StoredSession(str(path), 1, 0.0))
    return [each.turn for each in said if isinstance(each, Spoken)]


def of_cline(*blocks: Any, role: str = "user", **more: Any) -> Message:
    return {"id": "m1", "role": role, "content": list(blocks), "ts": milliseconds(1), **more}


def text(words: str) -> Message:
    return {"type": "text", "text": words}


def mark_typed(words: str) -> Message:
    return text(f'<user_input mode="act">{words}</user_input>')


NOTICE = "<mode_notice>The user switched from plan mode to act mode before sending this message.</mode_notice>\n"
ASKED = of_cline(
    {
        "type": "tool_use",
        "id": CALL,
        "name": "ask_question",
        "input": {"question": "Which tea?", "options": ["Fennel"]},
    },
    role="assistant",
)
CLINE_SAYS: dict[str, tuple[list[Message], list[str]]] = {
    "a prompt": ([of_cline(mark_typed("The pot is round."))], ["The pot is round."]),
    "a prompt in another mode": ([of_cline(mark_typed(f"{NOTICE}Now boil it."))], ["Now boil it."]),
    "a mark that is quoted": ([of_cline(mark_typed("Why </user_input> here?"))], ["Why </user_input> here?"]),
    "an image": (
        [of_cline(mark_typed("[Image 1]  is my pot"), {"type": "image", "data": "iVBO"})],
        ["[Image 1]  is my pot"],
    ),
    "a file that is named": (
        [of_cline(mark_typed("See @tea.md"), {"type": "file", "path": "/t/tea.md", "content": "Fennel"})],
        ["See @tea.md"],
    ),
    "an answer": (
        [
            ASKED,
            of_cline({"type": "tool_result", "tool_use_id": CALL, "name": "ask_question", "content": "Only mint."}),
        ],
        ["Which tea?\nOnly mint."],
    ),
    "no answer": (
        [ASKED, of_cline({"type": "tool_result", "name": "ask_question", "content": "Cancelled", "is_error": True})],
        [],
    ),
    "an answer of another form": (
        [ASKED, of_cline({"type": "tool_result", "name": "ask_question"}, 7, None)],
        [],
    ),
    "a tool's output": ([of_cline({"type": "tool_result", "name": "run_commands", "content": "Fennel"})], []),
    "a refused tool": (
        [of_cline({"type": "tool_result", "name": "run_commands", "content": "{}", "is_error": True})],
        [],
    ),
    "a summary": ([of_cline(text("Context summary: pots"), metadata={"displayRole": "system"})], []),
    "an error of the program": (
        [of_cline(text("Rate limited."), role="assistant", metadata={"displayOnly": True, "displayRole": "error"})],
        [],
    ),
    "a message of another form": ([{"id": 7, "role": "user", "content": 7}], []),
}


@pytest.mark.parametrize("case", CLINE_SAYS)
def test_cline_says_what_its_person_said(tmp_path: Path, case: str) -> None:
    messages, words = CLINE_SAYS[case]
    document = {"agent": "lead", "sessionId": "S", "origin": {}, "messages": messages}
    assert [turn.text for turn in turns(TranscriptFormat.CLINE, tmp_path, document)] == words


def of_continue(role: str, content: Any, **more: Any) -> Message:
    return {"message": {"role": role, "content": content}, "contextItems": [], **more}


def answer_by_tool(name: str, output: str) -> Message:
    call = {"toolCall": {"function": {"name": name}}, "parsedArgs": {"question": "Which tea?"}}
    return of_continue("assistant", "", toolCallStates=[{**call, "output": [{"content": output}]}])


SKILL = 'Load the skill using the **Skills** tool and then set the **skill_name** parameter to "brew".'
CONTINUE_SAYS: dict[str, tuple[Message, list[str]]] = {
    "a prompt": (of_continue("user", "The pot is round."), ["The pot is round."]),
    "an image": (
        of_continue("user", [text("My pot:"), {"type": "imageUrl", "imageUrl": {"url": "data:image/png;base64,iV"}}]),
        ["My pot:"],
    ),
    "an answer in other words": (
        answer_by_tool("AskQuestion", 'User provided custom answer: "Only "mint"."'),
        ['Which tea?\nOnly "mint".'],
    ),
    "an answer that was chosen": (
        answer_by_tool("AskQuestion", 'User selected option 2: "Mint"'),
        ["Which tea?\nMint"],
    ),
    "no answer": (answer_by_tool("AskQuestion", "Permission denied by user"), []),
    "a tool's output": (answer_by_tool("Bash", 'User answered: "Mint"'), []),
    "what stands for a skill": (of_continue("user", SKILL), []),
    "a summary": (of_continue("assistant", "Pots.", conversationSummary="Pots."), []),
    "a message that a summary follows": (of_continue("user", "Boil it.", conversationSummary="Pots."), ["Boil it."]),
    "the program": (of_continue("system", "You are an agent."), []),
    "a message of another form": ({"message": 7, "toolCallStates": [7]}, []),
}


@pytest.mark.parametrize("case", CONTINUE_SAYS)
def test_continue_says_what_its_person_said(tmp_path: Path, case: str) -> None:
    message, words = CONTINUE_SAYS[case]
    found = turns(TranscriptFormat.CONTINUE, tmp_path, history_of("S", message))
    assert [turn.text for turn in found] == words


def history_of(session: str, *history: Message, folder: str = "/work") -> Message:
    return {"sessionId": session, "workspaceDirectory": folder, "history": list(history)}


@pytest.mark.parametrize(
    ("listed", "began"),
    [
        ([{"sessionId": "session", "dateCreated": "1772445600250"}], "2026-03-02T10:00:00.250000Z"),
        ([{"sessionId": "session", "dateCreated": "2026-03-02T10:00:00.250Z"}], "2026-03-02T10:00:00.250Z"),
        ([{"sessionId": "another", "dateCreated": "1772445600250"}, 7], ""),
        ([{"sessionId": "session", "dateCreated": "soon"}], ""),
        ([{"sessionId": "session", "dateCreated": "999999999999999"}], ""),
        ({"session": 7}, ""),
        (7, ""),
    ],
)
def test_a_session_of_continue_is_of_when_it_is_listed_to_have_begun(tmp_path: Path, listed: Any, began: str) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(history_of("session", of_continue("user", "Boil it."))))
    (tmp_path / "sessions.json").write_text(json.dumps(listed))
    session = StoredSession(str(path), 1, 0.0)
    head = READERS[TranscriptFormat.CONTINUE].head(session)
    assert (head.session, head.folder, head.began) == ("session", "/work", began)
    facts = [each for each in READERS[TranscriptFormat.CONTINUE].said(session) if isinstance(each, SessionFacts)]
    assert facts[-1] == head


def test_a_session_of_continue_outside_of_folders_is_of_when_it_began_too(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(history_of("session", of_continue("user", "Boil it."), folder="")))
    (tmp_path / "sessions.json").write_text('[{"sessionId": "session", "dateCreated": "1772445600250"}]')
    facts, *_ = READERS[TranscriptFormat.CONTINUE].said(StoredSession(str(path), 1, 0.0))
    assert facts == SessionFacts("session", began="2026-03-02T10:00:00.250000Z")


def test_a_message_of_continue_is_known_by_what_was_said_before_it(tmp_path: Path) -> None:
    said = [of_continue("user", "Boil it."), of_continue("assistant", "Done."), of_continue("user", "Boil it.")]

    def keys(document: Message) -> list[str]:
        return [turn.key for turn in turns(TranscriptFormat.CONTINUE, tmp_path, document)]

    first = keys(history_of("A", *said))
    assert len({*first}) == 3
    fork = keys(history_of("B", *said, of_continue("user", "Now pour.")))
    assert (fork[:3], len({*fork})) == (first, 4)
    summary = of_continue("assistant", "Pots.", conversationSummary="Pots.")
    assert not {*first} & {*keys(history_of("A", summary, *said))}, "what is said after a compaction is new"
    assert not {*first} & {*keys(history_of("A", *said, folder="/elsewhere"))}
