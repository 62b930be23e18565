"""The evidence of a memory: files, commits, addresses and other memories, as its author cites them. Pure.

Hashes are made where the files are: by commands, the Python client and hooks, never by the server.
"""

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.fields import CONTROL, COPIED, Moment
from engramq.schemas.ids import parse_uuid
from engramq.schemas.vocabulary import CitationState

CITATIONS: Final = 10  # of a memory
PATH_CHARS: Final = 500
URL_CHARS: Final = 1_000

_PATH: Final = re.compile(r"(?!/|\\|[A-Za-z]:)(?!(?:.*[/\\])?\.\.(?:[/\\]|$)).*\S.*", re.DOTALL)
_ACCOUNT: Final = re.compile(r"^(https?://)[^/?#]*@")  # ada:hunter2x@ in https://ada:hunter2x@example.org
_ABOUT_A_FILE: Final = ("lines", "sha256")


Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", max_length=64)]


class Citation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that a memory rests on: a file (`path`, from the repository's root), a commit, an address, a memory.

    `lines`, as `3` or `3-9`, are what is cited of a file, `sha256` is of these, of a file's own bytes without them.
    """

    path: Annotated[str, Meta(min_length=1, max_length=PATH_CHARS)] | UnsetType = UNSET
    lines: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,6}(-[1-9][0-9]{0,6})?$", max_length=15)] | UnsetType = UNSET
    commit: Annotated[str, Meta(pattern=r"^[0-9a-f]{7,64}$", max_length=64)] | UnsetType = UNSET
    sha256: Sha256 | UnsetType = UNSET
    url: Annotated[str, Meta(pattern=r"^https?://\S+$", max_length=URL_CHARS)] | UnsetType = UNSET
    memory_id: Annotated[str, Meta(min_length=1, max_length=255), COPIED] | UnsetType = UNSET

    def check(self, field: str) -> None:
        """Raise EngramqError naming what of it is wrong, for a parameter of this name."""
        for name in self.__struct_fields__:
            if isinstance(text := getattr(self, name), str) and CONTROL.search(text):
                raise _wrong(f"{field}.{name}", "has a line break, or another control character")
        if self.path is not UNSET:
            refuse_path(self.path, f"{field}.path")
        elif any(getattr(self, name) is not UNSET for name in _ABOUT_A_FILE):
            raise _wrong(field, "says lines or sha256 of no path")
        elif self.commit is UNSET and self.url is UNSET and self.memory_id is UNSET:
            raise _wrong(field, "cites nothing: path, commit, url or memory_id")
        if self.lines is not UNSET and span_of(self.lines)[0] > span_of(self.lines)[1]:
            raise _wrong(f"{field}.lines", "ends before it begins")

    @property
    def as_kept(self) -> dict[str, Any]:
        """The citation as it is stored, what it does not say left out; ids and paths in the form that is compared.

        An address is kept without the user and password in it.
        """
        kept: dict[str, Any] = msgspec.to_builtins(self)
        if self.url is not UNSET:
            kept["url"] = _ACCOUNT.sub(r"\1", self.url)
        if self.path is not UNSET:
            kept["path"] = "/".join(part for part in self.path.split("/") if part not in ("", ".")) or "."
        known = parse_uuid(kept.get("memory_id", ""))
        return kept if known is None else kept | {"memory_id": str(known)}


Evidence = Annotated[
    tuple[Citation, ...],
    Meta(max_length=CITATIONS, description="It rests on: {path, lines: 3-9, commit, sha256, url, memory_id}"),
]


class CheckedCitation(Citation, frozen=True, kw_only=True):
    """A citation as it was read, and what a comparison found; no state of what was not compared."""

    state: CitationState | UnsetType = UNSET


class KeptCitation(Citation, frozen=True, kw_only=True):
    """A citation as it is stored: with what the last comparison found, when, and by whom it was reported."""

    state: CitationState | UnsetType = UNSET
    checked_at: Moment | UnsetType = UNSET
    checked_by: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        """Refuse an id that is none: queries read it as one."""
        if self.memory_id is not UNSET and parse_uuid(self.memory_id) is None:
            raise ValueError("memory_id is no id")


def refuse_path(path: str, field: str) -> None:
    """Raise EngramqError for a path that is not within a repository: an absolute one, or one that climbs out."""
    if not _PATH.fullmatch(path):
        raise _wrong(field, "has to be a path within the repository, from its root")


def span_of(lines: str) -> tuple[int, int]:
    """Return the first and the last line of `3` or `3-9`, counted from 1."""
    first, _, last = lines.partition("-")
    return int(first), int(last or first)


def _wrong(field: str, problem: str) -> EngramqError:
    return invalid("evidence", f"{field} {problem}.")


def kept_evidence(evidence: tuple[Citation, ...] | UnsetType | None) -> list[dict[str, Any]] | None:
    """Return evidence as the column holds it; None where there is none."""
    return [citation.as_kept for citation in evidence or ()] or None


_STATE: Final = frozenset({"state", "checked_at", "checked_by"})


def as_cited(kept: dict[str, Any]) -> dict[str, Any]:
    """Return a stored citation without what comparisons have found: what its author said."""
    return {name: value for name, value in kept.items() if name not in _STATE}


def says_otherwise(evidence: tuple[Citation, ...] | UnsetType, kept: list[dict[str, Any]]) -> bool:
    """Say whether evidence cites something else than what is stored, whatever comparisons have found of that."""
    return (kept_evidence(evidence) or []) != [as_cited(citation) for citation in kept]
