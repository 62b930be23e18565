"""`engramq hook CLIENT`: handles one event and ends with 0, whatever happens; the client goes on.

An event is one JSON object on standard input, named as Claude Code names it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any, Final, NamedTuple, NoReturn

from engramq.deploy.local import settings
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.hooks.capture import capture, store
from engramq.deploy.local.hooks.connection import Away, HookConnection
from engramq.deploy.local.hooks.notes import SessionNotes, quiet_sessions
from engramq.deploy.local.hooks.projects import project_of
from engramq.deploy.local.hooks.recall import recall
from engramq.deploy.local.hooks.transcripts import CLIENTS
from engramq.deploy.local.hooks.turns import ASSISTANT, USER, ClientFormat, make_turn, spoken_text, storable
from engramq.schemas.command_line import ExitCode

SESSION_START: Final = "SessionStart"
PROMPT: Final = "UserPromptSubmit"
STOP: Final = "Stop"
PRE_COMPACT: Final = "PreCompact"
SESSION_END: Final = "SessionEnd"
# Older ones of Gemini CLI are one object that is written anew each time. Whatever is read goes on where it was left.
_NO_LINES: Final = ".json"
# A prompt with a large paste fits. The rest of a longer event is read and dropped, so that its writer gets no error.
LONGEST: Final = 4 * 1024 * 1024
_CHUNK: Final = 65_536
_NAME: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_WITHIN_NAME: Final = _NAME | frozenset("._-")
_SESSION_CHARS: Final = 100
RECALL_CAPTURED: Final = "--recall-captured"
NO_CAPTURE: Final = "--no-capture"
# The whole, so that the process has gone within 2 s of its start.
BOUND_S: Final = 1.7
_RECALLING: Final = frozenset({SESSION_START, PROMPT})
_CAPTURING: Final = frozenset({STOP, PRE_COMPACT, SESSION_END})
# Of other sessions, when the newest are told: what the client waits for is the recall.
_CAUGHT_UP: Final = 3
_CATCH_UP_S: Final = 0.5
STDIN: Final = 0


class BadEvent(ValueError):
    """What came is no event of a client; the message says why."""


class Event(NamedTuple):  # a dataclass takes 7 ms to import, and annotations kept as text one more
    """What happened in which session. Empty texts are not given; `transcript` is the file that keeps what was said.

    `told_as`: the client's own name of the event. `moment`: when it happened, as the client wrote it.
    """

    name: str
    session: str
    told_as: str
    folder: str = ""
    transcript: str = ""
    prompt: str = ""
    last_words: str = ""
    turn: str = ""
    moment: str = ""
    in_subagent: bool = False


def main(arguments: list[str]) -> NoReturn:
    """Handle the event on standard input for the client that the arguments name, and end the process."""
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, BOUND_S)
    try:
        _handle(arguments, dict(os.environ))
    except (BadEvent, DeployError) as problem:
        _complain(problem)
    except (Away, OSError):
        pass  # the stack is away, or busy: what was not captured is captured with the next event
    except BaseException:
        signal.setitimer(signal.ITIMER_REAL, 0)  # Python takes its handlers away before it ends
        raise
    _end()


def _complain(problem: Exception) -> None:
    sys.stderr.write(f"engramq hook: {problem}.\n".replace("..", "."))
    sys.stderr.flush()


def _end(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """End at once: all is done, or the time is up and the next event does what is half done.

    Without Python's tidying up, which takes 5 ms: what was said is flushed, and nothing else is open.
    """
    os._exit(ExitCode.DONE)


def _handle(arguments: list[str], environment: dict[str, str]) -> None:
    until = time.monotonic() + BOUND_S
    client = next((each for each in arguments if each in CLIENTS), "")
    if not client:
        *others, last = CLIENTS
        raise BadEvent(f"name the client: {', '.join(others)} or {last}")
    event = _read_event(_receive(STDIN), CLIENTS[client])
    captures = NO_CAPTURE not in arguments
    if event.in_subagent or event.name not in (_RECALLING | _CAPTURING if captures else _RECALLING):
        return
    tokens = _tokens(environment)
    home = home_from(environment)
    notes = _noted(home, client, event, environment, tokens)
    if event.name == PROMPT and tokens == 0 and (event.transcript or not captures):
        return  # nothing to tell and nothing to keep: a prompt waits for no answer
    catches_up = captures and (event.name == SESSION_START or (event.name == PROMPT and notes.owes_start))
    # One that was set on purpose is the tools' own, too: no need to tell it.
    project = "" if environment.get(settings.PROJECT) else notes.project
    memory = HookConnection(home, client, notes.namespace, notes.project, until)
    try:
        if event.name in _RECALLING:
            _recall(memory, notes, event, tokens, captured=RECALL_CAPTURED in arguments, project=project)
        if captures and not event.transcript:
            _capture_event(memory, client, event)
        elif captures and event.name in _CAPTURING:
            capture(memory, notes)
        if catches_up:
            _catch_up(home, event)
    finally:
        memory.close()


def _noted(home: Home, client: str, event: Event, environment: Mapping[str, str], tokens: int) -> SessionNotes:
    """Return the notes of the event's session. What a later hook has to know is kept at once, as the stack may be away.

    That is where there is something to capture, and that a session's start has still to be told.
    """
    notes = SessionNotes(home, client, event.session)
    known = (notes.transcript, notes.namespace, notes.project, notes.has_spoken)
    owed = notes.owes_start
    notes.namespace = environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE
    named = environment.get(settings.PROJECT) or _project_of(home, notes.namespace, event.folder)
    notes.project = named or notes.project
    is_start = event.name == SESSION_START
    notes.owes_start = tokens > 0 and (owed or is_start)
    if is_start:
        notes.shown = []  # a new context, or one that was compacted
    is_behind = event.name in _CAPTURING and bool(event.transcript)
    if is_behind:
        notes.transcript = event.transcript
        notes.has_spoken |= event.name == STOP
    changed = is_behind and (notes.transcript, notes.namespace, notes.project, notes.has_spoken) != known
    if (changed or is_start or notes.owes_start != owed) and home.path.is_dir():
        # A full disk keeps neither recall nor capture: what is sent anew with every event then is kept once.
        with contextlib.suppress(OSError):
            notes.write()
    return notes


def _project_of(home: Home, namespace: str, folder: str) -> str:
    """Return the name of a folder's project; "" with a line on standard error where the file of them cannot be read.

    The session goes on in the project that it had, else in none, since only that file tells namesakes apart.
    """
    try:
        return project_of(home, namespace, folder)
    except DeployError as problem:
        _complain(problem)
        return ""


def _recall(
    memory: HookConnection, notes: SessionNotes, event: Event, tokens: int, *, captured: bool, project: str
) -> None:
    """Print what the model is to know, in the form that all clients take."""
    owed = notes.owes_start
    if tokens == 0 or (not owed and not event.prompt.strip()):
        return
    shown = frozenset(notes.shown)
    text, ids = recall(memory, event.prompt, tokens, captured=captured, shown=shown, with_newest=owed, project=project)
    if text:
        # Clients read one object, so nothing else is ever written there.
        output = {"hookSpecificOutput": {"hookEventName": event.told_as, "additionalContext": text}}
        sys.stdout.write(json.dumps(output) + "\n")
        sys.stdout.flush()
    if ids or owed:
        notes.owes_start = False
        notes.shown += ids
        notes.write()


def _capture_event(memory: HookConnection, client: str, event: Event) -> None:
    """Capture what the event itself says, where the client keeps no transcript that can be read, as Codex may.

    One that gives turns no names (Gemini CLI) says at the end of a turn what began it.
    """
    spoken: dict[str, str] = {}
    if event.name == STOP:
        spoken = {ASSISTANT: event.last_words} if event.turn else {USER: event.prompt, ASSISTANT: event.last_words}
    elif event.name == PROMPT and event.turn:
        spoken = {USER: event.prompt}
    key = event.turn or event.moment
    turns = [
        make_turn(f"{event.session}:{key}:{speaker}", speaker, text, event.moment)
        for speaker, text in spoken.items()
        if key
    ]
    if known := [turn for turn in turns if turn is not None]:
        store(memory, known, client, event.session)


def _catch_up(home: Home, event: Event) -> None:
    """Capture what is left of sessions that ended while the stack was away.

    Those of which nothing more can be had, as after a line that was never ended, are not counted: there may be many.
    """
    until = time.monotonic() + _CATCH_UP_S
    caught_up = 0
    for notes in quiet_sessions(home):
        if caught_up == _CAUGHT_UP or time.monotonic() > until:
            return
        if notes.session != event.session and notes.client in CLIENTS:
            before = notes.offset
            theirs = HookConnection(home, notes.client, notes.namespace, notes.project, until)
            with contextlib.closing(theirs), contextlib.suppress(OSError):  # their transcript may not be readable
                capture(theirs, notes)
            caught_up += notes.offset != before or notes.not_understood > 0


def _tokens(environment: Mapping[str, str]) -> int:
    text = environment.get(settings.HOOK_TOKENS) or str(settings.DEFAULT_HOOK_TOKENS)
    most = settings.MOST_HOOK_TOKENS
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise BadEvent(f"{settings.HOOK_TOKENS}={text!r} is no number of tokens from 0 to {most}")
    return int(text)


def _receive(descriptor: int) -> bytes:
    """Return everything that comes on a descriptor; raises BadEvent when it is too long for an event."""
    pieces: list[bytes] = []
    size = 0
    while data := os.read(descriptor, _CHUNK):
        size += len(data)
        if size <= LONGEST:
            pieces.append(data)
    if size > LONGEST:
        raise BadEvent(f"the event has {size} bytes, more than {LONGEST}")
    return b"".join(pieces)


def _read_event(data: bytes, client: ClientFormat) -> Event:
    """Return the event that a client has written; raises BadEvent."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        raise BadEvent("the event is no JSON") from None
    if not isinstance(event, dict):
        raise BadEvent("the event is no JSON object")
    name, session = _text(event, "hook_event_name"), _text(event, "session_id")
    if not name:
        raise BadEvent("the event has no hook_event_name")
    if not _is_session(session):
        raise BadEvent("the event has no usable session_id")
    return Event(
        name=client.event_names.get(name, name),
        session=session,
        told_as=name,
        folder=_text(event, "cwd"),
        transcript="" if (path := _text(event, "transcript_path")).endswith(_NO_LINES) else path,
        prompt=spoken_text(_text(event, "prompt")),  # Gemini CLI puts into it what hooks told before
        last_words=_text(event, "last_assistant_message") or _text(event, "prompt_response"),
        turn=_text(event, "turn_id"),
        moment=_text(event, "timestamp"),
        in_subagent=bool(event.get("agent_id")),
    )


def _is_session(text: str) -> bool:
    """Say whether a text can be a session's id; it becomes part of a file's name."""
    return 0 < len(text) <= _SESSION_CHARS and text[0] in _NAME and _WITHIN_NAME.issuperset(text)


def _text(event: dict[str, Any], name: str) -> str:
    value = event.get(name)
    return storable(value) if isinstance(value, str) else ""
