"""Read the lines of Claude Code's transcripts: one for each message of the user, of the model, or of a tool.

A person's words stand in several kinds of them: prompts, words that were queued while the model worked, answers to its
questions, and words that came with a refused tool.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from engramq.deploy.local.hooks import turns

# Patterns are not compiled here: that takes a millisecond, and most events need none of them.
# Kinds of lines that hold no turn, of 2.1.332.
SILENT: Final = (
    "progress", "file-history-snapshot", "file-history-delta", "attribution-snapshot", "api-request",
    "api-request-resumed", "api-request-shape", "api-request-blob", "frame-link", "observer-ref", "continued-in",
    "resume-head-vouch", "custom-title", "ai-title", "tag", "relocated", "agent-name", "agent-color", "agent-setting",
    "mode", "permission-mode", "session-owner", "isolation-latch", "dev-mods", "atis-latch", "worktree-state",
    "bridge-session", "tools-used", "data-flow-records", "data-flow-incomplete", "derived-from", "pr-link",
    "history-suppression", "ended-by-model", "cost-state", "last-prompt", "content-replacement", "memory-mode",
    "artifact-comment-monitor", "artifact-autoreact-ledger", "fork-context-ref", "repl-mode", "hybrid-organization",
    "host-row", "attachment", "system", "summary",
)  # fmt: skip
QUEUE: Final = "queue-operation"
QUEUED: Final = "queued_command"
KINDS: Final = frozenset({turns.USER, turns.ASSISTANT, QUEUE, QUEUED, *SILENT})
_SPEAKERS: Final = {"user": turns.USER, "assistant": turns.ASSISTANT}
_NOT_SPOKEN: Final = ("isMeta", "isSidechain", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")
# A line that another program has put in says so: a plugin, another agent, a task that has ended.
_OF_PEOPLE: Final = (None, "human", "voice-call")
_ASKS: Final = "AskUserQuestion"
_OF_SERVERS: Final = "mcp__"
_REFUSED: Final = ("The user doesn't want to", "Permission for this tool use was denied")
# In one line, what became of the tool; then the words. The output of a tool that has failed begins otherwise.
_WORDS: Final = r"(?s)(?!Error|Exit code)[^\n]*\b[Tt]he user said:\n(.+)"
# What it writes around such words: a note to its model, and questions that a person has left open. Each has a label
# below it; other lines that begin so are a person's list.
_NOTE: Final = "\n\nNote: The user's next message may contain a correction or preference."
_CLARIFIED: Final = "The user wants to clarify these questions.\n"
_ASKED: Final = "Questions asked:\n"
_LABEL: Final = r"(?m)^  (?:Answer: |User notes: |\(No answer provided\)(?:\n|\Z))"
_QUESTION: Final = rf'(?ms)^- "((?:(?!\n- ").)*?)"\n(?={_LABEL.removeprefix("(?m)")})'
_GOES_ON: Final = (
    "This session is being continued from a previous conversation that ran out of context. The conversation is "
    "summarized below:"
)
_SYNTHETIC: Final = "<synthetic>"  # the model whose words the client itself writes
_COMMAND: Final = r"\s*<command-(?:message|name|args)>"
_LOCAL: Final = "local_command"  # a command that the client itself carries out
_NOTED: Final = "user-memory-input"  # around words behind a "#", in versions that kept such
_TAKEN: Final = (None, "absorbed_mid_turn")  # why words left the queue that the model got; others were withdrawn
# Words that wait at once, and the turns that pass meanwhile. More than that have nobody to take them: a client that was
# killed leaves words so.
_QUEUED_AT_MOST: Final = 64


def kind_of(line: Mapping[str, Any]) -> str:
    """Return the kind of a line; an attachment with words in it is one by its own name."""
    inner = turns.member(line, "attachment")
    return turns.text_at(inner if "prompt" in inner else line, "type")


def is_ours(line: Mapping[str, Any]) -> bool:
    """Say whether a line is as Claude Code writes it: the title with which older sessions begin names no session."""
    return isinstance(line.get("type"), str) and ("sessionId" in line or "leafUuid" in line)


def facts_of(line: Mapping[str, Any]) -> turns.SessionFacts:
    """Return what a line says of its session."""
    return turns.SessionFacts(turns.text_at(line, "sessionId"), turns.text_at(line, "cwd"))


def unspoken(line: Mapping[str, Any]) -> str:
    """Return whose a line is that only looks like a turn."""
    if line.get("isSidechain"):
        return turns.SUBAGENT
    said = turns.text_in(turns.member(line, "message").get("content"))
    is_summary = line.get("isCompactSummary") or said.startswith(_GOES_ON)  # older versions do not mark it
    return turns.SUMMARY if is_summary else ""


class _Queued(NamedTuple):
    text: str
    key: str
    moment: object
    at: int
    said: int  # turns before it


class ClaudeCodeLines(turns.LineReader):
    """The state of reading a transcript's lines: the tools that were called, and the words that wait in the queue.

    Words that are queued come again, once the model gets them: as a line that removes them, as an attachment, as both,
    or as a prompt. Attachments and prompts have ids, which a fork keeps; it copies no line of the queue.
    """

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}  # names by the ids of calls
        self._waiting: list[_Queued] = []
        self._next: list[_Queued] = []  # which have left the queue, and come as a prompt
        self._absorbed: list[_Queued] = []  # which have left it, and may be attached
        self._attached = Counter[str]()  # words that were attached before they left it
        self._turns = 0

    @property
    def waits_at(self) -> int | None:
        """Where the first line stands whose words wait."""
        return min((queued.at for queued in (*self._absorbed, *self._next, *self._waiting)), default=None)

    def read(self, line: Mapping[str, Any], at: int) -> Iterator[turns.Spoken]:
        """Yield the turns that a line makes certain."""
        kind, attachment = line.get("type"), turns.member(line, "attachment")
        turn = None
        if (
            any(line.get(name) for name in _NOT_SPOKEN)
            or turns.member(line, "origin").get("kind") not in _OF_PEOPLE
            or unspoken(line)
        ):
            return
        if kind == QUEUE:
            self._move(line, at)
        elif attachment.get("type") == QUEUED:
            turn = self._attach(line, attachment)
        elif line.get("subtype") == _LOCAL:
            turn = _local_command(line)
        elif isinstance(kind, str) and isinstance(message := line.get("message"), dict):
            turn = self._message(line, _SPEAKERS.get(kind), message.get("content"))
            if turn is not None and turn.speaker == turns.USER:
                yield from self._without_attachment()
        if turn is not None:
            self._turns += 1
            yield turns.Spoken(turn, at)
        yield from self._given_up()

    def _given_up(self) -> Iterator[turns.Spoken]:
        """Yield words that have waited for too long: somebody typed them, whatever became of them."""
        waiting = self._waiting
        while waiting and (len(waiting) > _QUEUED_AT_MOST or self._turns - waiting[0].said > _QUEUED_AT_MOST):
            self._absorbed.append(waiting.pop(0))
        del self._next[:-_QUEUED_AT_MOST]
        if len(self._absorbed) > _QUEUED_AT_MOST:
            yield from self._without_attachment()

    def rest(self, *, has_ended: bool) -> Iterator[turns.Spoken]:
        """Yield the words that left the queue last, and where a session has ended those that wait: somebody typed them.

        Once a turn has ended, nothing more is attached to it.
        """
        self._absorbed += self._waiting if has_ended else ()
        yield from self._without_attachment()

    def _without_attachment(self) -> Iterator[turns.Spoken]:
        for queued in self._absorbed:
            turn = turns.make_turn(queued.key, turns.USER, _command_in(queued.text), queued.moment)
            if turn is not None:
                yield turns.Spoken(turn, queued.at)
        self._absorbed.clear()

    def _move(self, line: Mapping[str, Any], at: int) -> None:
        """Follow what the queue does with words."""
        operation, text, moment = (
            line.get("operation"),
            turns.text_in(line.get("content")).strip(),
            line.get("timestamp"),
        )
        queued = _Queued(text, f"{turns.text_at(line, 'sessionId')}:queued:{moment}", moment, at, self._turns)
        if operation == "enqueue" and text:
            self._waiting.append(queued)
        elif operation == "dequeue":
            self._next += self._waiting[:1]
            del self._waiting[:1]
        elif operation == "popAll":
            self._waiting.clear()
        elif operation == "remove":
            taken = self._take(text, self._waiting) or self._take(text, self._next) or queued
            if line.get("reason") not in _TAKEN:
                return
            if self._attached[taken.text]:
                self._attached[taken.text] -= 1
            elif taken.text:
                self._absorbed.append(taken)

    def _take(self, text: str, several: list[_Queued]) -> _Queued | None:
        """Take the first with a text out of several; the first of all where none is named."""
        for number, queued in enumerate(several):
            if text in ("", queued.text):
                return several.pop(number)
        return None

    def _attach(self, line: Mapping[str, Any], attachment: Mapping[str, Any]) -> turns.Turn | None:
        if (
            attachment.get("commandMode", "prompt") != "prompt"
            or turns.member(attachment, "origin").get("kind") not in _OF_PEOPLE
        ):
            return None
        text = turns.text_in(attachment.get("prompt")).strip()
        is_absorbed = bool(text) and self._take(text, self._absorbed) is not None
        if not is_absorbed and any(queued.text == text for queued in self._waiting):
            self._attached[text] += 1
        return turns.make_turn(_key_of(line), turns.USER, _command_in(text), line.get("timestamp"))

    def _message(self, line: Mapping[str, Any], speaker: str | None, content: object) -> turns.Turn | None:
        texts = [turns.text_in(content)]
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict):
                continue
            if block.get("type") == "tool_use":
                self._tools[str(block.get("id"))] = turns.text_at(block, "name")
            elif block.get("type") == "tool_result" and speaker == turns.USER:
                texts += _words_to_tool(self._tools.pop(str(block.get("tool_use_id")), ""), block, line)
        text = "\n\n".join(text for text in texts if text)
        if turns.text_at(line["message"], "model") == _SYNTHETIC:
            return None
        if speaker != turns.USER:
            return turns.make_turn(_key_of(line), speaker, text, line.get("timestamp"))
        text = _command_in(text)
        # Which words leave the queue first, it does not say; several may become one prompt.
        typed = text.strip()
        if typed and self._next and not (self._take(typed, self._next) or self._take(typed, self._waiting)):
            self._next.clear()
        return turns.make_turn(_key_of(line), speaker, text, line.get("timestamp"))


def _key_of(line: Mapping[str, Any]) -> object:
    """Return a line's id: of one that a fork has copied, the id of the first."""
    return turns.member(line, "forkedFrom").get("messageUuid") or line.get("uuid")


def _local_command(line: Mapping[str, Any]) -> turns.Turn | None:
    text = turns.text_in(line.get("content"))
    return (
        turns.make_turn(_key_of(line), turns.USER, _command_in(text), line.get("timestamp"))
        if _is_command(text)
        else None
    )


def _is_command(text: str) -> bool:
    return re.match(_COMMAND, text) is not None


def _command_in(text: str) -> str:
    """Return a slash command as it was typed, where words stand behind it, and words to be noted without their mark."""
    if not _is_command(text):
        opened, closed, whole = f"<{_NOTED}>", f"</{_NOTED}>", text.rstrip()
        is_noted = text.startswith(opened) and whole.endswith(closed)
        return whole[len(opened) : -len(closed)].strip() if is_noted else text
    name, words = _within(text, "command-name"), _within(text, "command-args")
    return f"{name} {words}\n\n{text}".strip() if words else text


def _within(text: str, mark: str) -> str:
    _, _, rest = text.partition(f"<{mark}>")
    value, is_closed, _ = rest.partition(f"</{mark}>")
    return value.strip() if is_closed else ""


def _words_to_tool(tool: str, result: Mapping[str, Any], line: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a person has answered to a question or said with a refusal; what a tool writes is none of it."""
    tool_result = line.get("toolUseResult")
    if isinstance(tool_result, dict):
        if tool in (_ASKS, "") and isinstance(tool_result.get("questions"), list):
            yield from _answers(tool_result)
        return
    said = re.match(_WORDS, turns.text_in(result.get("content"))) if result.get("is_error") is True else None
    if said and (not tool.startswith(_OF_SERVERS) or said[0].startswith(_REFUSED)):
        words = said[1].partition(_NOTE)[0]
        yield _read_clarification(words) if words.startswith(_CLARIFIED) else words


def _read_clarification(words: str) -> str:
    """Return the questions that have an answer or a note, of those that a person wants to talk about, and free words.

    Where there is no question, return all as it is.
    """
    _, is_asked, rest = words.partition(_ASKED)
    before, *several = re.split(_QUESTION, rest if is_asked else words)
    if not several:
        return words
    texts = [before.strip()] if is_asked else []
    for question, below in zip(several[::2], several[1::2], strict=True):
        given = re.sub(_LABEL, "", below).strip()
        texts += [f"{question}\n{given}"] if given else []
    return "\n\n".join(filter(None, texts))


def _answers(tool_result: Mapping[str, Any]) -> Iterator[str]:
    """Yield each question that has an answer, with it and what was noted beside."""
    answers, notes = turns.member(tool_result, "answers"), turns.member(tool_result, "annotations")
    for question, answer in answers.items():
        several = answer if isinstance(answer, list) else [answer]
        given = ", ".join(text for text in several if isinstance(text, str) and text.strip())
        words = [given, turns.text_at(turns.member(notes, question), "notes")]
        if any(words):
            yield "\n".join([str(question), *filter(None, words)])
