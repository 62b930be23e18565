"""`engramq hook CLIENT`: handles one event and ends with 0, whatever happens; the client goes on."""

from __future__ import annotations

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
from engramq.deploy.local.hooks.capture import capture, store
from engramq.deploy.local.hooks.event import (
    PRE_COMPACT,
    PROMPT,
    SESSION_END,
    SESSION_START,
    STOP,
    BadEvent,
    Event,
    read_event,
    receive,
)
from engramq.deploy.local.hooks.marks import said
from engramq.deploy.local.hooks.memory import Away, Memory
from engramq.deploy.local.hooks.progress import Progress, quiet_sessions
from engramq.deploy.local.hooks.recall import recall
from engramq.deploy.local.hooks.transcript import ASSISTANT, CLAUDE_CODE, CODEX, GEMINI, USER, Turn, moment_of
from engramq.schemas.command_line import ExitCode

CLIENTS: Final = (CLAUDE_CODE, CODEX, GEMINI)
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


def main(arguments: list[str]) -> NoReturn:
    """Handle the event on standard input for the client that the arguments name, and end the process."""
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, BOUND_S)
    try:
        _handle(arguments, dict(os.environ))
    except (BadEvent, DeployError) as problem:
        sys.stderr.write(f"engramq hook: {problem}.\n".replace("..", "."))
    except (Away, OSError):
        pass  # the stack is away, or busy: what was not captured is captured with the next event
    except BaseException:
        signal.setitimer(signal.ITIMER_REAL, 0)  # Python takes its handlers away before it ends
        raise
    _end()


def _end(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """End at once: all is done, or the time is up and the next event does what is half done.

    Without Python's tidying up, which takes 5 ms: what was said is flushed, and nothing else is open.
    """
    os._exit(ExitCode.DONE)


def _handle(arguments: list[str], environment: dict[str, str]) -> None:
    until = time.monotonic() + BOUND_S
    client = next((each for each in arguments if each in CLIENTS), "")
    if not client:
        raise BadEvent(f"name the client: {', '.join(CLIENTS[:-1])} or {CLIENTS[-1]}")
    event = read_event(receive(STDIN))
    captures = NO_CAPTURE not in arguments
    if event.in_subagent or event.name not in (_RECALLING | _CAPTURING if captures else _RECALLING):
        return
    tokens = _tokens(environment)
    home = home_from(environment)
    progress = _noted(home, client, event, environment, tokens)
    if event.name == PROMPT and tokens == 0 and (event.transcript or not captures):
        return  # nothing to tell and nothing to keep: a prompt waits for no answer
    catches_up = captures and (event.name == SESSION_START or (event.name == PROMPT and progress.owes_start))
    # One that was set on purpose is the tools' own, too: no need to tell it.
    project = "" if environment.get(settings.PROJECT) else progress.project
    memory = Memory(home, client, progress.namespace, progress.project, until)
    try:
        if event.name in _RECALLING:
            _recall(memory, progress, event, tokens, captured=RECALL_CAPTURED in arguments, project=project)
        if captures and not event.transcript:
            _capture_event(memory, client, event)
        elif captures and event.name in _CAPTURING:
            capture(memory, progress)
        if catches_up:
            _catch_up(home, event)
    finally:
        memory.close()


def _noted(home: Home, client: str, event: Event, environment: Mapping[str, str], tokens: int) -> Progress:
    """Return the notes of the event's session. What a later hook has to know is kept at once, as the stack may be away.

    That is where there is something to capture, and that a session's start has still to be told.
    """
    progress = Progress(home, client, event.session)
    known = (progress.transcript, progress.namespace, progress.project)
    owed = progress.owes_start
    progress.namespace = environment.get(settings.NAMESPACE) or settings.DEFAULT_NAMESPACE
    progress.project = environment.get(settings.PROJECT) or event.project or progress.project
    is_start = event.name == SESSION_START
    progress.owes_start = tokens > 0 and (owed or is_start)
    if is_start:
        progress.shown = []  # a new context, or one that was compacted
    is_behind = event.name in _CAPTURING and bool(event.transcript)
    if is_behind:
        progress.transcript = event.transcript
    changed = is_behind and (progress.transcript, progress.namespace, progress.project) != known
    if (changed or is_start or progress.owes_start != owed) and home.path.is_dir():
        try:
            progress.write()
        except OSError:
            if is_behind:
                raise  # what is captured would be sent anew with every event; recall needs no notes
    return progress


def _recall(memory: Memory, progress: Progress, event: Event, tokens: int, *, captured: bool, project: str) -> None:
    """Print what the model is to know, in the form that all clients take."""
    owed = progress.owes_start
    if tokens == 0 or (not owed and not event.prompt.strip()):
        return
    shown = frozenset(progress.shown)
    text, ids = recall(memory, event.prompt, tokens, captured=captured, shown=shown, with_newest=owed, project=project)
    if text:
        # Clients read one object, so nothing else is ever written there.
        output = {"hookSpecificOutput": {"hookEventName": event.told_as, "additionalContext": text}}
        sys.stdout.write(json.dumps(output) + "\n")
        sys.stdout.flush()
    if ids or owed:
        progress.owes_start = False
        progress.shown += ids
        progress.write()


def _capture_event(memory: Memory, client: str, event: Event) -> None:
    """Capture what the event itself says, where the client keeps no transcript that can be read, as Codex may.

    One that gives turns no names (Gemini CLI) says at the end of a turn what began it.
    """
    spoken: dict[str, str] = {}
    if event.name == STOP:
        spoken = {ASSISTANT: event.last_words} if event.turn else {USER: event.prompt, ASSISTANT: event.last_words}
    elif event.name == PROMPT and event.turn:
        spoken = {USER: event.prompt}
    key = event.turn or event.moment
    if turns := [
        Turn(f"{event.session}:{key}:{speaker}", speaker, text, moment_of(event.moment))
        for speaker, words in spoken.items()
        if key and (text := said(words))
    ]:
        store(memory, turns, client, event.session)


def _catch_up(home: Home, event: Event) -> None:
    """Capture what is left of sessions that ended while the stack was away.

    Those of which nothing more can be had, as after a line that was never ended, are not counted: there may be many.
    """
    until = time.monotonic() + _CATCH_UP_S
    caught_up = 0
    for progress in quiet_sessions(home):
        if caught_up == _CAUGHT_UP or time.monotonic() > until:
            return
        if progress.session != event.session and progress.client in CLIENTS:
            before = progress.offset
            theirs = Memory(home, progress.client, progress.namespace, progress.project, until)
            with contextlib.closing(theirs), contextlib.suppress(OSError):  # their transcript may not be readable
                capture(theirs, progress)
            caught_up += progress.offset != before


def _tokens(environment: Mapping[str, str]) -> int:
    text = environment.get(settings.HOOK_TOKENS) or str(settings.DEFAULT_HOOK_TOKENS)
    most = settings.MOST_HOOK_TOKENS
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise BadEvent(f"{settings.HOOK_TOKENS}={text!r} is no number of tokens from 0 to {most}")
    return int(text)
