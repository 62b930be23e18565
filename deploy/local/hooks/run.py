"""Handle one event and end with 0, whatever happens, so that the client goes on: `engramq hook CLIENT`.

An event is one JSON object on standard input; here it has the name that Claude Code gives it.
"""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Final, NoReturn

from engramq.deploy.local import settings
from engramq.deploy.local.home import DeployError, Home, home_from
from engramq.deploy.local.hooks import events
from engramq.deploy.local.hooks.capture import capture, store
from engramq.deploy.local.hooks.connection import Away, HookConnection
from engramq.deploy.local.hooks.files import FILES, file_mark, recall_file
from engramq.deploy.local.hooks.notes import SessionNotes, note_away, quiet_sessions, was_away
from engramq.deploy.local.hooks.projects import project_of
from engramq.deploy.local.hooks.recall import recall
from engramq.deploy.local.hooks.repository import path_within
from engramq.deploy.local.hooks.transcripts import CLIENTS
from engramq.deploy.local.hooks.turns import ASSISTANT, USER, make_turn
from engramq.schemas.command_line import ExitCode

RECALL_CAPTURED: Final = "--recall-captured"
NO_CAPTURE: Final = "--no-capture"
# The whole, so that the process has gone within 2 s of its start.
BOUND_S: Final = 1.7
# Tools wait for the memories of a file. After a wait of a moment that brought none, the next files do not wait.
FILE_BOUND_S: Final = 1.2
_MOMENT_S: Final = 0.3
_RECALLING: Final = frozenset({events.SESSION_START, events.PROMPT})
_CAPTURING: Final = frozenset({events.STOP, events.PRE_COMPACT, events.SESSION_END})
# Of other sessions, when the newest are told: what the client waits for is the recall.
_CAUGHT_UP: Final = 3
_CATCH_UP_S: Final = 0.5
STDIN: Final = 0


def main(arguments: list[str]) -> NoReturn:
    """Handle the event on standard input for the client that the arguments name, and end the process."""
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, BOUND_S)
    try:
        _handle(arguments, dict(os.environ))
    except (events.BadEvent, DeployError) as problem:
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
        raise events.BadEvent(f"name the client: {', '.join(others)} or {last}")
    event = events.read_event(events.receive(STDIN), CLIENTS[client])
    captures = NO_CAPTURE not in arguments
    handled = _RECALLING | _CAPTURING if captures else _RECALLING
    if event.in_subagent or not (event.name in handled or event.files or event.starts_anew):
        return
    tokens = _tokens(environment)
    home = home_from(environment)
    if event.files:
        _tell_files(home, client, event, environment, tokens)
        return
    notes = _noted(home, client, event, environment, tokens)
    if event.name not in handled or (
        event.name == events.PROMPT and tokens == 0 and (event.transcript or not captures)
    ):
        return  # nothing to tell and nothing to keep: a prompt waits for no answer
    catches_up = captures and (event.name == events.SESSION_START or (event.name == events.PROMPT and notes.owes_start))
    # One that was set on purpose is the tools' own, too: no need to tell it.
    project = "" if environment.get(settings.PROJECT) else notes.project
    memory = HookConnection(home, client, notes.namespace, notes.project, until)
    try:
        if event.name in _RECALLING:
            _recall(memory, notes, event, tokens, captured=RECALL_CAPTURED in arguments, project=project)
        if captures and not event.transcript:
            _capture_event(memory, client, event)
        elif captures and event.name in _CAPTURING:
            capture(memory, notes, has_ended=event.name == events.SESSION_END)
        if catches_up:
            _catch_up(home, event)
    finally:
        memory.close()


def _noted(home: Home, client: str, event: events.Event, environment: Mapping[str, str], tokens: int) -> SessionNotes:
    """Return the notes of the event's session. Facts for a later hook are kept at once, as the stack may be away.

    That is where there is something to capture, and that a session's start has still to be shown.
    """
    notes = SessionNotes(home, client, event.session)
    known = (notes.transcript, notes.namespace, notes.project, notes.has_spoken)
    owed = notes.owes_start
    notes.enter(environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE)
    named = environment.get(settings.PROJECT) or _project_of(home, notes.namespace, event.folder)
    notes.project = named or notes.project
    is_start = event.name == events.SESSION_START or event.starts_anew
    notes.owes_start = tokens > 0 and (owed or is_start)
    if event.starts_anew:
        notes.start_anew(compacted=event.was_compacted)
    is_behind = event.name in _CAPTURING and bool(event.transcript)
    if is_behind:
        notes.transcript = event.transcript
        notes.has_spoken |= event.name == events.STOP
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
    memory: HookConnection, notes: SessionNotes, event: events.Event, tokens: int, *, captured: bool, project: str
) -> None:
    """Tell what is known of the prompt, and what the session's start owes."""
    owed = notes.owes_start
    if tokens == 0 or (not owed and not event.prompt.strip()):
        return
    text, ids = recall(
        memory, event.prompt, tokens,
        captured=captured, shown=frozenset(notes.shown), lost=notes.lost,
        with_newest=owed, project=project, folder=event.folder,
    )  # fmt: skip
    _tell(event, text)
    note_away(memory.home, away=False)
    if ids or owed:
        notes.owes_start = False
        notes.lost = []
        notes.shown += ids
        notes.write()


def _tell(event: events.Event, text: str) -> None:
    """Print what the model is to know, if anything. Clients read one object, so nothing else is ever written there."""
    if text:
        output = {"hookSpecificOutput": {"hookEventName": event.told_as, "additionalContext": text}}
        sys.stdout.write(json.dumps(output) + "\n")
        sys.stdout.flush()


def _tell_files(home: Home, client: str, event: events.Event, environment: Mapping[str, str], tokens: int) -> None:
    """Show the memories about files that a tool reads or changes: once a file, until they leave the model's sight."""
    if tokens == 0 or was_away(home):
        return
    begun = time.monotonic()
    namespace = environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE
    notes = SessionNotes(home, client, event.session)
    notes.enter(namespace)
    texts: list[str] = []
    shown: list[str] = []
    marks: list[str] = []
    try:
        for file in event.files[:FILES]:
            folder, path = path_within(file, event.folder)
            project = environment.get(settings.PROJECT) or _project_of(home, namespace, folder) or notes.project
            if (mark := file_mark(project, path)) in notes.files:
                continue
            memory = HookConnection(home, client, namespace, project, begun + FILE_BOUND_S)
            with contextlib.closing(memory):
                text, ids = recall_file(memory, path, tokens, {*notes.shown, *shown}, folder=folder)
            texts += [text] if text else []
            shown += ids
            marks.append(mark)
    except Away:
        note_away(home, away=time.monotonic() - begun > _MOMENT_S)
        raise
    _tell(event, "\n".join(texts))
    if marks:
        notes = SessionNotes(home, client, event.session)  # another file's hook may have noted something meanwhile
        notes.enter(namespace)
        notes.shown += shown
        notes.files += marks
        notes.write()


def _capture_event(memory: HookConnection, client: str, event: events.Event) -> None:
    """Capture what the event itself says, where the client keeps no transcript that can be read, as Codex may.

    One that gives turns no names (Gemini CLI) says at the end of a turn what began it.
    """
    spoken: dict[str, str] = {}
    if event.name == events.STOP:
        spoken = {ASSISTANT: event.last_words} if event.turn else {USER: event.prompt, ASSISTANT: event.last_words}
    elif event.name == events.PROMPT and event.turn:
        spoken = {USER: event.prompt}
    key = event.turn or event.moment
    turns = [
        make_turn(f"{event.session}:{key}:{speaker}", speaker, text, event.moment)
        for speaker, text in spoken.items()
        if key
    ]
    if known := [turn for turn in turns if turn is not None]:
        store(memory, known, client, event.session)


def _catch_up(home: Home, event: events.Event) -> None:
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
        raise events.BadEvent(f"{settings.HOOK_TOKENS}={text!r} is no number of tokens from 0 to {most}")
    return int(text)
