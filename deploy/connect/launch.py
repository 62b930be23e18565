"""How a client starts engramq: the words of the command, and the variables that it would not have from a shell."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engramq.deploy.local import settings

# What says whom a client serves, where and by which rules. No secrets: configurations are copied and committed. Not the
# embedder, which the home keeps: a client that named a former one would be refused.
KEPT: Final = (
    *(settings.HOME, settings.NAMESPACE, settings.PRINCIPAL, settings.PROJECT, settings.TOOLS),
    *(settings.PREFIX + name for name in ("LANGUAGE", "RETENTION", "REDACT")),
)
_UV_CACHE: Final = ("archive-v", "environments-v")  # where `uvx` puts what it runs once
_PIPX_CACHE: Final = ("pipx", ".cache")


@dataclass(frozen=True, slots=True)
class Launch:
    """The words that start `engramq`, without its subcommand, and the environment to give it."""

    words: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> tuple[str, ...]:
        """Return the words of a command of engramq."""
        return (*self.words, *arguments)


def how_started(environment: Mapping[str, str] | None = None, prefix: str = sys.prefix, script: str = "") -> Launch:
    """Return how this engramq is started again later, from any folder and with any PATH.

    By `uvx` or `pipx run` where it was itself started so, since they clear away what they run once; else by the script
    that is installed. `prefix` and `script` are this process's own unless tests say otherwise.
    """
    environment = os.environ if environment is None else environment
    kept = {name: environment[name] for name in KEPT if environment.get(name)}
    if settings.HOME in kept:
        kept[settings.HOME] = str(Path(kept[settings.HOME]).expanduser().absolute())
    return Launch(_words(prefix, script or sys.argv[0], environment), kept)


def _words(prefix: str, script: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    parts = Path(prefix).parts
    search = environment.get("PATH")
    if any(part.startswith(_UV_CACHE) for part in parts):
        return (shutil.which("uvx", path=search) or "uvx", "engramq")
    if all(part in parts for part in _PIPX_CACHE):
        return (shutil.which("pipx", path=search) or "pipx", "run", "engramq")
    # Not resolved: where the script is a link, as of pipx and uv, the link outlives an upgrade.
    for candidate in (Path(script), Path(prefix) / "bin" / "engramq"):
        if candidate.name == "engramq" and candidate.is_file() and os.access(candidate, os.X_OK):
            return (str(candidate.absolute()),)
    return (sys.executable, "-P", "-m", "engramq")
