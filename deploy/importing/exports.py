"""What readers of exports share: the entries they yield, values as fields of a memory take them, opening archives."""

import contextlib
import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from engramq.deploy.importing.records import Given, Rejection
from engramq.schemas import limits
from engramq.schemas.ids import format_time
from engramq.schemas.packed_lines import UnusableFile


@dataclass(frozen=True, slots=True)
class Node:
    """A thing that the export names, which becomes a node of the knowledge graph; where it stands."""

    name: Any
    label: Any
    line: int
    file: str = ""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What graph_add_node takes."""
        return {"name": self.name, "label": self.label}


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two things by their names, which becomes an edge of the knowledge graph; where it stands.

    `label`: of an end that the export has no node for; None leaves it to the graph.
    """

    source: Any
    target: Any
    relation: Any
    line: int
    file: str = ""
    label: str | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        """What graph_add_edge takes."""
        return {"source_name": self.source, "target_name": self.target, "relation": self.relation}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not brought in, by a rule of its format: `what`, in the plural, and `one` of it."""

    what: str
    one: str


Found: TypeAlias = Given | Rejection | Node | Edge | LeftOut


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose for conversations: to have the other messages too, and to trust what was said."""

    all_messages: bool = False
    trusted: bool = False


# Reads a file or folder from its beginning, each time that it is called. Raises UnusableFile, also midway.
Reader: TypeAlias = Callable[[Path, Choices], Iterator[Found]]


_DIGEST_BYTES: Final = 16


def moment(given: object) -> str | None:
    """Return a time, a text or seconds since 1970, as a field takes it; None for what says nothing.

    A text that is no time is returned as it is, so that its row is rejected by name.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return format_time(datetime.fromtimestamp(given, UTC))
        except (OverflowError, OSError, ValueError):
            return str(given)
    return given if isinstance(given, str) and given.strip() else None


def own_id(kind: str, *parts: object) -> str:
    """Return an external id: the format's name and what is unique in it; a long one ends in a digest of all of it."""
    whole = ":".join((kind, *map(str, parts)))
    if len(whole) <= limits.NAME_CHARS:
        return whole
    digest = hashlib.blake2b(whole.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{whole[: limits.NAME_CHARS - len(digest) - 1]}#{digest}"


def tags(*given: object) -> list[str]:
    """Return the distinct words of lists and texts, in their order; of a text with commas each part. At most 50."""
    found: dict[str, None] = {}
    for one in given:
        several = one if isinstance(one, list) else str(one).split(",") if isinstance(one, str) else []
        found |= dict.fromkeys(word for each in several if (word := str(each).strip().removeprefix("#")))
    return list(found)[: limits.TAGS]


def without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}


_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip archive; a damaged one is one too."""
    with path.open("rb") as raw:
        return raw.read(4) == b"PK\x03\x04"


def members(path: Path, name: re.Pattern[str]) -> list[str]:
    """Return the files of an archive or folder whose own name is such a one, in order; [""] for a file by itself.

    Symbolic links of a folder are passed over. Raises UnusableFile.
    """
    if path.is_dir():
        return sorted(one.name for one in path.iterdir() if name.fullmatch(one.name) and _is_plain(one))
    if not is_archive(path):
        return [""]
    with _refusing_damage(), zipfile.ZipFile(path) as archive:
        return sorted(one for one in archive.namelist() if name.fullmatch(one.rpartition("/")[2]))


@contextlib.contextmanager
def opened(path: Path, member: str) -> Iterator[IO[bytes]]:
    """Open one of the `members`; damages that show while it is read are raised as UnusableFile, too."""
    with _refusing_damage():
        if member and not path.is_dir():
            with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
                yield stream
        else:
            with (path / member if member else path).open("rb") as file:
                yield file


def opened_all(path: Path, name: re.Pattern[str], wanted: str) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield each of the `members`, opened, with its name; raises UnusableFile when there is none.

    `wanted`: what is looked for, as it is told then.
    """
    found = members(path, name)
    if not found:
        raise UnusableFile(f"There is no {wanted} in it.")
    for member in found:
        with opened(path, member) as stream:
            yield member, stream


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextlib.contextmanager
def _refusing_damage() -> Iterator[None]:
    try:
        yield
    except _DAMAGES as problem:
        raise UnusableFile(f"The archive is damaged, cut off or locked: {problem}.") from None
    except OSError as problem:
        raise UnusableFile(f"The file cannot be read: {problem.strerror or problem}.") from None
