"""Write files by which agents and hosts find engramq: a plugin and a skill, a bundle's manifest, an index for models.

`make generate` writes them. They say nothing by themselves: the version is the package's, the description the
registry entry's, hooks are those of `engramq hooks install`, the skill is the text of `engramq rules`, and the index
is made of docs/README.md.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from engramq.deploy.cli.rules import RULES
from engramq.deploy.connect.catalogue import CLIENTS, StartCommand
from engramq.deploy.connect.hook_entries import HOOK_CLIENTS, snippet
from tools.release.version import VERSION

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
PLUGIN: Final = ROOT / "integrations" / "claude-code-plugin"
BUNDLE: Final = ROOT / "integrations" / "mcpb"
MARKETPLACE: Final = ROOT / ".claude-plugin" / "marketplace.json"
NAME: Final = "engramq"
AUTHOR: Final = {"name": "engramq"}
LICENCE: Final = "Apache-2.0"
_CLIENT: Final = "claude-code"
_ON_THE_PATH: Final = StartCommand((NAME,))
_SKILL_HEAD: Final = """\
---
name: memory
description: Long-term memory across sessions, by the tools of the MCP server engramq. Use it before a task, when \
the user refers to earlier work ("we", "again", "last time", "as usual"), when something is decided or learned that \
will matter later, and when a stored fact holds no longer.
---

"""
_SKILL_TAIL: Final = """
The tool `guide` explains every tool with an example that works. Where the tools are missing, engramq is not installed
or not connected: say so, and name docs/connect.md. In a terminal the same is `engramq search`, `store`, `supersede`.
"""


def texts() -> Mapping[Path, str]:
    """Return what each of these files has to hold."""
    return {
        PLUGIN / ".claude-plugin" / "plugin.json": _json(_plugin()),
        PLUGIN / ".mcp.json": _json({"mcpServers": {NAME: CLIENTS["claude-desktop"].entry(_ON_THE_PATH)}}),
        PLUGIN / "hooks" / "hooks.json": _hooks(),
        PLUGIN / "skills" / "memory" / "SKILL.md": _SKILL_HEAD + RULES + _SKILL_TAIL,
        MARKETPLACE: _json(_marketplace()),
        BUNDLE / "manifest.json": _json(_manifest()),
        DOCS / "llms.txt": index(),
    }


def description() -> str:
    """Return the sentence by which the MCP registry knows engramq."""
    entry = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
    return str(entry["description"])


def _plugin() -> dict[str, Any]:
    about = {"name": NAME, "version": VERSION, "description": description(), "author": AUTHOR, "license": LICENCE}
    return about | {"keywords": ["memory", "mcp"]}


def _marketplace() -> dict[str, Any]:
    source = f"./{PLUGIN.relative_to(ROOT).as_posix()}"
    plugin = {"name": NAME, "source": source, "description": description()}
    return {"name": NAME, "owner": AUTHOR, "description": "The memory of this repository.", "plugins": [plugin]}


def _hooks() -> str:
    client = HOOK_CLIENTS[_CLIENT]
    return snippet(client, _ON_THE_PATH, (*client.recalling, *client.capturing), ())


def _manifest() -> dict[str, Any]:
    """Return the manifest of a bundle whose packages the host installs with uv (version 0.4 of the specification)."""
    return {
        "manifest_version": "0.4",
        "name": NAME,
        "display_name": NAME,
        "version": VERSION,
        "description": description(),
        "author": AUTHOR,
        "license": LICENCE,
        "keywords": ["memory", "mcp"],
        "server": {
            "type": "uv",
            "entry_point": "src/server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--directory", "${__dirname}", "src/server.py"],
                "env": {"ENGRAMQ_HOME": "${user_config.home}"},
            },
        },
        "tools_generated": True,
        "compatibility": {"platforms": ["darwin", "linux"], "runtimes": {"python": ">=3.11"}},
        "user_config": {
            "home": {
                "type": "directory",
                "title": "Folder of the memory",
                "description": "All clients with the same folder share one memory.",
                "default": "${HOME}/.engramq",
            }
        },
    }


def index() -> str:
    """Return docs/llms.txt: every page of the index, by the part that it is listed in, with its title."""
    parts = [f"# {NAME}\n", f"> {description()}\n", "Addresses are of files in this folder, docs.\n"]
    for heading, links in _rows():
        lines = [f"- [{title}]({page}): {_title(DOCS / page)}" for title, page in links]
        parts.append("\n".join([f"## {heading}\n", *lines, ""]))
    return "\n".join(parts)


def _rows() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the parts of the index, each with its links (title, page)."""
    for line in (DOCS / "README.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| \*\*(.+?)\*\* \| (.*) \|$", line)
        if row is not None:
            yield row[1].capitalize(), re.findall(r"\[([^\]]+)\]\(([^)#]+)\)", row[2])


def _title(page: Path) -> str:
    return page.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
