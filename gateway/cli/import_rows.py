"""From the lines of a JSONL file to batches of checked records, in bounded memory."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.gateway.mcp.arguments import AROUND, check_arguments, without_absent
from engramq.gateway.mcp.parameters import problem_in
from engramq.gateway.mcp.tools import TOOLS
from engramq.schemas import limits
from engramq.schemas.commands import ImportRecord
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE

HELD_BATCHES: Final = 8
LINE: Final = "line"  # the field of a rejection that concerns the line as a whole
NAMESPACE: Final = "namespace"
_RECORD_FIELDS: Final = frozenset(ImportRecord.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Row:
    """A checked line: where it stood, whose it is, what is to be stored."""

    line: int
    namespace: str
    record: ImportRecord


class Rejection(msgspec.Struct, frozen=True):
    """A line that cannot be stored, and why."""

    line: int
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one namespace that are stored together, once for one `key`.

    Rows with an external id (`named`) are known again by it, and say something new when the file is imported again to
    update, or after one was erased: their key is a fresh one. Of other rows the key is the digest of what they say and
    the count of equal batches before, so that the same file brings nothing twice.
    """

    namespace: str
    rows: tuple[Row, ...]
    key: str
    named: bool


def read_rows(lines: Iterable[bytes], namespace: str, *, one_namespace: bool) -> Iterator[Row | Rejection]:
    """Check each line; blank ones are passed over.

    `namespace` is for rows that name none; with `one_namespace` it is for all rows, whatever they name.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield _read_row(number, line, namespace, one_namespace)
        except EngramqError as refused:
            yield Rejection(number, str(refused.fault.field), refused.fault.error)


def _read_row(number: int, line: bytes, namespace: str, one_namespace: bool) -> Row:
    if len(line) > limits.BODY_BYTES:
        raise invalid(LINE, f"The line is longer than {limits.BODY_BYTES} bytes.")
    try:
        given = msgspec.json.decode(line.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise invalid(LINE, f"The line is no JSON: {problem}.") from None
    except RecursionError:
        raise invalid(LINE, "The line is nested too deeply.") from None
    if not isinstance(given, dict):
        raise invalid(LINE, "The line is no JSON object.")
    own = given.pop(NAMESPACE, namespace)
    _check_namespace(own)
    _check_namespace(namespace)
    # Exports of other tools write null for what is not known.
    tool = TOOLS["store_memory"]
    record = without_absent(tool, {name: value for name, value in given.items() if value is not None})
    for name in AROUND:
        if name in record:
            raise invalid(name, f"A record has no field {name}.")
    checked = check_arguments(tool, record).parameters
    # What the row leaves out stays out: an update changes only what is named.
    fields = {name: getattr(checked, name) for name in record.keys() & _RECORD_FIELDS}
    return Row(number, namespace if one_namespace else own, ImportRecord(**fields))


def _check_namespace(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > limits.NAME_CHARS or problem_in(name) is not None:
        raise invalid(NAMESPACE, f"namespace must be a text of 1 to {limits.NAME_CHARS} characters that is not blank.")
    if name == SYSTEM_NAMESPACE:
        raise invalid(NAMESPACE, f"The namespace {name!r} is engramq's own.")


def make_batches(rows: Iterable[Row | Rejection], size: int, chars: int) -> Iterator[Batch | Rejection]:
    """Put rows of one namespace together, in their order: at most `size` rows and about `chars` characters each.

    A batch is of rows with external ids or of rows without. Unfinished ones are held for several namespaces at once,
    HELD_BATCHES times `size` rows in all.
    """
    waiting: dict[tuple[str, bool], list[Row]] = {}
    made: Counter[str] = Counter()
    held = 0
    for row in rows:
        if isinstance(row, Rejection):
            yield row
            continue
        whose = row.namespace, row.record.external_id is not UNSET
        mine = waiting.setdefault(whose, [])
        mine.append(row)
        held += 1
        if len(mine) >= size or sum(len(one.record.content) for one in mine) >= chars:
            ready = whose
        elif held > HELD_BATCHES * size:
            ready = max(waiting, key=lambda whose: len(waiting[whose]))
        else:
            continue
        held -= len(waiting[ready])
        yield _batch(waiting.pop(ready), made)
    for rest in waiting.values():
        yield _batch(rest, made)


def _batch(rows: list[Row], made: Counter[str]) -> Batch:
    """Make a batch; `made` counts the equal ones of rows without external ids."""
    namespace, named = rows[0].namespace, rows[0].record.external_id is not UNSET
    if named:
        return Batch(namespace, tuple(rows), f"import:{uuid7()}", named)
    digest = hashlib.blake2b(namespace.encode(), digest_size=24)
    for row in rows:
        digest.update(b"\n" + msgspec.json.encode(row.record, order="deterministic"))
    said = digest.hexdigest()
    key = f"import:{said}:{made[said]}"
    made[said] += 1
    return Batch(namespace, tuple(rows), key, named)
