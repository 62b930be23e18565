"""Whatever comes, and whatever is away: the hook says a clear word or nothing, ends with 0 in time, changes nothing."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.deploy.local.hooks.events import LONGEST
from engramq.deploy.local.hooks.run import BOUND_S
from tests.deploy.local.hooks.gateway import listening
from tests.deploy.local.hooks.sessions import ENGRAMQ, Session

pytestmark = [pytest.mark.promise("RC-5"), pytest.mark.timeout(120)]


@pytest.fixture
def nobody(tmp_path: Path) -> Session:
    """A session of somebody whose stack does not run."""
    environment = {"PATH": os.environ["PATH"], "ENGRAMQ_HOME": str(tmp_path / "home")}
    return Session(tmp_path / "transcript.jsonl", environment)


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd", "Unheard"])
def test_without_a_stack_it_is_silent_and_leaves_nothing(nobody: Session, event: str, tmp_path: Path) -> None:
    nobody.says("user", "Hello.")
    assert nobody.tell(event, prompt="Hello.").is_silent
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (b"", "no JSON"),
        (b"\x00\xff\xfe garbage", "no JSON"),
        (b"[1, 2]", "no JSON object"),
        (b'{"hook_event_name": "Stop"', "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"session_id": "a"}', "hook_event_name"),
        (b'{"hook_event_name": "Stop", "session_id": "../../etc/passwd"}', "session_id"),
        (b'{"hook_event_name": "Stop", "session_id": 7}', "session_id"),
        (
            b'{"hook_event_name": "UserPromptSubmit", "session_id": "a", "prompt": "' + b"x" * 10_000_000 + b'"}',
            str(LONGEST),
        ),
    ],
    ids=["empty", "bytes", "list", "cut", "deep", "nameless", "path", "number", "10 MB"],
)
def test_what_is_no_event_is_said_in_one_line(nobody: Session, given: bytes, word: str) -> None:
    ended = nobody.hook(given)
    assert (ended.code, ended.output) == (0, "")
    assert ended.errors.startswith("engramq hook: ")
    assert word in ended.errors
    assert ended.errors.count("\n") == 1


def test_half_a_character_in_an_event_is_no_trouble(nobody: Session) -> None:
    given = {"hook_event_name": "UserPromptSubmit", "session_id": "a", "prompt": "\ud800", "cwd": "/\ud800"}
    ended = nobody.hook(json.dumps(given).encode())
    assert ended.is_silent


@pytest.mark.parametrize("arguments", [[], ["cursor"]])
def test_a_client_that_is_not_known_is_said(arguments: list[str], nobody: Session) -> None:
    ended = subprocess.run(
        [ENGRAMQ, "hook", *arguments], input=b"{}", env=nobody.environment, capture_output=True, check=False
    )
    assert ended.returncode == 0
    assert b"claude-code, codex or gemini" in ended.stderr


def test_a_budget_that_is_no_number_is_said(nobody: Session) -> None:
    nobody.environment["ENGRAMQ_HOOK_TOKENS"] = "many"
    ended = nobody.tell("SessionStart")
    assert ended.code == 0
    assert "ENGRAMQ_HOOK_TOKENS='many'" in ended.errors


@pytest.fixture
def deaf(nobody: Session) -> Iterator[Session]:
    """A session whose gateway takes connections and answers none."""
    nobody.home.ensure()
    with listening(nobody.home):
        yield nobody


@pytest.mark.parametrize("event", ["UserPromptSubmit", "Stop"])
def test_a_gateway_that_does_not_answer_costs_no_more_than_its_bound(deaf: Session, event: str) -> None:
    deaf.says("user", "Hello.")
    ended = deaf.tell(event, prompt="Hello.")
    assert ended.is_silent
    assert BOUND_S < 2
    assert ended.seconds > BOUND_S - 0.5


def test_a_client_that_never_ends_its_event_is_not_waited_for_longer(nobody: Session) -> None:
    with subprocess.Popen(
        [ENGRAMQ, "hook", "claude-code"], stdin=subprocess.PIPE, env=nobody.environment, stderr=subprocess.PIPE
    ) as hook:
        assert hook.wait(60) == 0


def test_a_gateway_that_says_nonsense_is_as_one_that_is_away(deaf: Session) -> None:
    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"nonsense\n")

    with listening(deaf.home) as listener:
        server = threading.Thread(target=serve, args=(listener,))
        server.start()
        ended = deaf.tell("UserPromptSubmit", prompt="Hello.")
        server.join(60)
    assert ended.is_silent


def test_a_transcript_that_is_a_pipe_is_not_waited_for(nobody: Session, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "transcript.jsonl")
    ended = nobody.tell("Stop")
    assert ended.is_silent


def test_hooks_stay_small() -> None:
    """What a hook imports is what a client waits for at every prompt."""
    heavy = "{'click', 'msgspec', 'asyncio', 'dataclasses', 'inspect', 'subprocess', 'anyio', 'tomlkit', 'email'}"
    # Patterns to compile that hooks have no use for.
    ours = "{'engramq.deploy.local.conversation', 'engramq.deploy.local.stdio'}"
    kept_out = f"({heavy} | {ours})"
    code = f"import sys; from engramq.deploy.local.hooks import run; sys.exit(' '.join({kept_out} & set(sys.modules)))"
    ended = subprocess.run(
        [ENGRAMQ.replace("/engramq", "/python"), "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.stderr.strip() == ""
