"""`engramq hooks install` and `uninstall` in settings that have hooks of others."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.promise("RC-5")

ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
# As the documentation of Claude Code has it, with a hook for tools and one for the same event as ours.
SETTINGS = """\
{
  "permissions": {"allow": ["Bash(npm run test:*)"]},
  "hooks": {
    "PreToolUse": [
      {"matcher": "Bash", "hooks": [{"type": "command", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/check.sh"}]}
    ],
    "Stop": [
      {
        "hooks": [
          {"type": "command", "command": "say 'done with engramq hook'"}
        ]
      }
    ]
  },
  "model": "opus"
}
"""
EVENTS = {
    "claude-code": ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "PreCompact", "SessionEnd"],
    "codex": ["SessionStart", "UserPromptSubmit", "PreToolUse", "Stop", "PreCompact"],
    "gemini": ["SessionStart", "BeforeAgent", "AfterTool", "PreCompress", "AfterAgent", "SessionEnd"],
}
# The event and the tools of each that use files.
FILE_HOOKS = {
    "claude-code": ("PreToolUse", "^(Read|Edit|MultiEdit|Write|NotebookEdit)$"),
    "codex": ("PreToolUse", "^(apply_patch)$"),
    "gemini": ("AfterTool", "^(read_file|write_file|replace)$"),
}
FILES = {"claude-code": ".claude/settings.json", "codex": ".codex/hooks.json", "gemini": ".gemini/settings.json"}
SECONDS = {"claude-code": 1, "codex": 1, "gemini": 1000}  # in the unit of each client's documentation
CLIENTS = list(EVENTS)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    place = tmp_path / "ada lovelace"
    place.mkdir()
    return place


def types(home: Path, *arguments: str, code: int = 0, **variables: str) -> str:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **variables}
    command = [ENGRAMQ, "hooks", *arguments]
    ended = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def has(home: Path, client: str, text: str) -> Path:
    path = home / FILES[client]
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def ours(path: Path) -> dict[str, list[str]]:
    """Return our commands by event."""
    found: dict[str, list[str]] = {}
    for event, groups in json.loads(path.read_text()).get("hooks", {}).items():
        commands = [hook["command"] for group in groups for hook in group["hooks"]]
        if mine := [command for command in commands if " hook " in command and "say" not in command]:
            found[event] = mine
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_the_hooks_come_in_and_those_of_others_stay(home: Path, client: str) -> None:
    path = has(home, client, SETTINGS)
    types(home, "install", client)
    command = shlex.join([ENGRAMQ, "hook", client])
    assert ours(path) == {event: [command] for event in EVENTS[client]}
    after = json.loads(path.read_text())
    timeouts = {hook.get("timeout") for event in EVENTS[client] for hook in after["hooks"][event][-1]["hooks"]}
    assert timeouts == {5 * SECONDS[client]}
    assert after["hooks"]["Stop"][0] == json.loads(SETTINGS)["hooks"]["Stop"][0]
    assert all(line.rstrip(",") in path.read_text() for line in SETTINGS.splitlines() if '"command"' in line)
    (backup,) = path.parent.glob("*.engramq-backup")
    assert backup.read_text() == SETTINGS


@pytest.mark.parametrize("client", CLIENTS)
def test_the_same_twice_changes_nothing_and_uninstalling_leaves_what_was(home: Path, client: str) -> None:
    path = has(home, client, SETTINGS)
    types(home, "install", client)
    after = path.read_text()
    assert "already" in types(home, "install", client)
    assert path.read_text() == after
    assert "out of" in types(home, "uninstall", client)
    assert json.loads(path.read_text()) == json.loads(SETTINGS)
    assert "not in" in types(home, "uninstall", client)


@pytest.mark.parametrize("client", CLIENTS)
def test_what_happens_from_now_on_is_said_and_how_to_see_and_stop_it(home: Path, client: str) -> None:
    wants = {"codex": "type /hooks", "gemini": "trusted folders"}
    for _ in ("at first", "where they are already"):
        said = types(home, "install", client)
        assert "All that you and the model say is kept from now on, as untrusted" in said
        assert "engramq list --partition untrusted" in said
        assert f"engramq hooks uninstall {client}" in said
        assert f"engramq purge --created-by hooks/{client}" in said
        assert [name for name, word in wants.items() if word in said] == [client] * (client in wants)


@pytest.mark.promise("RC-16")
@pytest.mark.parametrize("client", CLIENTS)
def test_a_hook_for_files_runs_at_the_tools_that_use_them_and_its_user_is_told(home: Path, client: str) -> None:
    event, matcher = FILE_HOOKS[client]
    said = types(home, "install", client)
    assert f"what it knows of a file when it {'changes' if client == 'codex' else 'reads or changes'} it" in said
    group = json.loads((home / FILES[client]).read_text())["hooks"][event][-1]
    assert group["matcher"] == matcher
    assert len(group["hooks"]) == 1


@pytest.mark.promise("RC-16")
@pytest.mark.parametrize("client", CLIENTS)
def test_hooks_of_an_earlier_release_get_what_is_new_by_installing_again(home: Path, client: str) -> None:
    types(home, "install", client)
    path = home / FILES[client]
    event, _ = FILE_HOOKS[client]
    settings = json.loads(path.read_text())
    del settings["hooks"][event]
    path.write_text(json.dumps(settings))
    doctor = [ENGRAMQ, "doctor"]
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], "ENGRAMQ_HOME": str(home / "memory")}
    found = subprocess.run(doctor, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert f"engramq hooks install {client}" in found.stdout + found.stderr
    types(home, "install", client)
    assert event in ours(path)
    found = subprocess.run(doctor, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert "hooks install" not in found.stdout + found.stderr
    types(home, "uninstall", client)
    assert ours(path) == {}


def test_what_is_not_done_is_not_said(home: Path) -> None:
    said = types(home, "install", "claude-code", "--no-capture")
    assert "Nothing that you or the model say is kept." in said
    assert "purge" not in said
    said = types(home, "install", "claude-code", "--no-recall")
    assert "gets what the memory knows" not in said
    assert "Models get it as data" in types(home, "install", "claude-code", "--recall-captured")


def test_a_matcher_around_our_hook_alone_goes_with_it(home: Path) -> None:
    """A group with a matcher and no hooks would be one that the client does not take."""
    mine = {"type": "command", "command": "/usr/bin/engramq hook claude-code"}
    other = {"type": "command", "command": "say hello"}
    alone, shared = ({"matcher": "startup", "hooks": hooks} for hooks in ([mine, mine], [mine, other]))
    path = has(home, "claude-code", json.dumps({"hooks": {"SessionStart": [alone, shared], "Stop": [alone]}}, indent=2))
    types(home, "uninstall", "claude-code")
    assert json.loads(path.read_text()) == {"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [other]}]}}


def test_other_options_replace_the_hooks_of_before(home: Path) -> None:
    types(home, "install", "claude-code")
    types(home, "install", "claude-code", "--recall-captured", "--no-capture")
    path = home / FILES["claude-code"]
    command = shlex.join([ENGRAMQ, "hook", "claude-code", "--recall-captured", "--no-capture"])
    assert ours(path) == {event: [command] for event in ("SessionStart", "UserPromptSubmit", "PreToolUse")}
    types(home, "install", "claude-code", "--no-recall")
    assert list(ours(path)) == ["Stop", "PreCompact", "SessionEnd"]
    assert "leave nothing" in types(home, "install", "codex", "--no-recall", "--no-capture", code=2)


def test_a_project_has_hooks_of_its_own(home: Path) -> None:
    for client in CLIENTS:
        types(home, "install", client, "--project")
    assert ours(home / ".claude" / "settings.local.json")
    assert ours(home / ".codex" / "hooks.json")
    assert ours(home / ".gemini" / "settings.json")
    assert not (home / ".claude" / "settings.json").exists()


@pytest.mark.parametrize("text", ["{", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "hooks = true"])
def test_settings_that_the_client_could_not_read_are_left_alone(home: Path, text: str) -> None:
    path = has(home, "claude-code", text)
    assert "Nothing was written" in types(home, "install", "claude-code", code=1)
    assert path.read_text() == text


def test_a_home_of_ones_own_goes_along(home: Path) -> None:
    types(home, "install", "claude-code", ENGRAMQ_HOME=str(home / "my memory"))
    (command,) = ours(home / FILES["claude-code"])["Stop"]
    assert shlex.split(command) == ["env", f"ENGRAMQ_HOME={home / 'my memory'}", ENGRAMQ, "hook", "claude-code"]
    types(home, "uninstall", "claude-code")
    assert not (home / FILES["claude-code"]).exists(), "which was made for the hooks"


def test_the_command_runs_in_a_shell_as_clients_run_it(home: Path) -> None:
    types(home, "install", "claude-code", ENGRAMQ_HOME=str(home / "it's $HOME"))
    (command,) = ours(home / FILES["claude-code"])["SessionStart"]
    event: dict[str, Any] = {
        "hook_event_name": "SessionStart",
        "session_id": "a",
        "cwd": str(home),
        "source": "startup",
    }
    ended = subprocess.run(
        ["/bin/sh", "-c", command], input=json.dumps(event), capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_print_writes_nothing(home: Path) -> None:
    assert '"UserPromptSubmit"' in types(home, "install", "claude-code", "--print")
    assert not (home / ".claude").exists()
