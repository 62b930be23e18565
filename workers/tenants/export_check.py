"""Read an export: check every line against its format, and against the lines before it."""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from engramq.schemas import exports
from engramq.schemas.packed_lines import UTF8_BOM, BrokenOff
from engramq.schemas.vocabulary import Partition
from engramq.workers.tenants.export_rules import ExportRules, RuleBroken

T = TypeVar("T")

FILE: Final = "file"  # the field of a refusal that concerns the file as a whole
LINE: Final = "line"  # and of one that concerns all of a line
TYPE: Final = "type"

_HEAD: Final = msgspec.json.Decoder(exports.Head)
_RECORD: Final = msgspec.json.Decoder(exports.Record | exports.End)
_ORDER: Final = {kind: number for number, kind in enumerate(exports.RECORDS)}
_TYPES: Final = tuple(exports.type_of(kind) for kind in exports.RECORDS)
_PROBLEM: Final = re.compile(r"(?P<reason>.*?)(?: - at `(?:key in )?\$\.?(?P<path>.*)`)?", re.DOTALL)
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
# U+0000, which PostgreSQL keeps in no text; a backslash that is itself escaped begins none.
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class ExportRefused(Exception):
    """An export that is not taken: the first line that is wrong, its field, and why."""

    def __init__(self, line: int, field: str, reason: str) -> None:
        super().__init__(f"line {line}, {field}: {reason}")
        self.line, self.field, self.reason = line, field, reason


@dataclass(frozen=True, slots=True)
class CheckedLine:
    """A record, its line, and the number of that."""

    number: int
    line: bytes
    record: exports.Record


@dataclass(slots=True)
class ExportSummary:
    """The counts of an export: records by type, vectors by model and partition; and a digest of its lines."""

    counts: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_TYPES, 0)))
    vectors: Counter[tuple[exports.EmbeddingModel, Partition]] = field(default_factory=Counter)
    last_audit_id: int = 0
    digest: str = ""


class ExportReader:
    """One reading of an export's lines. `summary` is whole when `records` has ended."""

    def __init__(self, lines: Iterable[bytes], schema: int) -> None:
        """`schema`: the number of this release's last migration; what a later one wrote is refused."""
        self.summary = ExportSummary()
        self._lines = iter(lines)
        self._schema = schema
        self._number = 0
        self._digest = hashlib.blake2b(digest_size=16)

    def head(self) -> exports.Head:
        """Read the first line; raises ExportRefused, UnusableFile."""
        line = (self._next() or b"").removeprefix(UTF8_BOM)
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get(TYPE) != exports.FORMAT:
            raise ExportRefused(1, TYPE, f"no export begins so: the type of its first line is {exports.FORMAT}.")
        for name, own in (
            ("version", exports.VERSION),
            ("schema", self._schema),
        ):  # before what another one may have changed
            if isinstance(found.get(name), int) and found[name] > own:
                raise ExportRefused(
                    self._number, name, f"{found[name]} is of a later release; this one reads up to {own}."
                )
        return self._decode(_HEAD, line)

    def records(self) -> Iterator[CheckedLine]:
        """Yield each record after the head; raises ExportRefused, UnusableFile."""
        with closing(ExportRules()) as rules:
            yield from self._records(rules)

    def _records(self, rules: ExportRules) -> Iterator[CheckedLine]:
        place = 0
        while (line := self._next()) is not None:
            found = self._decode(_RECORD, line)
            if isinstance(found, exports.End):
                self._finish(rules, found)
                return
            if _ORDER[type(found)] < place:
                raise ExportRefused(
                    self._number, TYPE, f"{exports.type_of(found)} stands after {_TYPES[place]}, which comes later."
                )
            place = _ORDER[type(found)]
            self._check(rules, found, closing=place > 0)
            self._note(found)
            yield CheckedLine(self._number, line, found)
        raise ExportRefused(self._number + 1, FILE, "the export was cut off: its last line, of type end, is missing.")

    def _check(self, rules: ExportRules, record: exports.Record | None, *, closing: bool) -> None:
        try:
            if closing:
                rules.end_memories()
            if record is not None:
                rules.check(record, self._number)
        except RuleBroken as problem:
            raise ExportRefused(problem.line or self._number, problem.field, problem.reason) from None

    def _note(self, record: exports.Record) -> None:
        self.summary.counts[exports.type_of(record)] += 1
        if isinstance(record, exports.MemoryRecord) and record.embedding_model is not None:
            self.summary.vectors[record.embedding_model, record.partition] += 1
        elif isinstance(record, exports.AuditRecord):
            self.summary.last_audit_id = record.id

    def _finish(self, rules: ExportRules, end: exports.End) -> None:
        self._check(rules, None, closing=True)
        for kind in {*end.counts, *_TYPES}:
            there, told = self.summary.counts[kind], end.counts.get(kind, 0)
            if there != told:
                reason = f"{told} are announced, {there} are there: lines are missing, or too many."
                raise ExportRefused(self._number, f"counts.{kind}", reason)
        number = self._number
        if self._next() is not None:
            raise ExportRefused(self._number, LINE, f"the export ended with line {number}.")
        self.summary.digest = self._digest.hexdigest()

    def _next(self) -> bytes | None:
        """Return the next line that is not blank; None at the end of the file."""
        try:
            for line in self._lines:
                self._number += 1
                self._digest.update(line)
                if len(line) > exports.LINE_BYTES:
                    raise ExportRefused(self._number, LINE, f"it is longer than {exports.LINE_BYTES} bytes.")
                if line.strip():
                    return line
        except BrokenOff as problem:
            raise ExportRefused(self._number + 1, FILE, str(problem)) from None
        return None

    def _decode(self, decoder: "msgspec.json.Decoder[T]", line: bytes) -> T:
        try:
            decoded = decoder.decode(line)
        except msgspec.ValidationError as problem:
            raise ExportRefused(self._number, *_field_and_reason(str(problem))) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise ExportRefused(self._number, LINE, f"it is no JSON: {problem}.") from None
        except RecursionError:
            raise ExportRefused(self._number, LINE, "it is nested too deeply.") from None
        if b"\\u0000" in line and _NUL.search(line):
            raise ExportRefused(self._number, _with_nul(line), "it has the character U+0000, which no text may have.")
        return decoded


class ExportWatch:
    """Checks the lines of an export while they are written, as reading it back would."""

    def __init__(self, schema: int) -> None:
        """`schema`: as ExportReader has it."""
        self._waiting: deque[bytes] = deque()
        self._reading = ExportReader(self._taken(), schema)
        self._records: Iterator[CheckedLine] | None = None

    def check(self, line: bytes) -> None:
        """Check the next line, the last one with all that came before. Raises ExportRefused."""
        self._waiting.append(line)
        if self._records is None:
            self._reading.head()
            self._records = self._reading.records()
        else:
            next(self._records, None)

    def _taken(self) -> Iterator[bytes]:
        while self._waiting:
            yield self._waiting.popleft()


def _field_and_reason(problem: str) -> tuple[str, str]:
    """Return the field that msgspec complains of, and the reason."""
    found = _PROBLEM.fullmatch(problem)
    assert found is not None
    reason, path = found["reason"], found["path"] or ""
    missing = _MISSING.fullmatch(reason)
    if missing is not None:
        return ".".join(filter(None, (path, missing[1]))), "it is missing."
    if path == TYPE:
        return TYPE, f"{reason}: this release knows no such record."
    return path or LINE, f"{reason}."


def _with_nul(line: bytes) -> str:
    values: dict[str, Any] = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    return next((name for name, value in values.items() if _NUL.search(bytes(value))), LINE)
