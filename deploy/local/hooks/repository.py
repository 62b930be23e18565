"""Find what a folder is of: the repository around it, by git's own files, or the folder by itself.

No git is needed and no process is started: a client waits for a hook at every prompt. All worktrees of a repository
share a git folder; clones share the address that they were cloned from, which is kept without user, password and query.
"""

# ruff: noqa: PTH111, PTH112, PTH113, PTH116, PTH118, PTH119, PTH120, PTH123
# os.path takes what may not be looked at for what is not there, and is faster.

import os
from typing import Final, NamedTuple
from unicodedata import normalize

_READ_CHARS: Final = 262_144  # of git's files; a configuration has some hundred
_NAME_CHARS: Final = 255
_EVERY_PROJECT: Final = "*"
_ORIGIN: Final = "origin"
_USUAL_PORTS: Final = {"https": ":443", "http": ":80", "ssh": ":22", "git": ":9418"}
_OWNER_PARTS: Final = 3  # of an address: host, owner, repository


class ProjectPlace(NamedTuple):  # a dataclass takes 7 ms to import
    """The repository that a folder belongs to.

    `folder` is the git folder that all worktrees share, else the folder itself. `remote` is where it was cloned from: a
    host and a path, or the git folder of another clone on this machine; "" if nowhere. `made`: when the git folder was
    made, in nanoseconds; 0 where nothing tells. `name` is what people call it, `longer` the same with its owner.
    """

    folder: str
    remote: str
    made: int
    name: str
    longer: str


def place_of(folder: str) -> ProjectPlace | None:
    """Return what a folder is of; None for the root, the user's own folder, and for what is no folder.

    Programs with windows start in these, and who keeps his settings in git has a repository in the last one.
    """
    if not folder or "\0" in folder:
        return None
    here = os.path.realpath(folder)
    if here == _own_folder():
        return None
    _, git = _top(here)
    if git is None:
        return _named(here, "", 0, here)
    main = os.path.dirname(git) if os.path.basename(git).startswith(".") else git.removesuffix(".git")
    return _named(git, _remote_of(git), _made(git), main)


def in_repository(folder: str) -> bool:
    """Say whether a folder is in a repository or a worktree of one."""
    return _top(os.path.realpath(folder))[1] is not None


def path_within(file: str, folder: str) -> tuple[str, str]:
    """Return the folder by which a session in a folder knows a file's project, and the file's path in that project.

    That is the session's own, unless the file is of another repository. A file that is of none has its whole path.
    """
    path = os.path.join(folder, os.path.expanduser(file))
    holder = os.path.realpath(os.path.dirname(path))
    here = os.path.realpath(folder)
    top, git = _top(here)
    top = here if git is None else top
    theirs, their_git = _top(holder)
    whole = os.path.join(holder, os.path.basename(path))
    if their_git is not None and theirs != top:
        return holder, os.path.relpath(whole, theirs)
    is_within = holder == top or holder.startswith(top.rstrip("/") + "/")
    return folder, os.path.relpath(whole, top) if is_within else whole


def _top(here: str) -> tuple[str, str | None]:
    """Return the folder where the repository or worktree around a folder begins, and its git folder; None if none.

    The user's own folder is no repository: settings that are kept in git there say nothing of what is below it.
    """
    place, own = here, _own_folder()
    while (git := None if place == own else _git_folder(place)) is None and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    return place, git


def _own_folder() -> str:
    return os.path.realpath(os.path.expanduser("~"))


def folder_before(place: ProjectPlace) -> str:
    """Return the folder that became this repository by `git init`, "" where it may be a clone.

    A clone is written after its git folder was made: what is older was there before.
    """
    folder = os.path.dirname(place.folder)
    if os.path.basename(place.folder) != ".git" or (place.remote and not _has_older(folder, place.made)):
        return ""
    return folder


def _has_older(folder: str, made: int) -> bool:
    """Say whether anything in a folder was last changed before a moment, in nanoseconds."""
    try:
        with os.scandir(folder) as entries:
            return any(
                entry.name != ".git" and entry.stat(follow_symlinks=False).st_mtime_ns < made for entry in entries
            )
    except OSError:
        return False


def _named(folder: str, remote: str, made: int, path: str) -> ProjectPlace | None:
    name = _as_name(os.path.basename(path))
    owner = "/".join(remote.split("/")[-2:]) if remote.count("/") + 1 >= _OWNER_PARTS and remote[0] != "/" else ""
    longer = owner or f"{os.path.basename(os.path.dirname(path))}/{name}".lstrip("/")
    return ProjectPlace(folder, remote, made, name, _as_name(longer)) if name else None


def _as_name(text: str) -> str:
    """Return a text as a project can be called, on one line; "" if it cannot."""
    shown = "".join(char if char.isprintable() else " " for char in text.encode("utf-8", "replace").decode())
    name = normalize("NFC", " ".join(shown.split()))[:_NAME_CHARS].strip()
    return "" if name == _EVERY_PROJECT else name


def _git_folder(place: str) -> str | None:
    """Return the git folder that all worktrees of the repository at a place share; None where no repository begins.

    A `.git` that leads nowhere, as of a worktree whose repository was removed, is a repository of its own.
    """
    entry = os.path.join(place, ".git")
    if os.path.isfile(entry):
        named = _text(entry).removeprefix("gitdir:").strip()
        entry = os.path.join(place, named) if named else place
        if not os.path.isdir(entry):
            return place
    elif not os.path.isdir(entry):
        inner = [os.path.join(place, name) for name in ("HEAD", "objects", "refs")]
        if not all(map(os.path.exists, inner)):
            return None
        entry = place  # a bare repository, or the inside of a git folder
    common = _text(os.path.join(entry, "commondir")).strip()
    return os.path.realpath(os.path.join(entry, common) if common else entry)


def _made(git: str) -> int:
    """Return when a git folder was made: git writes this file then and never again."""
    try:
        return os.stat(os.path.join(git, "description")).st_mtime_ns
    except OSError:
        return 0


def _remote_of(git: str) -> str:
    """Return where a repository was cloned from: its remote of the usual name, else the first one."""
    urls: dict[str, str] = {}
    remote = ""
    for line in _text(os.path.join(git, "config")).splitlines():
        text = line.strip()
        if text.startswith("["):
            kind, _, name = text[1:].partition("]")[0].partition(" ")
            remote = name.strip().strip('"') if kind.lower() == "remote" else ""
        elif remote and text.partition("=")[0].strip().lower() == "url":
            urls.setdefault(remote, _value(text.partition("=")[2]))
    return address_of(urls.get(_ORIGIN) or next(iter(urls.values()), ""), git)


def _value(text: str) -> str:
    """Return the value of a line of git's configuration."""
    value = text.strip()
    if value.startswith('"'):
        return value[1:].partition('"')[0]
    return value.partition("#")[0].partition(";")[0].strip()


def address_of(url: str, git: str) -> str:
    """Return the address that a remote's URL means to the repository with this git folder, in one form for all schemes.

    The account and its password or token are no part of it.
    """
    scheme, is_url, rest = url.partition("://")
    if scheme == "file" and is_url:
        return _of_path(rest[rest.find("/") :], git)
    if not is_url:
        scheme, rest = "ssh", url
        if ":" not in url.partition("/")[0]:
            return _of_path(url, git)
    rest = _without_login(rest.partition("?")[0].partition("#")[0])
    host, _, path = (rest if is_url else rest.replace(":", "/", 1)).partition("/")
    host = host.lower().removesuffix(_USUAL_PORTS.get(scheme, ""))
    return f"{host}/{path.strip('/').removesuffix('.git')}".strip("/")


def _without_login(address: str) -> str:
    """Return an address without user and password, one with a slash in it too, which no URL may have."""
    authority, slash, path = address.partition("/")
    if "@" in authority:
        return f"{authority.rpartition('@')[2]}{slash}{path}"
    return address.rpartition("@")[2] if ":" in authority else address


def _of_path(path: str, git: str) -> str:
    """Return the git folder of a repository on this machine, or its path where there is none."""
    if not path:
        return ""
    main = os.path.dirname(git) if os.path.basename(git) == ".git" else git
    place = os.path.realpath(os.path.join(main, os.path.expanduser(path)))
    return _git_folder(place) or place


def _text(path: str) -> str:
    """Return what one of git's files says, "" if it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_READ_CHARS)
    except OSError:
        return ""
