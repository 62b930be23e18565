"""The MCP clients that `engramq connect` knows: where each keeps its servers, and what an entry there looks like.

Made after each client's own documentation, which docs/connect.md names; versions of autumn 2026.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engramq.deploy.connect.launch import Launch

NAME: Final = "engramq"  # of the entry
_MODEL_START_S: Final = 60  # a first start makes a database; Codex waits 10 s unless told


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What decides where files are: the system, the user's folder, the variables, and the project's folder."""

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


@dataclass(frozen=True, slots=True)
class Client:
    """One client. `path` leads to the entry in its file; `entry` is what stands there.

    `project` is where a project has a file of its own, None where the client knows no such file.
    """

    name: str
    title: str
    user: Callable[[Surroundings], Path]
    project: Callable[[Surroundings], Path] | None
    path: tuple[str, ...]
    entry: Callable[[Launch], dict[str, Any]]

    @property
    def is_toml(self) -> bool:
        """Whether the file is TOML, not JSON."""
        return self.name == "codex"


def _plain(launch: Launch) -> dict[str, Any]:
    first, *rest = launch.command("stdio")
    return {"command": first, "args": rest} | ({"env": dict(launch.variables)} if launch.variables else {})


def _typed(launch: Launch) -> dict[str, Any]:
    return {"type": "stdio", **_plain(launch)}


def _codex(launch: Launch) -> dict[str, Any]:
    return {**_plain(launch), "startup_timeout_sec": _MODEL_START_S}


def _opencode(launch: Launch) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "local", "command": list(launch.command("stdio")), "enabled": True}
    return entry | ({"environment": dict(launch.variables)} if launch.variables else {})


def _claude_code(at: Surroundings) -> Path:
    return at.folder("CLAUDE_CONFIG_DIR") / ".claude.json"


def _opencode_file(folder: Path) -> Path:
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            _claude_code,
            lambda at: at.project / ".mcp.json",
            ("mcpServers", NAME),
            _typed,
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            lambda at: at.configuration() / "Claude" / "claude_desktop_config.json",
            None,
            ("mcpServers", NAME),
            _plain,
        ),
        Client(
            "cursor",
            "Cursor",
            lambda at: at.home / ".cursor" / "mcp.json",
            lambda at: at.project / ".cursor" / "mcp.json",
            ("mcpServers", NAME),
            _plain,
        ),
        Client(
            "vscode",
            "VS Code",
            lambda at: at.configuration() / "Code" / "User" / "mcp.json",
            lambda at: at.project / ".vscode" / "mcp.json",
            ("servers", NAME),
            _typed,
        ),
        Client(
            "codex",
            "Codex",
            lambda at: at.folder("CODEX_HOME", ".codex") / "config.toml",
            lambda at: at.project / ".codex" / "config.toml",
            ("mcp_servers", NAME),
            _codex,
        ),
        Client(
            "gemini",
            "Gemini CLI",
            lambda at: at.home / ".gemini" / "settings.json",
            lambda at: at.project / ".gemini" / "settings.json",
            ("mcpServers", NAME),
            _plain,
        ),
        Client(
            "windsurf",
            "Windsurf",
            lambda at: at.home / ".codeium" / "windsurf" / "mcp_config.json",
            None,
            ("mcpServers", NAME),
            _plain,
        ),
        Client(
            "opencode",
            "OpenCode",
            lambda at: _opencode_file(at.folder("XDG_CONFIG_HOME", ".config") / "opencode"),
            lambda at: _opencode_file(at.project),
            ("mcp", NAME),
            _opencode,
        ),
    )
}
