"""Read the sessions of pi: a tree of entries, one in each line of `sessions/FOLDER/TIME_ID.jsonl`.

A fork copies entries with their ids, which are short, and their times: both together know an entry again. The forms are
those of 1.6.0, which was run in a terminal. They cover prompts (also typed while the model worked), templates and
skills with arguments, commands of the shell, files and images of a prompt, compactions, forks, clones and a resume.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from engramq.deploy.importing.exports import moment
from engramq.deploy.local.hooks import turns

_MESSAGE: Final = "message"
_SESSION: Final = "session"
_SUMMARIES: Final = ("compaction", "branch_summary")
_SILENT: Final = (
    "model_change", "thinking_level_change", "custom", "custom_message", "context_edit", "label", "session_info",
    "usage",
)  # fmt: skip
_SPEAKERS: Final = {"user": turns.USER, "assistant": turns.ASSISTANT}
_UNFINISHED: Final = ("aborted", "error")
# The text of a skill, and behind it the typed words.
_SKILL: Final = r'(?s)<skill name="([^"]+)" location="[^"]+">\n.*?\n</skill>(?:\n\n(.+))?'
# Marks around what a file says that the command line names, and an image's note on one line: before what was typed.
_MARK: Final = r'(?m)^(?:<file name=".*">(?:$|(?P<note>.*</file>\n))|(?P<end></file>\n))'


def _without_files(words: str) -> str:
    """Cut off the files before what was typed, each behind another.

    A file may have such marks in it. So an end stands on a line of its own. An end without a begin of its own also
    belongs to a file, even when a person typed it: the two look alike. A person's quote with both stays.
    """
    at = quoted = 0
    is_open = False
    for mark in re.finditer(_MARK, words) if words.startswith("<file") else ():
        is_next = mark.start() == at and not is_open
        if mark["note"]:
            at = mark.end() if is_next else at
        elif mark["end"] and (is_open or not quoted):
            at, is_open = mark.end(), False
        elif mark["end"]:
            quoted -= 1
        else:
            quoted += not is_next and not is_open
            is_open = is_open or is_next
    return words[at:]


def _turn(line: Mapping[str, Any]) -> turns.Turn | None:
    message = turns.object_in(line.get("message"))
    speaker = _SPEAKERS.get(turns.text_at(message, "role"))
    if line.get("type") != _MESSAGE or message.get("stopReason") in _UNFINISHED:
        return None
    words = turns.text_in(message.get("content"))
    if speaker == turns.USER and (skill := re.fullmatch(_SKILL, words)):
        words = f"/skill:{skill[1]} {skill[2]}" if skill[2] else ""
    elif speaker == turns.USER:
        words = _without_files(words)
    at, known = turns.text_at(line, "timestamp"), turns.text_at(line, "id")
    typed = message.get("timestamp")  # some seconds before the entry was written
    when = moment(typed / 1000) if isinstance(typed, int) else at
    return turns.make_turn(known and f"{known}:{at}", speaker, words, when)


PI: Final = turns.ClientFormat(
    "pi",
    partial(turns.LineReader, _turn),
    spoken=(b'"user"', b'"assistant"'),
    silent=tuple(f'"{kind}"'.encode() for kind in ("toolResult", "bashExecution", *_SILENT)),
    kinds=frozenset({_MESSAGE, _SESSION, *_SUMMARIES, *_SILENT}),
    is_ours=lambda line: line.get("type") == _SESSION and "cwd" in line and "timestamp" in line,
    facts_of=lambda line: (
        turns.SessionFacts(turns.text_at(line, "id"), turns.text_at(line, "cwd"))
        if line.get("type") == _SESSION
        else turns.SessionFacts()
    ),
    variable="PI_CODING_AGENT_DIR",
    folder=".pi",
    parts=("agent/sessions", "sessions"),  # the variable names the folder of the agent
    file_names=r"\d{4}-.+_.+\.jsonl",
    unspoken=lambda line: turns.SUMMARY if line.get("type") in _SUMMARIES else "",
)
