"""Write an export in the form of another program: a folder of Markdown, mem0's JSON, the memory server's lines.

It writes what holds now: memories that are current, the things of the graph and the edges between them. It counts by
name the fields and records that a form cannot hold. A note of the folder keeps in its property `engramq` what Markdown
has no place for, so that an import of the folder is equal.
"""

import contextlib
import hashlib
import json
import re
import secrets
import shutil
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from itertools import starmap
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

from engramq.deploy.importing.fields import ENDS, OFFSET, SINCE, UNTIL, WHEN
from engramq.deploy.importing.notes import SUFFIX
from engramq.deploy.importing.own_notes import OWN, THINGS, heading_of, line_of, original_of
from engramq.deploy.local.new_file import PARTIAL, Unwritable, new_file
from engramq.schemas.exports import ExportForm, ExportFormat
from engramq.schemas.vocabulary import MemoryState, Partition, SectorSource, Verification, Visibility

# Fields of a memory that an import takes under the same name.
_SAID: Final = (
    "external_id", "source_type", "speaker", "thread", "position", "project", SINCE, UNTIL, ENDS,
    "standing", "metadata",
)  # fmt: skip
_CITED: Final = ("path", "lines", "commit", "sha256", "url")
_NAME_CHARS: Final = 60  # of a file
_NO_FILE_NAME: Final = re.compile(r'[\x00-\x1f\\/:*?"<>|#^\[\]]+')
_RESERVED: Final = frozenset({"con", "prn", "aux", "nul"})  # no file is called so on Windows


class Omission(StrEnum):
    """The fields and records for which a form of another program has no place; the page says each in its languages."""

    ARCHIVED = "archived memories"
    CITATIONS = "citations of other memories"
    EDGES = "edges of the graph"
    ENDED_EDGES = "edges that hold no more"
    EVIDENCE = "evidence of memories"
    EXTERNAL_IDS = "external ids of memories"
    LINKS = "links between memories"
    METADATA = "metadata of memories"
    NOT_NOW = "memories that do not hold now"
    OWNERS = "owners of private memories (the principal that imports them owns them then)"
    POSITIONS = "positions of memories"
    PRIVATE = "private memories"
    PRIVATE_EDGES = "private edges"
    PROJECTS = "projects of memories"
    PROPERTIES = "properties of things and edges"
    PROPOSALS = "proposals"
    REJECTED = "rejected memories"
    REPLACED = "memories that another one has replaced"
    SOURCE_TYPES = "source types of memories"
    SPEAKERS = "speakers of memories"
    STANDING = "marks of standing wishes"
    TAGS = "tags of memories"
    THINGS = "things of the graph"
    THREADS = "threads of memories"
    TIMES_ENDS = "times at which memories expire"
    TIMES_SINCE = "times from which memories hold"
    TIMES_UNTIL = "times until which memories hold"
    TIMES_WHEN = "times at which memories happened"
    TRUST = "trust in memories that their source type keeps apart"
    UNTRUSTED = "memories that nobody has looked through"
    VERDICTS = "verdicts on memories"


_OF_FIELDS: Final[Mapping[str, Omission]] = {
    "external_id": Omission.EXTERNAL_IDS,
    "evidence": Omission.EVIDENCE,
    "metadata": Omission.METADATA,
    "position": Omission.POSITIONS,
    "project": Omission.PROJECTS,
    "source_type": Omission.SOURCE_TYPES,
    "speaker": Omission.SPEAKERS,
    "standing": Omission.STANDING,
    "tags": Omission.TAGS,
    "thread": Omission.THREADS,
    ENDS: Omission.TIMES_ENDS,
    SINCE: Omission.TIMES_SINCE,
    UNTIL: Omission.TIMES_UNTIL,
    WHEN: Omission.TIMES_WHEN,
}


def _is_current(record: Mapping[str, Any], left_out: Counter[str]) -> bool:
    if record["superseded_by"] is not None:
        left_out[Omission.REPLACED] += 1
    elif record["state"] == MemoryState.ARCHIVED:
        left_out[Omission.ARCHIVED] += 1
    elif record["verification"] == Verification.REJECTED:
        left_out[Omission.REJECTED] += 1
    else:
        return True
    return False


def _say_when(record: Mapping[str, Any]) -> str | None:
    """Return when it happened, in the offset in which it was said."""
    at: str | None = record[WHEN]
    if not at or not record[OFFSET]:
        return at
    zone = timezone(timedelta(minutes=record[OFFSET]))
    return datetime.fromisoformat(at).astimezone(zone).isoformat()


class _Things:
    """The things of the graph by their ids, and what they are connected to now; held until the end."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: dict[str, list[tuple[str, str]]] = {}  # relations and names of targets, by the id of the source

    def take(self, record: dict[str, Any], left_out: Counter[str]) -> None:
        """Take a node or an edge."""
        if record["type"] == "node":
            self.nodes[record["id"]] = record
        elif record[UNTIL] is not None:
            left_out[Omission.ENDED_EDGES] += 1
        elif record["owner"] is not None:
            left_out[Omission.PRIVATE_EDGES] += 1
        else:
            target = self.nodes[record["target_id"]]["name"]
            self.edges.setdefault(record["source_id"], []).append((record["relation"], target))
        if record["properties"]:
            left_out[Omission.PROPERTIES] += 1


class _FormWriter:
    """The shared part of all forms: it reads lines, and counts records that no form holds."""

    def __init__(self) -> None:
        self.left_out = Counter[str]()
        self.things = _Things()
        self.written = 0
        self.held = 0

    def write(self, line: bytes) -> object:
        """Take one line of an export."""
        record = json.loads(line)
        if record["type"] in ("memory", "node", "edge"):
            self.held += len(line)
        match record["type"]:
            case "memory":
                if _is_current(record, self.left_out):
                    if record["verification"] != Verification.UNVERIFIED:
                        self.left_out[Omission.VERDICTS] += 1
                    self.take_memory(record)
            case "node" | "edge":
                self.things.take(record, self.left_out)
            case "link":
                self.left_out[Omission.LINKS] += 1
            case "proposal":
                self.left_out[Omission.PROPOSALS] += 1
        return None

    def take_memory(self, record: dict[str, Any]) -> None:
        """Write a current memory."""
        raise NotImplementedError

    def finish(self) -> Iterator[None]:
        """Write what is left, a record at a time."""
        raise NotImplementedError

    def close(self) -> int:
        """Write all that is left; return how many records went out."""
        deque(self.finish(), maxlen=0)
        return self.written

    def abort(self) -> None:
        """Let go of an export that is not finished."""

    def leaves_out(self, record: Mapping[str, Any]) -> bool:
        """Say whether a form without trust, privacy and times leaves a memory out, and count why."""
        now = datetime.now(UTC)
        begins, *ends = (at and datetime.fromisoformat(at) for at in (record[SINCE], record[UNTIL], record[ENDS]))
        if record["partition"] == Partition.UNTRUSTED:
            self.left_out[Omission.UNTRUSTED] += 1
        elif record["owner"] is not None:
            self.left_out[Omission.PRIVATE] += 1
        elif (begins and begins > now) or any(end and end <= now for end in ends):
            self.left_out[Omission.NOT_NOW] += 1
        else:
            return False
        return True

    def omit(self, record: Mapping[str, Any], *names: str) -> None:
        """Count fields that say something and have no place in a form."""
        for name in names:
            if record[name] not in (None, {}, []):
                self.left_out[_OF_FIELDS[name]] += 1


class MarkdownForm(_FormWriter):
    """A folder of notes: one for each memory, in a folder by its project, and one for each thing of the graph."""

    def __init__(self, keep: Callable[[PurePosixPath, str], None]) -> None:
        """`keep` keeps a note at its place in the folder, where none is yet."""
        super().__init__()
        self._keep = keep
        self._names = dict[str, int]()  # the last number behind each

    def take_memory(self, record: dict[str, Any]) -> None:
        """Write a note."""
        own = {name: value for name in _SAID if (value := record[name]) not in (None, {}, [])}
        if record["partition"] == Partition.UNTRUSTED:
            own["partition"] = record["partition"]
        elif "source_type" in own:  # which keeps it apart where it is imported, until it is promoted there
            self.left_out[Omission.TRUST] += 1
        if record["confidence"] != 1.0:
            own["confidence"] = record["confidence"]
        if record["owner"] is not None:
            own["visibility"] = Visibility.PRIVATE
            self.left_out[Omission.OWNERS] += 1
        cited = [{name: each[name] for name in _CITED if each.get(name)} for each in record["evidence"] or ()]
        if without := cited.count({}):  # memories have other ids where they are imported
            self.left_out[Omission.CITATIONS] += without
        if any(cited):
            own["evidence"] = list(filter(None, cited))
        if record["sector_source"] == SectorSource.MANUAL:
            own["sector"] = record["sector"]
        own |= original_of(record)
        first = next(line for line in record["content"].splitlines() if line.strip())
        title = "".join(filter(str.isprintable, first)).strip(" #*-")[:_NAME_CHARS] or "note"
        properties = {"title": title, "tags": record["tags"], "created": _say_when(record), OWN: own}
        apart = (own.get("partition"), own.get("visibility"))
        parts = [_file_name(part) for part in (record["project"], *apart) if part]
        self._note(
            [f"{part} -" if part.casefold().endswith(SUFFIX) else part for part in parts],
            title,
            properties,
            record["content"],
        )

    def _note(self, parts: list[str], title: str, properties: Mapping[str, Any], text: str) -> None:
        folder = PurePosixPath(*parts)
        name = self._free_name(folder, _file_name(title))
        # JSON is YAML. Our property is one text, so that no program changes its numbers.
        said = {key: value for key, value in properties.items() if value} | {OWN: json.dumps(properties[OWN])}
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in said.items()]
        # basic-memory wants the blank line.
        self._keep(folder / f"{name}{SUFFIX}", "\n".join(["---", *lines, "---", "", text, ""]))
        self.written += 1

    def _free_name(self, folder: PurePosixPath, wanted: str) -> str:
        """Return a name that no note of the folder has yet: some disks know neither case nor forms of accents."""

        def key(name: str) -> str:
            return unicodedata.normalize("NFC", str(folder / name)).casefold()

        name, number = wanted, self._names.get(key(wanted), 0)
        while key(name) in self._names:
            number += 1
            name = f"{wanted} {number}"
        self._names |= {key(wanted): max(number, 1)}
        self._names.setdefault(key(name), 1)
        return name

    def finish(self) -> Iterator[None]:
        """Write a note for each thing, with what it is connected to."""
        for node in self.things.nodes.values():
            name = node["name"]
            edges = self.things.edges.get(node["id"], [])
            properties = {"title": name, "type": node["label"], OWN: {"thing": name, "edges": edges}}
            self._note([THINGS], name, properties, "\n".join([heading_of(name), "", *starmap(line_of, edges)]))
            yield


class _NoteFolder:
    """Keeps notes in a folder of the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, place: PurePosixPath, text: str) -> None:
        """Write a note."""
        note = self._folder / place
        note.parent.mkdir(parents=True, exist_ok=True)
        with note.open("x", encoding="utf-8", newline="") as file:
            file.write(text)


class ZippedMarkdownForm(MarkdownForm):
    """The same folder in an archive."""

    def __init__(self, out: IO[bytes]) -> None:
        archive = self._archive = ZipFile(out, "w", ZIP_DEFLATED)
        super().__init__(lambda place, text: archive.writestr(str(place), text))

    def finish(self) -> Iterator[None]:
        """Write what is left, and the end of the archive."""
        yield from super().finish()
        self._archive.close()
        yield

    def abort(self) -> None:
        """Leave the archive without its end, which it would write when it is collected, wherever `out` is by then."""
        self._archive.fp = None


def _file_name(text: str) -> str:
    name = _NO_FILE_NAME.sub(" ", text)[:_NAME_CHARS].strip(" .") or "note"
    return f"{name} -" if name.casefold() in _RESERVED else name


class Mem0Form(_FormWriter):
    """The result of mem0's `get_all`: an object with `results`."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__()
        self._out = out
        out.write(b'{"results": [')

    def take_memory(self, record: dict[str, Any]) -> None:
        """Write a memory; its text is of when it happened."""
        if self.leaves_out(record):
            return
        self.omit(record, SINCE, UNTIL, "external_id", "evidence", "source_type", "position", "standing", "project")
        role = record["speaker"] if record["speaker"] in ("user", "assistant") else None
        if role is None:
            self.omit(record, "speaker")
        metadata = record["metadata"] | ({"tags": record["tags"]} if record["tags"] else {})
        at = _say_when(record) or record["created_at"]
        item = {
            "id": record["id"],
            "memory": record["content"],
            "hash": hashlib.md5(record["content"].encode(), usedforsecurity=False).hexdigest(),
            "metadata": metadata or None,
            "created_at": at,
            "updated_at": at,
            "user_id": record["created_by"],
            "run_id": record["thread"],
            "role": role,
            "expiration_date": record[ENDS],
        }
        self._out.write((b",\n" if self.written else b"\n") + json.dumps(item, ensure_ascii=False).encode())
        self.written += 1

    def finish(self) -> Iterator[None]:
        """Write the end."""
        if self.things.nodes:
            self.left_out[Omission.THINGS] += len(self.things.nodes)
        if self.things.edges:
            self.left_out[Omission.EDGES] += sum(map(len, self.things.edges.values()))
        self._out.write(b"\n]}\n")
        yield


class McpMemoryForm(_FormWriter):
    """The lines of MCP's memory server: entities with observations, then relations. They are held, as that server does.

    A memory that came from there is an observation of its entity again, any other one of its project, or of "memories".
    """

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__()
        self._out = out
        self._observed: dict[str, tuple[str, list[str]]] = {}  # kinds and texts of entities, by their names

    def take_memory(self, record: dict[str, Any]) -> None:
        """Keep an observation."""
        if self.leaves_out(record):
            return
        self.omit(record, WHEN, SINCE, UNTIL, ENDS, "external_id", "evidence", "source_type", "speaker", "thread")
        self.omit(record, "position", "standing", "tags")
        entity, kind = record["metadata"].get("entity"), record["metadata"].get("entity_type")
        content = record["content"]
        if isinstance(entity, str) and isinstance(kind, str) and content.startswith(f"{entity}: "):
            content = content.removeprefix(f"{entity}: ")
        else:
            self.omit(record, "metadata")
            entity, kind = (record["project"], "project") if record["project"] else ("memories", "memory")
        self._observed.setdefault(entity, (kind, []))[1].append(content)
        self.written += 1

    def finish(self) -> Iterator[None]:
        """Write entities and relations. That server knows an entity by its name alone."""
        kinds = {name: kind for name, (kind, _) in self._observed.items()}
        for name, kind in (kinds | {node["name"]: node["label"] for node in self.things.nodes.values()}).items():
            observations = self._observed.get(name, (kind, []))[1]
            head = json.dumps({"type": "entity", "name": name, "entityType": kind}, ensure_ascii=False)
            self._out.write(f'{head[:-1]}, "observations": ['.encode())  # piece by piece: all may be of one entity
            for number, text in enumerate(observations):
                self._out.write(f"{', ' if number else ''}{json.dumps(text, ensure_ascii=False)}".encode())
                yield
            self._out.write(b"]}\n")
            yield
        for source, edges in self.things.edges.items():
            for relation, target in edges:
                name = self.things.nodes[source]["name"]
                self._line({"type": "relation", "from": name, "to": target, "relationType": relation})
                yield

    def _line(self, record: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


_FILES: Final[Mapping[ExportFormat, Callable[[IO[bytes]], ExportForm]]] = {
    ExportFormat.MARKDOWN: ZippedMarkdownForm,
    ExportFormat.MEM0: Mem0Form,
    ExportFormat.MCP_MEMORY: McpMemoryForm,
}


def form_into(form: ExportFormat, out: IO[bytes]) -> ExportForm:
    """Return what writes a form of another program as one file, a folder as an archive."""
    return _FILES[form](out)


@contextlib.contextmanager
def opened_form(form: ExportFormat, target: Path) -> Iterator[ExportForm]:
    """Open a form at a path where nothing is yet; it has its name once it is whole. Raises Unwritable."""
    if form != ExportFormat.MARKDOWN:
        with new_file(target) as out:
            yield form_into(form, out)
        return
    if target.exists():
        raise Unwritable(f"{str(target)!r} is there already: give another name, or remove it.")
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}{PARTIAL}")  # of this writer alone
    try:
        unfinished.mkdir(mode=0o700)
        yield MarkdownForm(_NoteFolder(unfinished).keep)
        unfinished.replace(target)
    except OSError as problem:
        raise Unwritable(f"{str(target)!r} cannot be written: {problem.strerror or problem}.") from problem
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
