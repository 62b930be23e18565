"""Ask git about a repository of anybody: it runs nothing that its configuration names, and in bounded time.

No command here reads the working tree's files, whose filters are programs of the repository's choice.
"""

import os
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_SAFE: Final = (
    *("--no-pager", "--literal-pathspecs", "--no-optional-locks"),
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.attributesFile=/dev/null"),
    *("-c", "core.alternateRefsCommand=", "-c", "log.showSignature=false", "-c", "protocol.allow=never"),
    *("-c", "core.untrackedCache=false", "-c", "submodule.recurse=false"),
)
_PLAIN: Final = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all")
_ENVIRONMENT: Final = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
_CONVERTING: Final = ("filter", "working-tree-encoding", "ident")  # attributes, of which nothing is run here
_LISTED_S: Final = 5.0  # 100,000 files that git does not know are listed in .2 s
_ROUNDS: Final = 5  # so often a file may have been renamed, one after the other
_PATHS_AT_ONCE: Final = 400  # of one command line


class GitFailed(Exception):
    """Git is not there, refuses this repository, or took too long."""


class Repository:
    """A repository as git tells of it, until a moment of the monotonic clock. Every method raises GitFailed."""

    def __init__(self, root: str, until: float) -> None:
        self._root = root
        self._until = until
        self._is_anothers = _is_anothers(root)
        self._allowed: Sequence[str] = ()
        # Git refuses what is another user's, unless this one's own configuration has it, which is not read else.
        if self._is_anothers and self._is_allowed():
            self._allowed = ("-c", f"safe.directory={root}")

    def _is_allowed(self) -> bool:
        """Say whether the configuration of the user, or of the system, lets git read the repository."""
        allowed = False
        for level in ("--system", "--global"):
            try:
                told = self._call("config", level, "--includes", "--get-all", "-z", "safe.directory", folder=os.sep)
            except GitFailed:  # there is none
                continue
            for text in told.split(b"\0")[:-1]:
                place = os.path.expanduser(os.fsdecode(text))  # noqa: PTH111 - see files.py
                is_above = place.endswith("/*") and self._root.startswith(place[:-1])
                allowed = bool(place) and (allowed or is_above or place in ("*", self._root))
        return allowed

    def head(self) -> str:
        """Return the commit that is checked out, "" before there is one."""
        (line,) = self._checked(["HEAD^{commit}"])
        return "" if line.endswith(b" missing") else line.partition(b" ")[0].decode()

    def has(self, names: Sequence[str]) -> list[bool]:
        """Say of each of these whether the repository has such an object: `COMMIT^{commit}`, `COMMIT:PATH`."""
        return [not line.endswith((b" missing", b" ambiguous")) for line in self._checked(names)]

    def tracked(self, paths: Sequence[str]) -> set[str]:
        """Return those of these paths that are in the index: files that are committed, or added to be."""
        wanted = [path for path in paths if "\n" not in path]
        has = self.has([f":0:{path}" for path in wanted])
        return {path for path, there in zip(wanted, has, strict=True) if there}

    def is_submodule(self, path: str) -> bool:
        """Say whether a folder is a submodule."""
        return self._run("ls-files", "--stage", "-z", "--", path).startswith(b"160000 ")

    def submodule(self, path: str) -> "Repository":
        """Return the repository of a submodule."""
        return Repository(os.path.join(self._root, path), self._until)  # noqa: PTH118 - see files.py

    def blobs(self, names: Sequence[str], most_bytes: int) -> Iterator[tuple[str, bytes | None]]:
        """Give files as commits have them, each `COMMIT:PATH` once; None for what is not there, or larger than that.

        No more than so many bytes are held at once.
        """
        few, size = list[str](), 0
        for name, line in zip(names, self._checked(names), strict=True):
            head = line.rsplit(b" ", 2)
            is_there = len(head) == 3 and head[1] == b"blob" and head[2].isdigit()
            its = int(head[2]) if is_there else most_bytes + 1
            if its > most_bytes:
                yield name, None
                continue
            if few and size + its > most_bytes:
                yield from self._read(few)
                few, size = [], 0
            few.append(name)
            size += its
        if few:
            yield from self._read(few)

    def _read(self, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Give blobs that are there."""
        told, at = self._run("cat-file", "--batch", given=_lines(names)), 0
        for name in names:
            end = told.index(b"\n", at)
            size, begin = int(told[at:end].rsplit(b" ", 1)[1]), end + 1
            at = begin + size + 1
            yield name, told[begin : begin + size]

    def renamed(self, paths: Iterable[str]) -> tuple[dict[str, str], set[str]]:
        """Return where files that are not there have gone, and those of them that the repository once had.

        By what is staged, then by the commits that took them away, followed from one to the next.
        """
        missing, now, known = list(dict.fromkeys(paths)), dict[str, str](), set[str]()
        staged = _renames(self._run("diff", "--cached", "-M", "--name-status", "-z", *_PLAIN, "HEAD"))
        at = {path: path for path in missing}  # where each was last seen
        for _ in range(_ROUNDS):
            at = {path: place for path, place in at.items() if not self._exists(place)}
            steps = {place: staged[place] for place in at.values() if place in staged}
            took_away = self._took_away([place for place in at.values() if place not in steps])
            known |= {path for path, place in at.items() if place in steps or place in took_away}
            renames = self._renames_of(set(took_away.values()))
            steps |= {place: new for place in took_away if (new := renames.get((took_away[place], place)))}
            at = {path: steps[place] for path, place in at.items() if place in steps}
            now |= at
            if not at:
                break
        in_head = [path for path in missing if path not in known]
        has = self.has([f"HEAD:{path}" for path in in_head])
        known |= {path for path, there in zip(in_head, has, strict=True) if there}
        return {path: place for path, place in now.items() if self._exists(place)}, known

    def converted(self, paths: Sequence[str]) -> set[str]:
        """Return those of these files that git keeps in another form than they have here, as LFS and encodings do.

        All of them where nobody can tell.
        """
        if not paths:
            return set()
        given = b"".join(os.fsencode(path) + b"\0" for path in paths)
        told = self._run_soon("check-attr", "-z", "--stdin", *_CONVERTING, given=given)
        if told is None:
            return set(paths)
        parts = told.split(b"\0")
        states = zip(parts[0::3], parts[2::3], strict=False)
        return {os.fsdecode(path) for path, state in states if state not in (b"unspecified", b"unset")}

    def untracked(self) -> list[str]:
        """Return the files that git neither tracks nor ignores; none if that takes long."""
        told = self._run_soon("ls-files", "--others", "--exclude-standard", "-z") or b""
        return [os.fsdecode(path) for path in told.split(b"\0") if path]

    def _run_soon(self, command: str, *arguments: str, given: bytes = b"") -> bytes | None:
        """Run what reads `.gitignore` or `.gitattributes`, which may be pipes; None where it fails or takes long."""
        until, self._until = self._until, min(self._until, time.monotonic() + _LISTED_S)
        try:
            return self._run(command, *arguments, given=given)
        except GitFailed:
            return None
        finally:
            self._until = until

    def _exists(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self._root, path))  # noqa: PTH118 - see files.py

    def _checked(self, names: Sequence[str]) -> list[bytes]:
        return self._run("cat-file", "--batch-check", given=_lines(names)).splitlines() if names else []

    def _took_away(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the last commit that took each of these files away."""
        found: dict[str, str] = {}
        for begin in range(0, len(paths), _PATHS_AT_ONCE):
            wanted = ("--no-renames", "--diff-filter=D", "--name-only", "--format=%x01%H", "-z", "--no-show-signature")
            few = paths[begin : begin + _PATHS_AT_ONCE]
            commit = ""
            for part in self._run("log", *wanted, *_PLAIN, "HEAD", "--", *few).split(b"\0"):
                for text in part.strip(b"\n").split(b"\n"):
                    if text.startswith(b"\1"):
                        commit = text[1:].decode()
                    elif text:
                        found.setdefault(os.fsdecode(text), commit)
        return {path: found[path] for path in paths if path in found}

    def _renames_of(self, commits: set[str]) -> dict[tuple[str, str], str]:
        """Return what commits renamed, those with edits too: the new path by commit and old path."""
        renames: dict[tuple[str, str], str] = {}
        if not commits:
            return renames
        told = self._run(
            "diff-tree", "--stdin", "-r", "-M", "--diff-filter=R", "--name-status", "-z", "--root", *_PLAIN,
            given=_lines(sorted(commits)),
        )  # fmt: skip
        commit, parts = "", iter(told.split(b"\0"))
        for part in parts:
            text = part.strip(b"\n")
            if text[:1] == b"R" and text[1:].isdigit():
                old = os.fsdecode(next(parts))
                renames[commit, old] = os.fsdecode(next(parts))
            elif text:
                commit = text.decode()
        return renames

    def _run(self, command: str, *arguments: str, given: bytes = b"") -> bytes:
        """Return what git prints of the repository; raises GitFailed."""
        return self._call(*_SAFE, *self._allowed, command, *arguments, given=given, **_ENVIRONMENT)

    def _call(self, *arguments: str, given: bytes = b"", folder: str = "", **environment: str) -> bytes:
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise GitFailed("there is no time left")
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        try:
            done = subprocess.run(  # noqa: S603 - git, with arguments and no shell
                ["git", *arguments],  # noqa: S607 - the user's own git
                cwd=folder or self._root, env={**own, **environment}, input=given,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=left_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as problem:
            raise GitFailed("it took too long") from problem
        except OSError as problem:
            raise GitFailed(problem.strerror or "it cannot be run") from problem
        if done.returncode and self._is_anothers:
            raise GitFailed(
                "the repository is another user's, and safe.directory does not name it, or git is older than 2.38"
            )
        if done.returncode:
            raise GitFailed(f"it ended with {done.returncode}")
        return done.stdout


def _is_anothers(root: str) -> bool:
    """Say whether a working tree, or what git keeps of it, is of another user than runs this."""
    places = (root, os.path.join(root, ".git"))  # noqa: PTH118 - see files.py
    try:
        return any(os.lstat(place).st_uid != os.geteuid() for place in places)
    except OSError:
        return False


def _lines(names: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(name.replace("\n", " ")) + b"\n" for name in names)


def _renames(told: bytes) -> dict[str, str]:
    """Return the new paths by the old ones, of what `--name-status -z` tells."""
    renames, parts = dict[str, str](), iter(told.split(b"\0"))
    for kind in parts:
        if not kind:
            continue
        old = os.fsdecode(next(parts))
        if kind[:1] in (b"R", b"C"):
            new = os.fsdecode(next(parts))
            if kind[:1] == b"R":
                renames[old] = new
    return renames
