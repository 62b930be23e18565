"""Read the sessions of Continue: one JSON object each, `sessions/ID.json`, whose messages have neither ids nor times.

A person's words stand in prompts and in answers to its questions. The forms are those of its command line 1.5.47, which
was run in a terminal. A fork copies messages without a word, a compaction takes them out of the file: so each is known
by the folder and by all that was said before it, and is of the time when its session began. Sessions of one folder that
begin alike share that beginning.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engramq.deploy.importing.exports import moment
from engramq.deploy.importing.fields import list_at, value_at
from engramq.deploy.local.hooks import turns

_FOLDER: Final = "workspaceDirectory"
_SPEAKERS: Final = {"user": turns.USER, "assistant": turns.ASSISTANT}
_SILENT: Final = ("system", "tool", "thinking")
_QUESTION: Final = "AskQuestion"
_ANSWER: Final = r'(?s)User (?:provided custom answer|selected option \d+|answered): "(.*)"'
# The text in the place of a skill's command, whose other words the program drops.
_SKILL: Final = "Load the skill using the **Skills** tool and then set the **skill_name** parameter to "
_DIGEST_BYTES: Final = 16


class _History(turns.LineReader):
    """Reads messages, each after those that it is known by."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)
        self._known = ""
        self._position = -1

    def read(self, line: Mapping[str, Any], at: int) -> Iterator[turns.Spoken]:
        """Yield a message, and what was answered to the questions in it."""
        if _FOLDER in line:
            self._known = turns.text_at(line, _FOLDER)
            return
        self._position += 1
        role, words = _role_of(line), turns.text_in(turns.object_in(line.get("message")).get("content"))
        whole = "\0".join((self._known, role, words)).encode(errors="surrogatepass")
        self._known = hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).hexdigest()
        if (role == turns.USER and words.startswith(_SKILL)) or _name_unspoken(line):
            return
        said = [turns.make_turn(self._known, _SPEAKERS.get(role), words, None)]
        for number, call in enumerate(list_at(line, "toolCallStates")):
            if value_at(call, "toolCall.function.name") == _QUESTION:
                given = turns.join_answers((value_at(call, "parsedArgs.question"), answer) for answer in _answers(call))
                said.append(turns.make_turn(f"{self._known}:{number}", turns.USER, given, None))
        yield from (turns.Spoken(turn._replace(position=self._position), at) for turn in said if turn is not None)


def _answers(call: object) -> Iterator[str]:
    for output in list_at(call, "output"):
        text = value_at(output, "content")
        if isinstance(text, str) and (answer := re.fullmatch(_ANSWER, text)):
            yield answer[1]


def _role_of(line: Mapping[str, Any]) -> str:
    return turns.text_at(turns.object_in(line.get("message")), "role")


def _facts_of(line: Mapping[str, Any]) -> turns.SessionFacts:
    began = turns.text_at(line, "dateCreated")  # in the list of sessions alone
    at = turns.moment_of(moment(int(began) / 1000) if re.fullmatch(r"(?a)\d{1,15}", began) else began)
    return turns.SessionFacts(turns.text_at(line, "sessionId"), turns.text_at(line, _FOLDER), began=at)


def _name_unspoken(line: Mapping[str, Any]) -> str:
    summary = line.get("conversationSummary")  # in editors it stands beside what was said
    return turns.SUMMARY if summary and summary == value_at(line, "message.content") else ""


CONTINUE: Final = turns.ClientFormat(
    "continue",
    _History,
    spoken=(),
    silent=(),
    kinds=frozenset({*_SPEAKERS, *_SILENT}),
    kind_of=_role_of,
    is_ours=lambda line: line.keys() >= {"sessionId", _FOLDER},
    facts_of=_facts_of,
    variable="CONTINUE_GLOBAL_DIR",
    folder=".continue",
    parts=("sessions",),
    folder_file="sessions.json",
    file_names=r"[0-9a-f-]{36}\.json",
    unspoken=_name_unspoken,
)
