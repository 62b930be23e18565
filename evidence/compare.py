"""Compare citations with the files of a working tree: fresh, changed, gone, or unknown, within a bound of time.

Only what git tracks is compared where others learn the answer: a hash may come from anybody, and the answer would
confirm a guess of what a file such as `.env` holds. A missing file is looked for under the name that git says it was
renamed to; one pass does for all of them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engramq.evidence.files import MOST_BYTES, FileText, Folder, NoFile, Outside, TooLarge, comparable, root_of

if TYPE_CHECKING:
    from engramq.evidence.git import Repository

FRESH: Final = "fresh"
CHANGED: Final = "changed"
GONE: Final = "gone"
UNKNOWN: Final = "unknown"
BUDGET_S: Final = 5.0
_TOO_LATE: Final = "there is no time left"
_UNTRACKED: Final = 200  # files that git does not know, among which one that is missing is looked for
_IN_ORDER: Final = (CHANGED, GONE, UNKNOWN, FRESH)  # what is told of a memory that cites several

CitationFields = Mapping[str, Any]


class Freshness(NamedTuple):  # a dataclass takes 7 ms to import
    """The state of a citation after a comparison.

    `place` is where it is by now, if not where it was, `why` says what is unknown.
    """

    state: str
    place: str = ""
    why: str = ""


class Cited(NamedTuple):
    """A memory's evidence. `is_here`: the memory is about this repository, so that its paths are of here."""

    evidence: Sequence[CitationFields]
    is_here: bool = True


def compare(
    memories: Sequence[Cited], folder: str, budget_s: float = BUDGET_S, *, is_kept_here: bool = False
) -> list[list[Freshness]]:
    """Return what became of each citation of each memory, seen from a folder.

    `is_kept_here`: nobody elsewhere learns it, so that files which git does not track are compared too.
    """
    root = root_of(folder)
    comparison = _Comparison(root, time.monotonic() + budget_s)
    for number, memory in enumerate(memories):
        for index, citation in enumerate(memory.evidence):
            comparison.add((number, index), citation, is_here=memory.is_here)
    comparison.run(is_kept_here=is_kept_here)
    found = comparison.found
    return [[found[number, index] for index in range(len(memory.evidence))] for number, memory in enumerate(memories)]


def worst_of(found: Sequence[Freshness]) -> Freshness | None:
    """Return the worst state of a memory's citations: changed or gone before all else; None where none was compared."""
    return min(found, key=lambda each: _IN_ORDER.index(each.state), default=None)


_CitationPlace = tuple[int, int]


class _Comparison:
    """One comparison: what is found, and what git has to be asked about, all of it at once."""

    def __init__(self, root: str, until: float) -> None:
        self.found: dict[_CitationPlace, Freshness] = {}
        self._root = root
        self._folder = Folder(root) if root else None
        self._until = until
        self._texts: dict[str, FileText | None] = {}  # of files that are cited more than once, as long as there is room
        self._held = 0  # bytes in them
        self._cited: dict[_CitationPlace, CitationFields] = {}
        self._files: dict[_CitationPlace, str] = {}  # real paths by what cites them
        self._commits: dict[_CitationPlace, CitationFields] = {}  # whose commit decides
        self._elsewhere: set[_CitationPlace] = set()  # that may be of another repository
        self._missing: dict[_CitationPlace, CitationFields] = {}

    def add(self, key: _CitationPlace, citation: CitationFields, *, is_here: bool) -> None:
        """Take a citation, or say why it is not compared."""
        self._cited[key], path = citation, citation.get("path")
        if self._folder is None or time.monotonic() > self._until:
            why = _TOO_LATE if self._folder is not None else "this folder is in no repository"
            self.found[key] = Freshness(UNKNOWN, why=why)
        elif not isinstance(path, str):
            self.found[key] = Freshness(UNKNOWN, why="it is no file")
            if citation.get("commit"):
                self._commits[key] = citation
        elif not is_here and not citation.get("commit"):
            self.found[key] = Freshness(UNKNOWN, why="it may be of another repository")
        else:
            try:
                self._files[key] = self._folder.within(path)
            except Outside:
                self.found[key] = Freshness(UNKNOWN, why="it lies outside the repository")
                return
            if not is_here:
                self._elsewhere.add(key)

    def run(self, *, is_kept_here: bool) -> None:
        """Compare files, and look in the repository's history for what they do not tell."""
        if is_kept_here:
            self._look_at_all(set(self._files.values()))
        if not (self._commits or self._elsewhere or self._missing or self._files.keys() - self.found.keys()):
            return
        # Recalls that cite nothing of this kind do without: 15 ms of imports, while a client waits for its hook.
        from engramq.evidence.git import GitFailed, Repository  # noqa: PLC0415 - see above

        repository = Repository(self._root, self._until)
        try:
            if not is_kept_here:
                self._look_at_all(self._tracked(repository, self._files.values()))
            self._leave_others(repository)
            self._by_commit(repository)
            if self._missing:
                self._follow(repository)
        except GitFailed as problem:
            unseen = self._files.keys() - self.found.keys()
            for key in (*self._commits, *self._elsewhere, *self._missing, *unseen):
                self.found[key] = Freshness(UNKNOWN, why=f"git: {problem}")  # what was decided before is none of these

    def _look_at_all(self, tracked: Collection[str]) -> None:
        for key, place in self._files.items():
            self._look(key, is_tracked=place in tracked)

    def _tracked(self, repository: Repository, places: Iterable[str]) -> set[str]:
        """Return which of these files git tracks; those of submodules by their own index."""
        assert self._folder is not None
        trees = defaultdict[str, list[str]](list)
        for place in dict.fromkeys(places):
            trees[self._folder.tree_of(place)].append(place)
        tracked = set(repository.tracked(trees.pop("", [])))
        for tree, several in trees.items():
            if repository.is_submodule(tree):
                own = repository.submodule(tree).tracked([place[len(tree) + 1 :] for place in several])
                tracked |= {f"{tree}/{place}" for place in own}
        return tracked

    def _look(self, key: _CitationPlace, *, is_tracked: bool) -> None:
        """Compare a citation with its file, or leave it to git."""
        citation = self._cited[key]
        if time.monotonic() > self._until:
            self.found[key] = Freshness(UNKNOWN, why=_TOO_LATE)
            return
        if not is_tracked and self._folder is not None and self._folder.has(citation["path"]):
            self.found[key] = Freshness(UNKNOWN, why="git does not track it")
            return
        text = self._text(key, citation["path"])
        if key in self.found:
            return
        if text is None:
            self._missing[key] = citation
            self.found[key] = Freshness(GONE)
        elif citation.get("sha256"):
            self.found[key] = _compare_text(text, citation)
        elif citation.get("commit"):
            self._commits[key] = citation
            self.found[key] = Freshness(UNKNOWN, why="git does not tell")
        else:
            self.found[key] = Freshness(UNKNOWN, why="it has no hash and no commit")

    def _text(self, key: _CitationPlace, path: str) -> FileText | None:
        assert self._folder is not None
        if path in self._texts:
            return self._texts[path]
        try:
            text = self._folder.read(path)
        except Outside:
            self.found[key] = Freshness(UNKNOWN, why="it lies outside the repository")
        except TooLarge:
            self.found[key] = Freshness(UNKNOWN, why="it is too large")
        except (NoFile, IsADirectoryError):
            self.found[key] = Freshness(UNKNOWN, why="it is no file")
        except OSError as problem:
            self.found[key] = Freshness(UNKNOWN, why=problem.strerror or "it cannot be read")
        else:
            size = len(text.data) if text is not None else 0
            if self._held + size <= MOST_BYTES:
                self._texts[path] = text
                self._held += size
            return text
        return None

    def _leave_others(self, repository: Repository) -> None:
        """Say of what cites a commit that this repository does not have that nobody knows."""
        keys = {*self._elsewhere, *(key for key, citation in self._commits.items() if not citation.get("path"))}
        commits = {key: str(self._cited[key].get("commit")) for key in sorted(keys)}
        names = sorted(set(commits.values()))
        has = dict(zip(names, repository.has([f"{name}^{{commit}}" for name in names]), strict=True))
        for key, commit in commits.items():
            if not has[commit]:
                self.found[key] = Freshness(UNKNOWN, why="its commit is not in this repository")
                self._commits.pop(key, None)
                self._missing.pop(key, None)
            elif key not in self._elsewhere:
                self.found[key] = Freshness(FRESH)  # a commit never changes
                del self._commits[key]
        self._elsewhere.clear()

    def _by_commit(self, repository: Repository) -> None:
        """Compare files that have no hash with what they were at the commit that is cited."""
        keys = defaultdict[str, list[_CitationPlace]](list)
        for key, citation in self._commits.items():
            keys[f"{citation['commit']}:{citation['path']}"].append(key)
        for name, data in repository.blobs(list(keys), MOST_BYTES):
            was = None if data is None else comparable(data)
            for key in keys[name]:
                self._compare_with(was, key)
                if self.found[key].state != CHANGED:
                    del self._commits[key]
        paths = sorted({citation["path"] for citation in self._commits.values()})
        converted = repository.converted(paths)
        for key in [key for key, citation in self._commits.items() if citation["path"] in converted]:
            self.found[key] = Freshness(UNKNOWN, why="git keeps it in another form")
        self._commits.clear()

    def _compare_with(self, was: FileText | None, key: _CitationPlace) -> None:
        """Compare a file with what its commit has of it, None where that has none."""
        if was is None:
            why = "its commit is not in this repository, or had no such file, or a large one"
            self.found[key] = Freshness(UNKNOWN, why=why)
            return
        assert self._folder is not None
        citation = self._commits[key]
        text = self._text(key, citation["path"])
        sha256 = was.digest(str(citation.get("lines") or ""))
        if text is None:  # it has gone meanwhile, or cannot be read any more
            return
        if not sha256:
            self.found[key] = Freshness(UNKNOWN, why="no such lines")
            return
        found = _compare_text(text, {**citation, "sha256": sha256})
        is_link = found.state == CHANGED and was.data == self._folder.link(citation["path"])
        self.found[key] = (
            Freshness(UNKNOWN, why="it is a link, of which a commit has the name alone") if is_link else found
        )

    def _follow(self, repository: Repository) -> None:
        """Find out where files have gone."""
        paths = [citation["path"] for citation in self._missing.values()]
        renamed, known = repository.renamed(paths)
        moved = self._among_untracked(repository, known - renamed.keys())
        tracked = self._tracked(repository, renamed.values()) if renamed else set()
        for key, citation in self._missing.items():
            path = citation["path"]
            place = renamed.get(path, "")
            if place not in tracked:
                place = "" if citation.get("lines") else moved.get((path, str(citation.get("sha256"))), "")
            if not place:
                self.found[key] = (
                    Freshness(GONE) if path in known else Freshness(UNKNOWN, why="it was never in this repository")
                )
                continue
            text = self._text(key, place)
            if text is not None and citation.get("sha256"):
                state, where, _ = _compare_text(text, citation)
                self.found[key] = Freshness(state, f"{place}:{where}" if where else place)
            elif text is not None:
                self.found[key] = Freshness(UNKNOWN, place, "it has no hash")

    def _among_untracked(self, repository: Repository, paths: Collection[str]) -> dict[tuple[str, str], str]:
        """Return where these files were moved by hand, by their paths and hashes.

        A file that git does not track yet counts if its bytes are those of the last commit; other files are not
        reported.
        """
        names = {f"HEAD:{path}": path for path in paths}
        blobs = repository.blobs(list(names), MOST_BYTES) if names else ()
        were = {names[name]: comparable(data).digest() for name, data in blobs if data}  # all empty files are alike
        moved: dict[tuple[str, str], str] = {}
        assert self._folder is not None
        for place in repository.untracked()[:_UNTRACKED] if were else ():
            if time.monotonic() > self._until:
                break
            try:
                text = self._folder.read(place)
            except (Outside, NoFile, TooLarge, OSError):
                continue
            if text is not None:
                sha256 = text.digest()
                moved |= {(path, sha256): place for path, was in were.items() if was == sha256}
        return moved


def _compare_text(text: FileText, citation: CitationFields) -> Freshness:
    """Return what became of a citation with a hash, in a file that may be the one it had or where that has gone."""
    lines, sha256 = str(citation.get("lines") or ""), citation["sha256"]
    if text.digest(lines) == sha256:
        return Freshness(FRESH)
    place = text.place_of(lines, sha256) if lines else ""
    return Freshness(FRESH, place) if place else Freshness(CHANGED)
