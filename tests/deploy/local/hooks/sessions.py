"""Sessions of Claude Code, Codex and Gemini CLI as hooks see them: their documented events, transcripts that grow."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from engramq.deploy.local.home import Home
from engramq.deploy.local.hooks.notes import FOLDER, QUIET_S, SessionNotes

ENGRAMQ: Final = str(Path(sys.executable).with_name("engramq"))
CLAUDE_CODE: Final = "claude-code"
CODEX: Final = "codex"
GEMINI: Final = "gemini"
# Its names of what the others call so.
_GEMINI_EVENTS: Final = {
    "UserPromptSubmit": "BeforeAgent",
    "PreToolUse": "AfterTool",
    "Stop": "AfterAgent",
    "PreCompact": "PreCompress",
}

TOPICS: Final = ("tea", "trains", "zebras", "glaciers", "kettles", "ledgers", "harbours", "violins")


@dataclass(frozen=True, slots=True)
class Ended:
    """What a hook's process did, and how long its client waited."""

    code: int
    output: str
    errors: str
    seconds: float

    @property
    def is_silent(self) -> bool:
        return (self.code, self.output, self.errors) == (0, "", "")

    @property
    def context(self) -> str:
        """What the model is told, "" if nothing."""
        return str(json.loads(self.output)["hookSpecificOutput"]["additionalContext"]) if self.output else ""


@dataclass(slots=True)
class Session:
    """One session of a client, in a folder; `environment` is what the client hands to its hooks.

    `engramq` is the command that its configuration names.
    """

    transcript: Path
    environment: dict[str, str]
    client: str = CLAUDE_CODE
    folder: str = "/"
    options: tuple[str, ...] = ()
    clock: Callable[[], float] = time.time
    id: str = field(default_factory=lambda: str(uuid4()))
    engramq: str = ENGRAMQ

    @property
    def home(self) -> Home:
        return Home(Path(self.environment["ENGRAMQ_HOME"]))

    @property
    def notes(self) -> SessionNotes:
        """The notes that hooks keep of it, read anew."""
        return SessionNotes(self.home, self.client, self.id)

    def tell(self, event: str, **fields: Any) -> Ended:
        """Run the hook for an event, by Claude Code's name of it, and wait for its end, as clients do."""
        given = {
            "session_id": self.id,
            "transcript_path": str(self.transcript),
            "cwd": self.folder,
            "hook_event_name": self.named(event),
            **({"model": "gpt-5", "permission_mode": "default"} if self.client == CODEX else {}),
            **({"timestamp": self.moment()} if self.client == GEMINI else {}),
            **fields,
        }
        return self.hook(json.dumps(given).encode())

    def hook(self, given: bytes) -> Ended:
        """Run the hook with this on its standard input."""
        command = [self.engramq, "hook", self.client, *self.options]
        begun = time.perf_counter()
        ended = subprocess.run(command, input=given, env=self.environment, capture_output=True, check=False)
        seconds = time.perf_counter() - begun
        return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode(), seconds)

    def says(self, speaker: str, text: str) -> None:
        """Let the client note a turn in its transcript."""
        noted = {CLAUDE_CODE: _claude_code, CODEX: _codex, GEMINI: _gemini}[self.client]
        self.note(*noted(speaker, text, self.moment()))

    def named(self, event: str) -> str:
        """Return the client's own name of an event."""
        return _GEMINI_EVENTS.get(event, event) if self.client == GEMINI else event

    def moment(self) -> str:
        """Return now, as clients write it."""
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.clock())) + f".{uuid4().int % 1000:03d}Z"

    def note(self, *lines: dict[str, Any]) -> None:
        """Let the client write lines into its transcript."""
        with self.transcript.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps({"sessionId": self.id, **line}) + "\n" for line in lines)


def _claude_code(speaker: str, text: str, moment: str) -> list[dict[str, Any]]:
    content: Any = text if speaker == "user" else [{"type": "text", "text": text}]
    message = {"role": speaker, "content": content}
    common = {"isSidechain": False, "userType": "external", "version": "2.1.12", "gitBranch": "main"}
    return [{**common, "type": speaker, "message": message, "uuid": str(uuid4()), "timestamp": moment}]


def _codex(speaker: str, text: str, moment: str) -> list[dict[str, Any]]:
    kind = "user_message" if speaker == "user" else "agent_message"
    return [{"timestamp": moment, "type": "event_msg", "payload": {"type": kind, "message": text}}]


def _gemini(speaker: str, text: str, moment: str) -> list[dict[str, Any]]:
    """Return a message as Gemini CLI appends it: once more for the tokens that it took, and then what has changed."""
    common = {"id": str(uuid4()), "timestamp": moment}
    changed = {"$set": {"lastUpdated": moment}}
    if speaker == "user":
        return [{**common, "type": "user", "content": [{"text": text}]}, changed]
    message = {**common, "type": "gemini", "content": text, "thoughts": [], "model": "gemini-3-pro"}
    return [{**message, "tokens": None}, changed, {**message, "tokens": {"input": 9, "output": 7, "total": 16}}]


def lived(session: Session, turns: int) -> list[Ended]:
    """Go through a whole session; return what its hooks did."""
    session.transcript.touch()
    ended = [session.tell("SessionStart", source="startup")]
    for number in range(turns):
        text = f"Session {session.id} asks about {TOPICS[number % len(TOPICS)]}, turn {number}."
        ended.append(session.tell("UserPromptSubmit", prompt=text))
        session.says("user", text)
        session.says("assistant", f"Session {session.id} answers in turn {number}.")
        ended.append(session.tell("Stop", stop_hook_active=False))
    ended.append(session.tell("PreCompact", trigger="manual", custom_instructions=""))
    ended.append(session.tell("SessionEnd", reason="exit"))
    return ended


def processes_left(home: str) -> list[int]:
    """Return the processes of hooks of this home that still run."""
    found = subprocess.run(["pgrep", "-f", "engramq hook "], capture_output=True, text=True, check=False).stdout.split()
    return [int(pid) for pid in found if f"ENGRAMQ_HOME={home}".encode() in _environment_of(pid)]


def _environment_of(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def caught_up(environment: Mapping[str, str], folder: Path, home: str, bound_s: float = 60.0) -> int:
    """Let sessions start until none is behind, as they would in the days after; return how many that took."""
    notes = Path(home, FOLDER)
    deadline = time.monotonic() + bound_s
    count = 0
    while behind(notes) and time.monotonic() < deadline:
        for note in notes.iterdir():  # a minute of quiet, without waiting for it
            os.utime(note, (time.time() - 2 * QUIET_S,) * 2)
        session = Session(folder / f"later-{count}.jsonl", dict(environment))
        session.transcript.touch()
        session.tell("SessionStart", source="startup")
        count += 1
    return count


def behind(notes: Path) -> list[str]:
    """Return the sessions of which more was said than is captured."""
    found = [json.loads(note.read_text()) for note in notes.iterdir() if not note.name.startswith(".")]
    return [notes["session"] for notes in found if notes["transcript"] and _size(notes["transcript"]) > notes["offset"]]


def _size(transcript: str) -> int:
    try:
        return Path(transcript).stat().st_size
    except OSError:  # its client has cleared it away
        return 0
