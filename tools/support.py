"""The table of clients in README.md: what engramq does for each, and the version that a test runs. By `make generate`.

Every cell is read from what the program and the tests declare: `deploy/connect` for entries and hooks, the formats of
`engramq import`, and for versions the programs that `make test-agents` installs and the days that it plays with them.
"""

import json
from pathlib import Path
from typing import Final

import click

from engramq.deploy.cli.import_file import command as import_command
from engramq.deploy.connect.catalogue import CLIENTS
from engramq.deploy.connect.hook_entries import HOOK_CLIENTS

ROOT: Final = Path(__file__).resolve().parents[1]
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- clients: begin (written by `make generate`, never by hand) -->"
END: Final = "<!-- clients: end -->"
PACKAGES: Final = {
    "claude-code": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "opencode": "opencode-linux-x64",
}
# Clients whose sessions alone are read: they were played by hand, in a terminal.
PLAYED: Final = {
    "copilot": ("GitHub Copilot CLI", "1.0.102"),
    "qwen": ("Qwen Code", "0.24.4"),
    "pi": ("pi", "1.6.0"),
    "cline": ("Cline", "3.0.65"),
    "continue": ("Continue", "1.5.47"),
}
_INSTALLED: Final = ROOT / "tests" / "agents" / "package.json"


def table() -> str:
    """Return the table, remarks included."""
    formats, versions = _formats(), tested_versions()
    rows = []
    for name, client in CLIENTS.items():
        cells = (
            client.title,
            f"`engramq connect {name}`",
            f"`engramq hooks install {name}`" if name in HOOK_CLIENTS else "-",
            f"`--format {name}`" if name in formats else "-",
            versions.get(name, "its file alone"),
        )
        rows.append(f"| {' | '.join(cells)} |")
    titles, played = (", ".join(column) for column in zip(*PLAYED.values(), strict=True))
    played_formats = ", ".join(f"`--format {name}`" for name in PLAYED)
    rows.append(f"| {titles} | - | - | {played_formats} | {played}: their sessions alone |")
    head = "| client | tools | hooks: recall, capture | import of sessions | tested |"
    return "\n".join([BEGIN, head, "|---|---|---|---|---|", *rows, END])


def page() -> str:
    """Return README.md with the table as it is now."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    return before + table() + rest.partition(END)[2]


def tested_versions() -> dict[str, str]:
    """Return the version of each client that `make test-agents` installs."""
    described = json.loads(_INSTALLED.read_text(encoding="utf-8"))
    installed = described["dependencies"] | described["optionalDependencies"]
    return {name: installed[package] for name, package in PACKAGES.items()}


def _formats() -> frozenset[str]:
    """Return the words that `engramq import --format` takes."""
    option = next(parameter for parameter in import_command.params if parameter.opts == ["--format"])
    assert isinstance(option.type, click.Choice)
    return frozenset(map(str, option.type.choices))
