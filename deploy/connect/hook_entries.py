"""Write the hooks of engramq into the settings of clients that have such, and find them again by name."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Final

from engramq.deploy.connect import jsonc
from engramq.deploy.connect.catalogue import PLAIN, Place, StartCommand
from engramq.deploy.connect.files import Rewrite, read_text, rewrite
from engramq.deploy.local.hooks.transcripts import CLIENTS

HOOKS: Final = "hooks"
HOOK: Final = "hook"  # our own command
_MEND: Final = "Mend it, then again."
_TIMEOUT_S: Final = 5  # it ends by itself within 2 s; a machine may be slow to start it


@dataclass(frozen=True, slots=True)
class HookClient:
    """A client that runs commands at events. `capturing`: the events after which there is something to capture.

    `files`: the event of a tool that uses a file, and `uses` how. `second` is what it counts in a second, for the time
    that a hook may take; `wants`: what its user has still to do.
    """

    name: str
    title: str
    user: Place
    project: Place
    capturing: tuple[str, ...]
    recalling: tuple[str, ...] = ("SessionStart", "UserPromptSubmit", "PreToolUse")
    files: str = "PreToolUse"
    uses: str = "reads or changes it"
    second: int = 1
    wants: str = ""


HOOK_CLIENTS: Final[Mapping[str, HookClient]] = {
    client.name: client
    for client in (
        HookClient(
            "claude-code",
            "Claude Code",
            lambda at: at.folder("CLAUDE_CONFIG_DIR", ".claude") / "settings.json",
            # Not settings.json, which is the team's: the command is of this machine.
            lambda at: at.project / ".claude" / "settings.local.json",
            ("Stop", "PreCompact", "SessionEnd"),
        ),
        HookClient(
            "codex",
            "Codex",
            lambda at: at.folder("CODEX_HOME", ".codex") / "hooks.json",
            lambda at: at.project / ".codex" / "hooks.json",
            ("Stop", "PreCompact"),
            uses="changes it",
            wants="Codex runs no hook before you have reviewed it: type /hooks in Codex.",
        ),
        HookClient(
            "gemini",
            "Gemini CLI",
            lambda at: at.home / ".gemini" / "settings.json",
            lambda at: at.project / ".gemini" / "settings.json",
            ("AfterAgent", "PreCompress", "SessionEnd"),
            ("SessionStart", "BeforeAgent", "AfterTool", "PreCompress"),
            "AfterTool",
            second=1000,
            wants="Gemini CLI runs hooks in trusted folders alone: trust the folder when it asks at its start.",
        ),
    )
}


def add_hooks(
    path: Path, client: HookClient, launch: StartCommand, events: Sequence[str], options: Sequence[str]
) -> Rewrite:
    """Write the hooks for these events into a file, in the place of older ones of ours; others' stay as they are.

    `options` are those of `engramq hook`. Raises CommandFailed, with nothing written, for a file that the client could
    not read.
    """
    return rewrite(path, partial(_with, client, _groups(client, launch, events, options)), _MEND)


def uninstall(path: Path, client: HookClient) -> Rewrite:
    """Take our hooks out of a file; raises CommandFailed as `add_hooks` does."""
    return rewrite(path, partial(_with, client, {}), _MEND)


def misses_files(path: Path, client: HookClient) -> bool:
    """Say whether the hooks in a file are of an earlier release: they recall, but nothing for a file.

    Raises CommandFailed and OSError where the file cannot be read.
    """
    text = read_text(path)
    events = {place[1] for place in _ours(jsonc.read(text), client)} if text.strip() else set()
    return bool(events & set(client.recalling) - set(client.capturing)) and client.files not in events


def _groups(
    client: HookClient, launch: StartCommand, events: Sequence[str], options: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return what stands under each event: our hook, for a tool's event with the tools that read or change a file."""
    words = launch.command(HOOK, client.name, *options)
    variables = [f"{name}={value}" for name, value in launch.variables.items()]
    command = shlex.join(["env", *variables, *words] if variables else words)
    hooks = {HOOKS: [{"type": "command", "command": command, "timeout": _TIMEOUT_S * client.second}]}
    matcher = {"matcher": f"^({'|'.join(CLIENTS[client.name].file_tools)})$"}
    return {event: matcher | hooks if event == client.files else hooks for event in events}


def _with(client: HookClient, wanted: Mapping[str, dict[str, Any]], text: str) -> str:
    if not text.strip():
        if not wanted:
            return text
        text = "{}\n"
    if wanted and client.name in PLAIN:
        jsonc.require_plain(text, comments=PLAIN[client.name])
    places = list(_ours(jsonc.read(text), client))
    there = {str(place[1]): _at(jsonc.read(text), place[:3]) for place in places}
    if len(places) == len(wanted) and there == wanted:
        return text
    while (place := next(_ours(jsonc.read(text), client), None)) is not None:
        # A group of nothing but ours goes whole: one that has a matcher and no hooks is none that clients take.
        is_alone = len(_at(jsonc.read(text), place[:4])) == 1
        text = jsonc.remove_value(text, place[:3] if is_alone else place)
    for event, group in wanted.items():
        text = jsonc.append_item(text, (HOOKS, event), group)
    return text


def _ours(settings: Any, client: HookClient) -> Iterator[jsonc.Path]:
    """Give the path to each of our hooks: (hooks, event, number of the group, hooks, number in it)."""
    events = settings.get(HOOKS) if isinstance(settings, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            hooks = group.get(HOOKS) if isinstance(group, dict) else None
            for index, hook in enumerate(hooks if isinstance(hooks, list) else ()):
                if isinstance(hook, dict) and _is_ours(hook.get("command"), client):
                    yield (HOOKS, event, number, HOOKS, index)


def _is_ours(command: object, client: HookClient) -> bool:
    """Say whether a command is `engramq hook CLIENT`, however it is started."""
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    return any(
        (PurePath(first).name, second, third) == ("engramq", HOOK, client.name)
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def _at(value: Any, path: jsonc.Path) -> Any:
    for key in path:
        value = value[key]
    return value


def snippet(client: HookClient, launch: StartCommand, events: Sequence[str], options: Sequence[str]) -> str:
    """Return the text that a file with nothing but our hooks would have."""
    groups = {event: [group] for event, group in _groups(client, launch, events, options).items()}
    return json.dumps({HOOKS: groups}, indent=2, ensure_ascii=False) + "\n"
