"""Small repositories for tests of comparisons."""

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engramq.evidence.compare import Cited, Freshness, compare
from engramq.evidence.files import comparable

LINES = "".join(f"line {number} of the recipe\n" for number in range(1, 41))


def git(folder: Path, *arguments: str) -> str:
    """Run git with a name to commit by, and nobody's own configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
    named = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *named, *arguments], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, message: str = "change") -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, **files: str) -> Path:
    """Make a repository with one commit of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet")
    for name, text in files.items():
        write(folder, name.replace("__", "/") + ".txt", text)
    commit(folder, "first")
    return folder


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def cited(folder: Path, path: str, lines: str = "", **more: Any) -> dict[str, Any]:
    """Return a citation of a file as it is now."""
    sha256 = comparable((folder / path).read_bytes()).digest(lines)
    return {"path": path, "sha256": sha256, **({"lines": lines} if lines else {}), **more}


def one(citation: dict[str, Any], folder: Path, *, is_here: bool = True, budget_s: float = 20.0) -> Freshness:
    ((found,),) = compare([Cited([citation], is_here)], str(folder), budget_s)
    return found


def states(citations: Sequence[dict[str, Any]], folder: Path, budget_s: float = 20.0) -> list[str]:
    (found,) = compare([Cited(citations)], str(folder), budget_s)
    return [each.state for each in found]


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
