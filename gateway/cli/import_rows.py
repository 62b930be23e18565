"""From the lines of a JSONL file to batches of checked records, in bounded memory."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.mcp.arguments import check_arguments
from gateway.mcp.texts import text_problem
from gateway.mcp.tools import TOOLS
from schemas import limits
from schemas.commands import NewMemory
from schemas.faults import EngramqError, invalid

HELD_BATCHES: Final = 8
LINE: Final = "line"  # the field of a rejection that concerns the line as a whole
NAMESPACE: Final = "namespace"
_RECORD_FIELDS: Final = NewMemory.__struct_fields__
_ENVELOPE_FIELDS: Final = ("session", "idempotency_key")  # a call's, not a record's


@dataclass(frozen=True, slots=True)
class Row:
    """A checked line: where it stood, whose it is, what is to be stored."""

    line: int
    namespace: str
    record: NewMemory


class Rejection(msgspec.Struct, frozen=True):
    """A line that cannot be stored, and why."""

    line: int
    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one namespace that are stored together. `key` is the digest of what they say, so that it is once only."""

    namespace: str
    rows: tuple[Row, ...]
    key: str


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
    # Exports of other tools write null for what is not known.
    record = {name: value for name, value in given.items() if value is not None}
    for name in _ENVELOPE_FIELDS:
        if name in record:
            raise invalid(name, f"A record has no field {name}.")
    checked = check_arguments(TOOLS["store_memory"], record).parameters
    fields = {name: getattr(checked, name) for name in _RECORD_FIELDS}
    return Row(number, namespace if one_namespace else own, NewMemory(**fields))


def _check_namespace(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > limits.NAME_CHARS or text_problem(name) is not None:
        raise invalid(NAMESPACE, f"namespace must be a text of 1 to {limits.NAME_CHARS} characters that is not blank.")


def make_batches(rows: Iterable[Row | Rejection], size: int, chars: int) -> Iterator[Batch | Rejection]:
    """Put rows of one namespace together, in their order: at most `size` rows and about `chars` characters each.

    Unfinished batches are held for several namespaces at once, HELD_BATCHES times `size` rows in all.
    """
    waiting: dict[str, list[Row]] = {}
    held = 0
    for row in rows:
        if isinstance(row, Rejection):
            yield row
            continue
        mine = waiting.setdefault(row.namespace, [])
        mine.append(row)
        held += 1
        if len(mine) >= size or sum(len(one.record.content) for one in mine) >= chars:
            ready = row.namespace
        elif held > HELD_BATCHES * size:
            ready = max(waiting, key=lambda namespace: len(waiting[namespace]))
        else:
            continue
        held -= len(waiting[ready])
        yield _batch(waiting.pop(ready))
    for rest in waiting.values():
        yield _batch(rest)


def _batch(rows: list[Row]) -> Batch:
    digest = hashlib.blake2b(digest_size=24)
    for row in rows:
        digest.update(msgspec.json.encode(row.record, order="deterministic") + b"\n")
    return Batch(rows[0].namespace, tuple(rows), f"import:{digest.hexdigest()}")
