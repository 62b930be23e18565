"""Read the lines of Gemini CLI's transcripts: one for each message, written anew for each of its tools.

A person's answers to questions and words about a plan stand in the calls of two tools.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from engramq.deploy.local.hooks import turns

_SPEAKERS: Final = {"user": turns.USER, "gemini": turns.ASSISTANT}
SILENT: Final = ("info", "error", "warning", "about", "tool_group", "$set", "$rewindTo")
KINDS: Final = frozenset({*_SPEAKERS, *SILENT})
EVENT_NAMES: Final = {
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PreToolUse",  # before a tool nothing can be told; what is told after it stands beside the file's text
    "AfterAgent": "Stop",
    "PreCompress": "PreCompact",
}
FILE_TOOLS: Final = dict.fromkeys(("read_file", "write_file", "replace"), "file_path")
_ASKS: Final = "ask_user"
_PLANS: Final = "exit_plan_mode"
_REJECTED: Final = r"(?s)Plan rejected\. User feedback: (.+?)\n\nThe plan is stored at: "
_OWN_CONTEXT: Final = "<session_context>"
_SHELL: Final = "I ran the following shell command:\n```sh\n"  # of a command behind "!", with what it has printed


def kind_of(line: Mapping[str, Any]) -> str:
    """Return the kind of a line; one without a type is of the session."""
    return turns.text_at(line, "type") or "info"


class GeminiLines(turns.LineReader):
    """The state of reading a transcript's lines: how often which words were said.

    When a person refuses a tool, Gemini CLI 0.61 writes all that its model has in sight anew, with other ids and times:
    from its own context on, until it lists these ids. Such a copy says nothing new.
    """

    def __init__(self) -> None:
        self._ids = set[str]()
        self._said = Counter[tuple[str, str]]()
        self._copied: Counter[tuple[str, str]] | None = None  # words of the copy that is being written

    def read(self, line: Mapping[str, Any], at: int) -> Iterator[turns.Spoken]:
        """Yield the turns that a line makes certain."""
        changes, speaker, identity = (
            line.get("$set"),
            _SPEAKERS.get(turns.text_at(line, "type")),
            turns.text_at(line, "id"),
        )
        if isinstance(changes, dict) and "messages" in changes:
            self._copied = None
        if speaker is None:
            return
        given = turns.text_in(line.get("content"))
        if speaker == turns.USER and given.startswith(_OWN_CONTEXT):
            self._copied = Counter()
        if not given.startswith(_SHELL) and not self._is_copy(identity, speaker, turns.spoken_text(given)):
            # What the user typed, where that is not what the model was given: files that were named, what hooks told.
            shown = turns.text_in(line.get("displayContent")) or given
            if turn := turns.make_turn(identity, speaker, shown, line.get("timestamp")):
                yield turns.Spoken(turn, at)
        calls = line.get("toolCalls")
        for call in calls if isinstance(calls, list) else ():
            words = _words_to(call) if isinstance(call, dict) else ""
            if words and (
                turn := turns.make_turn(f"{identity}:{call.get('id')}", turns.USER, words, call.get("timestamp"))
            ):
                yield turns.Spoken(turn, at)

    def _is_copy(self, identity: str, speaker: str, text: str) -> bool:
        """Say whether a message is one of before, under another id."""
        words = (speaker, text)
        if not text or identity in self._ids:
            return False
        if self._copied is not None:
            self._copied[words] += 1
            if self._copied[words] <= self._said[words]:
                return True
        self._ids.add(identity)
        self._said[words] += 1
        return False


def _words_to(call: Mapping[str, Any]) -> str:
    """Return what a person has said to a tool that asks; "" for another one."""
    name, results = turns.text_at(call, "name"), call.get("result")
    if name not in (_ASKS, _PLANS) or not isinstance(results, list):
        return ""
    output = "\n".join(_output(result) for result in results)
    if name == _PLANS:
        rejected = re.match(_REJECTED, output)
        return rejected[1] if rejected else ""
    questions, answers = turns.object_in(call.get("args")).get("questions"), turns.object_in(output).get("answers")
    if not isinstance(questions, list) or not isinstance(answers, dict):
        return ""
    return turns.join_answers(
        (turns.object_in(asked).get("question"), answers.get(str(at))) for at, asked in enumerate(questions)
    )


def _output(result: object) -> str:
    response = turns.object_in(turns.object_in(turns.object_in(result).get("functionResponse")).get("response"))
    return turns.text_at(response, "output")
