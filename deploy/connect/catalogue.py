"""The MCP clients that `engramq connect` knows: where each keeps its servers, how it starts engramq, as which entry.

Made after each client's own documentation, which docs/connect.md names; versions of autumn 2026.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

from engramq.deploy.local import settings

NAME: Final = "engramq"  # of the entry
_MODEL_START_S: Final = 60  # a first start makes a database; Codex waits 10 s unless told
# What says whom a client serves, where and by which rules. No secrets: configurations are copied and committed. Not the
# embedder, which the home keeps: a client that named a former one would be refused.
KEPT: Final = (
    *(settings.HOME, settings.NAMESPACE, settings.PRINCIPAL, settings.PROJECT, settings.TOOLS),
    *(settings.PREFIX + name for name in ("LANGUAGE", "RETENTION", "REDACT")),
)
# Clients that read no comma after a last item in their JSON, and whether they read comments.
PLAIN: Final[Mapping[str, bool]] = {"claude-code": False, "claude-desktop": False, "gemini": True}
# Cursor and VS Code put a window's folder here. Where it has none, VS Code would not start a server of the user's.
_WINDOW: Final = "${workspaceFolder}"
_UV_CACHE: Final = ("archive-v", "environments-v")  # where `uvx` puts what it runs once
_PIPX_CACHE: Final = ("pipx", ".cache")


@dataclass(frozen=True, slots=True)
class UserPlaces:
    """The facts that decide where files are: the system, the user's folder, the variables, and the project's folder."""

    home: Path
    environment: Mapping[str, str]
    project: Path
    system: str = sys.platform

    def configuration(self) -> Path:
        """Return the folder in which programs with windows keep their settings here."""
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        if self.system == "win32":
            return Path(self.environment.get("APPDATA") or self.home / "AppData" / "Roaming")
        return Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")

    def folder(self, variable: str, *usual: str) -> Path:
        """Return the folder that a client's own variable names, else the usual one below the user's."""
        named = self.environment.get(variable)
        return Path(named).expanduser() if named else self.home.joinpath(*usual)


Place: TypeAlias = Callable[[UserPlaces], Path]


def _user_place(*parts: str) -> Place:
    return lambda at: at.home.joinpath(*parts)


def _project_place(*parts: str) -> Place:
    return lambda at: at.project.joinpath(*parts)


def _program_place(*parts: str) -> Place:
    return lambda at: at.configuration().joinpath(*parts)


def _opencode_file(folder: Path) -> Path:
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


@dataclass(frozen=True, slots=True)
class StartCommand:
    """The words that start `engramq`, without its subcommand, and the environment to give it."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""  # where the client works, if it has to say so

    def command(self, *arguments: str) -> tuple[str, ...]:
        """Return the words of a command of engramq."""
        return (*self.words, *arguments)

    @property
    def stdio(self) -> tuple[str, ...]:
        """The words that serve a client on its standard streams."""
        return self.command("stdio", *(("--folder", self.folder) if self.folder else ()))


@dataclass(frozen=True, slots=True)
class Client:
    """One client. In its file the object `servers` has our entry, and `entry` is what stands there.

    `project` is where a project has a file of its own, None where the client knows no such file. `folder` and
    `project_folder` are what the user's file and a project's say of the folder that the client works in, where it
    starts its servers in another one; "" where it starts them there, or cannot say it.
    """

    name: str
    title: str
    servers: str
    entry: Callable[[StartCommand], dict[str, Any]]
    user: Place
    project: Place | None = None
    folder: str = ""
    project_folder: Place | str = ""

    @property
    def path(self) -> tuple[str, str]:
        """The keys that lead to our entry."""
        return self.servers, NAME

    def started(self, launch: StartCommand, at: UserPlaces, *, project: bool) -> dict[str, Any]:
        """Return the entry for the user's file, or for a project's, which says where the client works if it has to."""
        folder = self.project_folder if project else self.folder
        return self.entry(replace(launch, folder=folder if isinstance(folder, str) else str(folder(at))))

    @property
    def is_toml(self) -> bool:
        """Whether the file is TOML, not JSON."""
        return self.name == "codex"


def _plain(launch: StartCommand) -> dict[str, Any]:
    first, *rest = launch.stdio
    return {"command": first, "args": rest} | ({"env": dict(launch.variables)} if launch.variables else {})


def _typed_entry(launch: StartCommand) -> dict[str, Any]:
    return {"type": "stdio", **_plain(launch)}


def _codex(launch: StartCommand) -> dict[str, Any]:
    return {**_plain(launch), "startup_timeout_sec": _MODEL_START_S}


def _opencode(launch: StartCommand) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": list(launch.stdio), "enabled": True}
    return entry | ({"environment": dict(launch.variables)} if launch.variables else {})


CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            "claude-code", "Claude Code", "mcpServers", _typed_entry,
            lambda at: at.folder("CLAUDE_CONFIG_DIR") / ".claude.json", _project_place(".mcp.json"),
        ),
        Client(
            "claude-desktop", "Claude Desktop", "mcpServers", _plain,
            _program_place("Claude", "claude_desktop_config.json"),
        ),
        Client(
            "cursor", "Cursor", "mcpServers", _plain,
            _user_place(".cursor", "mcp.json"), _project_place(".cursor", "mcp.json"), _WINDOW, _WINDOW,
        ),
        Client(
            "vscode", "VS Code", "servers", _typed_entry,
            _program_place("Code", "User", "mcp.json"), _project_place(".vscode", "mcp.json"),
            project_folder=_WINDOW,
        ),
        Client(
            "codex", "Codex", "mcp_servers", _codex,
            lambda at: at.folder("CODEX_HOME", ".codex") / "config.toml", _project_place(".codex", "config.toml"),
            project_folder=_project_place(),
        ),
        Client(
            "gemini", "Gemini CLI", "mcpServers", _plain,
            _user_place(".gemini", "settings.json"), _project_place(".gemini", "settings.json"),
        ),
        Client(
            "windsurf", "Windsurf", "mcpServers", _plain, _user_place(".codeium", "windsurf", "mcp_config.json")
        ),
        Client(
            "opencode", "OpenCode", "mcp", _opencode,
            lambda at: _opencode_file(at.folder("XDG_CONFIG_HOME", ".config") / "opencode"),
            lambda at: _opencode_file(at.project),
        ),
    )
}  # fmt: skip


def how_started(
    environment: Mapping[str, str] | None = None,
    prefix: str = sys.prefix,
    script: str = "",
    source: str | None = None,
) -> StartCommand:
    """Return how this engramq is started again later, from any folder and with any PATH.

    By `uvx` or `pipx run` where it was itself started so, since they clear away what they run once, and from the same
    wheel or repository; else by the script that is installed. The last three are this process's own unless tests say
    otherwise.
    """
    environment = os.environ if environment is None else environment
    kept = {name: environment[name] for name in KEPT if environment.get(name)}
    if settings.HOME in kept:
        kept[settings.HOME] = str(Path(kept[settings.HOME]).expanduser().absolute())
    return StartCommand(
        _words(prefix, script or sys.argv[0], environment, _source() if source is None else source), kept
    )


def _source() -> str:
    """Return what engramq was installed from where that is no index: a file, a folder, a repository; else ""."""
    try:
        url = json.loads(distribution("engramq").read_text("direct_url.json") or "{}").get("url", "")
    except (PackageNotFoundError, ValueError):
        return ""
    return unquote(urlsplit(url).path) if url.startswith("file://") else str(url)


def _words(prefix: str, script: str, environment: Mapping[str, str], source: str) -> tuple[str, ...]:
    parts = Path(prefix).parts
    search = environment.get("PATH")
    if any(part.startswith(_UV_CACHE) for part in parts):
        return (shutil.which("uvx", path=search) or "uvx", *(("--from", source) if source else ()), "engramq")
    if all(part in parts for part in _PIPX_CACHE):
        pipx = shutil.which("pipx", path=search) or "pipx"
        return (pipx, "run", "--spec", source, "engramq") if source else (pipx, "run", "engramq")
    # Not resolved: where the script is a link, as of pipx and uv, the link outlives an upgrade.
    for candidate in (Path(script), Path(prefix) / "bin" / "engramq"):
        if candidate.name == "engramq" and candidate.is_file() and os.access(candidate, os.X_OK):
            return (str(candidate.absolute()),)
    return (sys.executable, "-P", "-m", "engramq")
