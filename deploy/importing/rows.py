"""Prepare the rows of an import: check them, know them again by what they say, split long ones, make batches."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET

from engramq.deploy.importing.exports import LeftOut
from engramq.deploy.importing.fields import ENDS, SINCE, UNTIL, WHEN
from engramq.deploy.importing.records import CONTENT, NAMESPACE, RECORD_FIELDS, TAGS, Rejection, UncheckedRow, rejection
from engramq.deploy.local.hooks.turns import split as split_text
from engramq.deploy.local.hooks.turns import storable
from engramq.gateway.mcp.arguments import AROUND, check_arguments, problem_in, without_absent
from engramq.gateway.redaction import Redaction
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, ImportRecord, NewMemory, Original
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.fields import NAMES, NOT_IN_NAMES, OFFSETS, TURNING
from engramq.schemas.ids import uuid7
from engramq.schemas.vocabulary import SYSTEM_NAMESPACE

_HASH_BYTES: Final = 8  # two of a million are mixed up with a chance of 1 to 10^7; the later one counts as repeated
_FOREIGN: Final = re.compile("[\udc80-\udcff]").search
_DEFAULTS: Final[dict[str, Any]] = {
    field.name: field.default for field in msgspec.structs.fields(NewMemory) if not field.required
}


class Identities:
    """Tells the rows of one file apart: equal ones by how many of them stand before."""

    def __init__(self) -> None:
        self._said = Counter[int]()  # by their first bytes: a million take some 100 MB

    def of(self, namespace: str, record: ImportRecord) -> bytes:
        """Return the identity of the next row.

        An external id is one by itself. Else it is the digest of namespace and record, whatever the order of its keys
        and whether it writes defaults out, and for a record that was there before of its number too.
        """
        if record.external_id is not UNSET:
            return digest_texts("external_id", namespace, record.external_id)
        said = digest_texts("record", namespace, canonical(record))
        known_as = int.from_bytes(said[:_HASH_BYTES])
        self._said[known_as] = number = self._said[known_as] + 1
        return said if number == 1 else digest_texts("again", said.hex(), str(number - 1))


def canonical(record: ImportRecord) -> str:
    """Return what a record says, in one form for all that say the same: a time is that in any offset."""
    said = {
        name: value
        for name, value in record.given.items()
        if value != _DEFAULTS.get(name) and value not in ((), {}) and name not in OFFSETS.values()
    }
    return msgspec.json.encode(said, order="deterministic").decode()


def digest_texts(*texts: str) -> bytes:
    """Return a digest of texts, which differs wherever one of them does."""
    return hashlib.blake2b(msgspec.json.encode(texts), digest_size=limits.IDENTITY_BYTES).digest()


def pieces(values: dict[str, Any], rest: ImportRecord, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield what a row with a long text says of each piece.

    All say what the row says. Their thread is the row's; where it has none, one that is made of its external_id, or
    of what it says, so that it is the same in another import. Positions count from the row's, or from 0. An
    external_id gets #1, #2 and so on behind it. `rest` is the checked row with another text.
    """
    content = values["content"]
    if rest.thread is not UNSET:
        thread = rest.thread
    elif rest.external_id is not UNSET:
        thread = f"split:{digest_texts(namespace, rest.external_id).hex()}"
    else:
        thread = f"split:{digest_texts(namespace, canonical(rest), content).hex()}"
    first = 0 if rest.position is UNSET else rest.position
    for number, piece in enumerate(split_text(content, limits.CONTENT_CHARS)):
        said = {**values, "content": piece, "thread": thread, "position": first + number}
        if rest.external_id is not UNSET:
            said["external_id"] = f"{rest.external_id}#{number + 1}"
        yield said


HELD_BATCHES: Final = 8


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A checked record: the line on which it begins, whose it is, what is to be stored, by what it is known again.

    `file`: the one of a folder. `original`: the memory that it was exported from.
    """

    line: int
    namespace: str
    record: ImportRecord
    identity: bytes
    file: str = ""
    original: Original | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RowBatch:
    """Rows of one namespace that are stored together, once for one `key`: tries to send them share it.

    `named`: rows with external ids, which an update may change.
    """

    namespace: str
    rows: tuple[CheckedRow, ...]
    key: str
    named: bool


@dataclass(slots=True)
class Secrets:
    """Whether secrets are left out of what goes in, and how many were."""

    left_out: bool = True
    found: int = 0


# Fields without which a row comes in if they cannot be read: its text is worth more.
_DATE: Final = LeftOut("dates that cannot be read (their rows are in)", "date that cannot be read (its row is in)")
_NAME: Final = LeftOut("threads or speakers that cannot be taken", "thread or speaker that cannot be taken")
SPARE: Final = {
    WHEN: _DATE,
    ENDS: _DATE,
    SINCE: _DATE,
    UNTIL: _DATE,
    "speaker": _NAME,
    "thread": _NAME,
    TAGS: LeftOut("lists of tags that cannot be taken (their rows are in)", "list of tags that cannot be taken"),
    "metadata": LeftOut(
        "properties that cannot be taken (their rows are in)", "set of properties that cannot be taken"
    ),
}
_TAG: Final = LeftOut("tags that cannot be taken (their rows are in)", "tag that cannot be taken (its row is in)")
TURNED: Final = LeftOut("marks in names that turn text around", "mark in a name that turns text around")
_OWN_SPARE: Final = (WHEN,)  # of rows in our own form, which somebody can correct


def check_rows(
    records: Iterable[UncheckedRow | Rejection],
    namespace: str,
    *,
    one_namespace: bool,
    split: bool = False,
    secrets: Secrets | None = None,
    foreign: bool = False,
) -> Iterator[CheckedRow | Rejection | LeftOut]:
    """Check what each row says.

    `namespace` is for rows that name none; with `one_namespace` it is for all rows, whatever they name. `split`: a text
    that is too long becomes several records of one thread. `secrets`: counts those that are left out. `foreign`:
    another program has written them, so that all that is in SPARE is spared.
    """
    spare = SPARE if foreign else _OWN_SPARE
    secrets = secrets or Secrets()
    identities = Identities()
    for given in records:
        if isinstance(given, Rejection):
            yield given
            continue
        content = given.values.get(CONTENT)
        if foreign and isinstance(content, str):
            given.values[CONTENT] = storable(content)
        yield from [TURNED] * _drop_turning(given.values)
        tags = given.values.get(TAGS)
        if foreign and isinstance(tags, list):
            given.values[TAGS] = kept = list(filter(_is_tag, tags))[: limits.TAGS]
            yield from [_TAG] * (len(tags) - len(kept))
        try:
            own = given.values.pop(NAMESPACE, None)
            own = namespace if own is None else own
            _check_namespace(own)
            _check_namespace(namespace)
            whose = namespace if one_namespace else own
            checked, without = _check(given.values, whose, spare, split=split, secrets=secrets)
        except EngramqError as refused:
            yield rejection(given.line, refused, given.file)
            continue
        for name in without:
            yield SPARE[name]
        for number, (record, known_by) in enumerate(checked):
            original = None if number else given.original  # the first piece of a text that is split corrects it
            yield CheckedRow(given.line, whose, record, identities.of(whose, known_by), given.file, original)


def _drop_turning(values: dict[str, Any]) -> int:
    """Take marks that turn text around out of names, since older releases let them in; return how many there were."""
    dropped = 0
    for name in values.keys() & {*NAMES, TAGS}:
        several = values[name] if isinstance(values[name], list) else [values[name]]
        pairs = [TURNING.subn("", each) if isinstance(each, str) else (each, 0) for each in several]
        if found := sum(count for _, count in pairs):
            kept = [each for each, _ in pairs]
            values[name] = kept if isinstance(values[name], list) else kept[0]
            dropped += found
    return dropped


def _is_tag(word: Any) -> bool:
    if not isinstance(word, str) or NOT_IN_NAMES.search(word) or problem_in(word) is not None:
        return False
    return 0 < len(word.strip()) <= limits.NAME_CHARS


def _check(
    values: dict[str, Any], namespace: str, spare: Collection[str], *, split: bool, secrets: Secrets
) -> tuple[list[tuple[ImportRecord, ImportRecord]], list[str]]:
    """Return the records of a row as `_kept_and_known` does, and the fields that they come without."""
    without: list[str] = []
    while True:
        found = secrets.found
        try:
            return _kept_and_known(values, namespace, split=split, secrets=secrets), without
        except EngramqError as refused:
            name = re.split(r"[^a-z_]", str(refused.fault.field))[0]
            if name not in spare or name not in values:
                raise
            secrets.found = found
            without.append(name)
            values = {key: value for key, value in values.items() if key != name}


def _kept_and_known(
    values: dict[str, Any], namespace: str, *, split: bool, secrets: Secrets
) -> list[tuple[ImportRecord, ImportRecord]]:
    """Return the records that a row is, each with what it is known again by.

    That is what it says without its secrets, also where they are kept: so a row is the same under every setting, and no
    digest lets anybody try passwords.
    """
    redaction = Redaction()
    if secrets.left_out:
        kept = _without_secrets(values, namespace, split=split, redaction=redaction)
        secrets.found += redaction.count
        return [(record, record) for record in kept]
    kept = _check_record(values, namespace, split=split)
    if kept[0].external_id is not UNSET:  # which is what it is known by
        return [(record, record) for record in kept]
    try:
        known = _without_secrets(values, namespace, split=split, redaction=redaction)
    except EngramqError:  # not looked through in time: with secrets left out it would not go in
        known = []
    return [(record, known[number] if number < len(known) else record) for number, record in enumerate(kept)]


def _without_secrets(
    values: dict[str, Any], namespace: str, *, split: bool, redaction: Redaction
) -> list[ImportRecord]:
    content = values.get(CONTENT)
    # Before it is split: half of a key is not known for one.
    if isinstance(content, str) and (split or len(content.strip()) <= limits.CONTENT_CHARS):
        values = {**values, CONTENT: redaction.of_text(content)}
    return [redaction.of_rest(record) for record in _check_record(values, namespace, split=split)]


def _check_record(values: dict[str, Any], namespace: str, *, split: bool) -> list[ImportRecord]:
    """Return the records that a row is: one, unless its text is split."""
    content = values.get(CONTENT)
    if not isinstance(content, str) or len(content) <= limits.CONTENT_CHARS:
        return [_record(values)]
    text = content.strip()
    if split and len(text) > limits.CONTENT_CHARS:
        return [_record(piece) for piece in pieces(values, _record({**values, CONTENT: "-"}), namespace)]
    if split and text:
        return [_record({**values, CONTENT: text})]
    try:
        return [_record(values)]
    except EngramqError as refused:
        if refused.fault.field != CONTENT:
            raise
        told = f"{refused.fault.error} --split makes several memories of it."
        raise invalid(CONTENT, told) from None


def _record(values: dict[str, Any]) -> ImportRecord:
    # Exports of other tools write null for what is not known.
    tool = TOOLS["store_memory"]
    # Bytes of a CSV file that are no UTF-8 come as halves of surrogate pairs.
    foreign = (name for name, text in values.items() if isinstance(text, str) and not text.isascii() and _FOREIGN(text))
    if (name := next(foreign, None)) is not None:
        raise invalid(name, f"{name} is no UTF-8: save the file as UTF-8 (Excel calls it CSV UTF-8), then import it.")
    given = without_absent(tool, {name: value for name, value in values.items() if value is not None})
    for name in AROUND:
        if name in given:
            raise invalid(name, f"A record has no field {name}.")
    checked = check_arguments(tool, given).parameters
    # What the row leaves out stays out: an update changes only what is named.
    named = given.keys() | {OFFSETS[name] for name in OFFSETS.keys() & given.keys()}
    return ImportRecord(**{name: getattr(checked, name) for name in named & RECORD_FIELDS})


def _check_namespace(name: Any) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > limits.NAME_CHARS or problem_in(name) is not None:
        raise invalid(NAMESPACE, f"namespace must be a text of 1 to {limits.NAME_CHARS} characters that is not blank.")
    if name == SYSTEM_NAMESPACE:
        raise invalid(NAMESPACE, f"The namespace {name!r} is engramq's own.")


def _chars_beside(record: ImportRecord) -> int:
    """Return about how many characters a record has beside its content."""
    return len(msgspec.json.encode(record.metadata)) if record.metadata else 0


def make_batches(
    rows: Iterable[CheckedRow | Rejection | LeftOut], size: int, chars: int
) -> Iterator[RowBatch | Rejection | LeftOut]:
    """Put rows of one namespace together, in their order: at most `size` rows and about `chars` characters each.

    A batch is of rows with external ids or of rows without. Unfinished ones are held for several namespaces at once,
    HELD_BATCHES times `size` rows in all.
    """
    waiting: dict[tuple[str, bool], list[CheckedRow]] = {}
    lengths: dict[tuple[str, bool], int] = {}
    held = 0
    for row in rows:
        if not isinstance(row, CheckedRow):
            yield row
            continue
        whose = row.namespace, row.record.external_id is not UNSET
        mine = waiting.setdefault(whose, [])
        mine.append(row)
        lengths[whose] = lengths.get(whose, 0) + len(row.record.content) + _chars_beside(row.record)
        held += 1
        if len(mine) >= size or lengths[whose] >= chars:
            ready = whose
        elif held > HELD_BATCHES * size:
            ready = max(waiting, key=lambda whose: len(waiting[whose]))
        else:
            continue
        held -= len(waiting[ready])
        del lengths[ready]
        yield _batch(waiting.pop(ready))
    for rest in waiting.values():
        yield _batch(rest)


def _batch(rows: list[CheckedRow]) -> RowBatch:
    named = rows[0].record.external_id is not UNSET
    return RowBatch(rows[0].namespace, tuple(rows), f"import:{uuid7()}", named)
