"""Secrets taken out of what is to be kept, before it is queued: keys, tokens and passwords.

Some of detect-secrets' detectors take the square of a text's length, so that each sees pieces, which overlap, and only
where a text has what they cannot do without. One budget holds for all texts of a command.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from engramq.gateway.detection import KEYWORD, detectors, may_have, tokens
from engramq.gateway.known_tokens import IN_ADDRESS, Place, in_addresses, known_tokens
from engramq.gateway.passwords import MARK, SHORTEST, has_name, is_secret_value, passwords
from engramq.gateway.private_keys import without_private_keys
from engramq.schemas import limits
from engramq.schemas.commands import Command, ImportBatch, ImportMemories, ImportRow, StoreMemory, UpdateMemory
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.contents import KEY, contents_of, fields_holding
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.records import Memory
from engramq.schemas.settings import Redact

# CPU seconds for all texts of a command, once, and again for each so many characters: usual texts take a sixth of it.
BUDGET_S: Final = 2.0
_BUDGET_CHARS: Final = 1024 * 1024
# Pieces in characters, each beginning where half of the one before ends: no secret of half a piece falls between two.
_PIECE: Final = 4_000
_BLANKS: Final = re.compile(r" {2,}+")
_MARK: Final = re.compile(rf"{re.escape(MARK)}[^\]]*\]")
_QUOTES: Final = frozenset("'\"`")
_LONG_WORD: Final = re.compile(r"[\w\-]{24}")  # the least that a detector of keys behind names finds
_TO_WORDS_END: Final = re.compile(r"[\w\-]*+", re.ASCII)

# What is looked through beside the content: all that somebody writes of a memory, but for the keys that find it again.
_KEPT: Final = {"content", *fields_holding(Memory, KEY)}
_FIELDS: Final = tuple(name for name in contents_of(Memory) if name not in _KEPT)

C = TypeVar("C", bound=msgspec.Struct)
M = TypeVar("M", bound=NewMemory)
T = TypeVar("T")


def _always_go_on() -> None:
    """Say nothing: who asked cannot have gone."""


@dataclass(slots=True)
class Redaction:
    """Takes the secrets out of the texts of one command, and counts them; raises EngramqError when that takes too long.

    `clock`: CPU seconds of this thread, so that a busy machine refuses nothing. `go_on` is called now and then, and
    raises when nobody waits any more.
    """

    clock: Callable[[], float] = time.thread_time
    go_on: Callable[[], object] = _always_go_on
    found: int = 0
    _until: float | None = field(init=False, default=None)

    def of_memory(self, memory: M) -> M:
        """Return a memory without the secrets in its content and in what else was written about it."""
        return self.of_rest(msgspec.structs.replace(memory, content=self.of_text(memory.content)))

    def of_rest(self, memory: M) -> M:
        """Return a memory without the secrets that it has beside its content.

        Raises EngramqError for one that the marks make too large.
        """
        redacted = self._of_fields(memory, _FIELDS)
        if len(memory.content) > limits.CONTENT_CHARS:
            raise _too_large("content")
        return redacted

    def of_update(self, update: UpdateMemory) -> UpdateMemory:
        """Return an update without the secrets in what it sets, and in the tags that it takes away as they are kept."""
        return self._of_fields(update, (*_FIELDS, "add_tags", "remove_tags"))

    def _of_fields(self, command: C, names: Iterable[str]) -> C:
        before = self.found
        changed: dict[str, Any] = {}
        for name in names:
            match getattr(command, name, UNSET):
                case dict() as metadata:
                    changed[name] = self.of_metadata(metadata)
                case str() as text:
                    changed[name] = self._of_name(text, name)
                case tuple() as texts:
                    changed[name] = tuple(self._of_name(text, name) for text in texts)
        return command if self.found == before else msgspec.structs.replace(command, **changed)

    def _of_name(self, text: str, name: str) -> str:
        return self.of_text(text, name)[: limits.NAME_CHARS]

    def of_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return metadata without secrets; what stands under a name such as password is one."""
        before = self.found
        kept: dict[str, Any] = self._of_value(metadata)
        if self.found > before and len(msgspec.json.encode(kept)) > limits.METADATA_BYTES:
            raise _too_large("metadata")
        return kept

    def of_text(self, text: str, name: str = "content") -> str:
        """Return a text with a mark in the place of each secret; `name` is the parameter that it came in."""
        self._allow(len(text))
        text, keys = without_private_keys(text)
        self.found += keys
        return self._marked(text, list(self._places(text, name)))

    def _places(self, text: str, name: str) -> Iterator[Place]:
        """Give the places of secrets, the kinds that tell most first; some overlap."""
        folded = text.casefold()
        yield from self._in_budget(known_tokens(text, folded), name)
        secrets: dict[str, str] = {}
        for kind, one in detectors().anywhere:
            if may_have(kind, text, folded):
                for piece in self._pieces(text, name):
                    secrets.update((secret, kind) for secret in tokens(kind, one, piece))
        for place in self._in_budget(in_addresses(text), name):
            secrets.setdefault(text[place.start : place.end], place.kind)
            yield place
        if has_name(folded):
            behind = self._behind_names(text, name, secrets)
            yield from self._everywhere(text, secrets, name)
            yield from behind
            secrets = {text[place.start : place.end]: KEYWORD for place in behind}
        yield from self._everywhere(text, secrets, name)

    def _behind_names(self, text: str, name: str, secrets: dict[str, str]) -> list[Place]:
        """Return the places of passwords, and add to `secrets` the keys that only the names before them tell."""
        places: list[Place] = []
        begin = 0
        for line in text.splitlines(keepends=True):
            if has_name(line.casefold()):
                self._in_time(name)
                squeezed = _BLANKS.sub(" ", line)
                for kind, one in detectors().behind_names if _LONG_WORD.search(squeezed) else ():
                    self._in_time(name)
                    secrets.update((secret, kind) for secret in tokens(kind, one, squeezed))
                for start, end in self._in_budget(passwords(line.rstrip("\r\n")), name):
                    places.append(Place(begin + start, begin + end, KEYWORD))
            begin += len(line)
        return places

    def _everywhere(self, text: str, secrets: dict[str, str], name: str) -> Iterator[Place]:
        """Give all places of secrets that were found somewhere."""
        for secret, kind in secrets.items():
            at = text.find(secret) if len(secret) >= SHORTEST else -1
            while at >= 0:
                self._in_time(name)
                end = at + len(secret)
                if kind not in {KEYWORD, IN_ADDRESS}:
                    end = _end_of_word(text, end)
                    yield Place(at, end, kind)
                elif _stands_alone(text, at, end, kind):
                    yield Place(at, end, kind)
                at = text.find(secret, end)

    def _marked(self, text: str, places: list[Place]) -> str:
        """Return a text with one mark in the place of secrets that overlap, of the kind that was told first."""
        rank = {kind: number for number, kind in reversed(list(enumerate(place.kind for place in places)))}
        kept: list[str] = []
        at = number = 0
        place: Place | None = None
        for one in sorted(places):
            if place is not None and one.start < place.end:
                kind = min(place.kind, one.kind, key=rank.__getitem__)
                place = Place(place.start, max(place.end, one.end), kind)
                continue
            if place is not None:
                kept += text[at : place.start], _mark(place.kind)
                at, number = place.end, number + 1
            place = one
        if place is not None:
            kept += text[at : place.start], _mark(place.kind)
            at, number = place.end, number + 1
        self.found += number
        return "".join([*kept, text[at:]])

    def _pieces(self, text: str, name: str) -> Iterator[str]:
        for start in range(0, max(1, len(text) - _PIECE // 2), _PIECE // 2):
            self._in_time(name)
            yield text[start : start + _PIECE]

    def _in_budget(self, found: Iterator[T], name: str) -> Iterator[T]:
        for one in found:
            self._in_time(name)
            yield one

    def _allow(self, chars: int) -> None:
        """Begin the time of the command at its first text, and add what a text of this length may take."""
        until = self.clock() + BUDGET_S if self._until is None else self._until
        self._until = until + BUDGET_S * chars / _BUDGET_CHARS

    def _in_time(self, name: str) -> None:
        self.go_on()
        if self._until is not None and self.clock() > self._until:
            raise invalid(
                name,
                f"{name} could not be looked through for secrets in time.",
                "Store it in shorter parts; or the operator sets ENGRAMQ_REDACT=off.",
            )

    def _of_value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._of_value(one, name) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._of_value(one, key) for one in value]
        if not isinstance(value, str | int | float):
            return value
        kept = self.of_text(value, "metadata") if isinstance(value, str) else value
        if not is_secret_value(key, value) or (isinstance(kept, str) and _MARK.fullmatch(kept)):
            return kept
        self.found += kept == value
        return _mark(KEYWORD)


def _end_of_word(text: str, at: int) -> int:
    """Return where the word ends that goes on at a place: of some tokens a detector knows a part."""
    found = _TO_WORDS_END.match(text, at)
    return at if found is None else found.end()


def _stands_alone(text: str, start: int, end: int, kind: str) -> bool:
    """Say whether a password stands at a place, not a part of another word.

    One that is a word stands in sentences too, where it is none.
    """
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if text[start:end].isalpha():
        return (
            (before, after) == (":", "@")
            if kind == IN_ADDRESS
            else bool(before and after) and {before, after} <= _QUOTES
        )
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")


def _mark(kind: str) -> str:
    return f"{MARK}{kind}]"


def _too_large(name: str) -> EngramqError:
    return invalid(name, f"{name} is too large with a mark in the place of each secret.", "Leave the secrets out.")


class Redacted(NamedTuple):
    """A command without the secrets in the memories that it brings, and how many there were."""

    command: Command
    secrets: int = 0


def redacted(command: Command, wanted: Redact, go_on: Callable[[], object] = _always_go_on) -> Redacted:
    """Return a command without the secrets in its memories, if it is of those that are wanted without.

    Raises EngramqError naming the parameter, and of a batch the row, that could not be looked through in time; where
    rows have faults of their own that is one. `go_on`: see Redaction.
    """
    redaction = Redaction(go_on=go_on)
    if isinstance(command, StoreMemory) and wanted is Redact.ALL:
        return Redacted(redaction.of_memory(command), redaction.found)
    if isinstance(command, UpdateMemory) and wanted is Redact.ALL:
        return Redacted(redaction.of_update(command), redaction.found)
    if isinstance(command, ImportBatch) and wanted is not Redact.OFF:
        records = []
        for index, record in enumerate(command.records):
            try:
                records.append(redaction.of_memory(record))
            except EngramqError as refusal:
                raise invalid(f"records[{index}]", refusal.fault.error, refusal.fault.recovery) from None
        return Redacted(msgspec.structs.replace(command, records=tuple(records)), redaction.found)
    if isinstance(command, ImportMemories) and wanted is not Redact.OFF:
        rows = tuple(_redacted_row(redaction, row) for row in command.records)
        return Redacted(msgspec.structs.replace(command, records=rows), redaction.found)
    return Redacted(command)


def _redacted_row(redaction: Redaction, row: ImportRow) -> ImportRow:
    before = redaction.found
    try:
        if row.fault is UNSET:
            return redaction.of_memory(row)
        # An error may quote what was given.
        texts = {name: text for name in ("field", "error") if isinstance(text := getattr(row.fault, name), str)}
        told = {name: redaction.of_text(text, name) for name, text in texts.items()}
        row = ImportRow(fault=msgspec.structs.replace(row.fault, **told))
    except EngramqError as refusal:
        row = ImportRow(fault=refusal.fault)
    redaction.found = before  # nothing of the row is kept
    return row


def brings_memories(command: Command, wanted: Redact) -> bool:
    """Say whether `redacted` has to look at a command."""
    imports = (ImportBatch, ImportMemories)
    kinds = {Redact.OFF: (), Redact.IMPORTS: imports, Redact.ALL: (*imports, StoreMemory, UpdateMemory)}
    return isinstance(command, kinds[wanted])
