"""Cite a file as it is: its path from the repository's root, its hash, and the commit that is checked out."""

import os
import time
from typing import Final

from engramq.evidence.files import Folder, NoFile, Outside, TooLarge, root_of

BUDGET_S: Final = 5.0


class NotCitable(ValueError):
    """There is nothing that can be cited so; the message says why."""


def cite(path: str, lines: str = "", folder: str = ".") -> dict[str, str]:
    """Return the citation of a file, or of some of its lines (`3` or `3-9`); the path is seen from the folder.

    Raises NotCitable for what is not there, is in no repository, or lies outside of it.
    """
    from engramq.evidence.git import GitFailed, Repository  # noqa: PLC0415 - 15 ms of imports, for who cites alone

    root = root_of(folder)
    if not root:
        raise NotCitable(f"{os.path.realpath(folder)} is in no repository")
    place = os.path.join(os.path.realpath(folder), path)  # noqa: PTH118 - as in files.py
    inside = os.path.relpath(os.path.normpath(place), root).replace(os.sep, "/")
    try:
        text = Folder(root).read(inside)
    except Outside:
        raise NotCitable(f"{path} lies outside the repository {root}") from None
    except NoFile:
        raise NotCitable(f"{path} is no file") from None
    except TooLarge:
        raise NotCitable(f"{path} is too large") from None
    except OSError as problem:
        raise NotCitable(f"{path}: {problem.strerror}") from None
    if text is None:
        raise NotCitable(f"{path} is not there")
    sha256 = text.digest(lines)
    if not sha256:
        raise NotCitable(f"{path} has no lines {lines}")
    try:
        commit = Repository(root, time.monotonic() + BUDGET_S).head()
    except GitFailed:
        commit = ""
    cited = {"path": inside, "lines": lines, "commit": commit, "sha256": sha256}
    return {name: value for name, value in cited.items() if value}
