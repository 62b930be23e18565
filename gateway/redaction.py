"""Secrets taken out of what is to be kept, before it is queued: keys, tokens and passwords.

Some detectors take the square of a text's length or worse, so that each sees short pieces, which overlap, and only
where a text has what they cannot do without.
"""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from engramq.gateway.detection import (
    KEYWORD,
    MARK,
    SHORT,
    SHORTEST,
    all_of,
    detectors,
    first_word,
    has_name,
    is_password,
    may_have,
    names_a_secret,
    places_of,
    tokens,
)
from engramq.gateway.private_keys import without_private_keys
from engramq.schemas import limits
from engramq.schemas.commands import Command, ImportBatch, ImportMemories, ImportRow, StoreMemory, UpdateMemory
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.settings import Redact

BUDGET_S: Final = 2.0  # for each 32 KB begun: a usual text of that length takes 20 ms
# Pieces in characters, each beginning where half of the one before ends: no secret of half a piece falls between two.
_LONG: Final = 4_000  # JSON web tokens have up to 2,000; beside SHORT

M = TypeVar("M", bound=NewMemory)


@dataclass(slots=True)
class Redaction:
    """Takes the secrets out of one memory's texts, and counts them; raises EngramqError when that takes too long."""

    clock: Callable[[], float] = time.monotonic
    found: int = 0
    _until: float = field(init=False, default=0.0)

    def of_memory(self, memory: M) -> M:
        """Return a memory without the secrets in its content, tags, speaker and the values of its metadata."""
        return self.of_rest(msgspec.structs.replace(memory, content=self.of_text(memory.content)))

    def of_rest(self, memory: M) -> M:
        """Return a memory without the secrets that it has beside its content.

        Raises EngramqError for one that the marks make too large.
        """
        before = self.found
        changed: dict[str, Any] = {}
        if memory.metadata is not UNSET:
            changed["metadata"] = self.of_metadata(memory.metadata)
        if memory.speaker is not UNSET:
            changed["speaker"] = self.of_text(memory.speaker, "speaker")[: limits.NAME_CHARS]
        if memory.tags is not UNSET:
            changed["tags"] = tuple(self.of_text(tag, "tags")[: limits.NAME_CHARS] for tag in memory.tags)
        if len(memory.content) > limits.CONTENT_CHARS:
            raise _too_large("content")
        return memory if self.found == before else msgspec.structs.replace(memory, **changed)

    def of_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return metadata without secrets; what stands under a name such as password is one."""
        before = self.found
        kept: dict[str, Any] = self._of_value(metadata)
        if self.found > before and len(msgspec.json.encode(kept)) > limits.METADATA_BYTES:
            raise _too_large("metadata")
        return kept

    def of_text(self, text: str, name: str = "content") -> str:
        """Return a text with a mark in the place of each secret; `name` is the parameter that it came in."""
        self._until = self.clock() + BUDGET_S * (1 + len(text) // limits.CONTENT_CHARS)
        made, folded = detectors(), text.casefold()
        text, keys = without_private_keys(text)
        self.found += keys
        for kind, one in made.anywhere:
            if may_have(kind, text, folded):
                secrets = {secret for piece in self._pieces(text, _LONG, name) for secret in tokens(kind, one, piece)}
                text = self._without(text, secrets, kind)
        return self._without_named(text, name) if has_name(folded) else text

    def _without_named(self, text: str, name: str) -> str:
        """Take out what only the names before it tell: passwords, and some keys."""
        made = detectors()
        passwords: set[str] = set()
        keys: dict[str, set[str]] = {}
        for line in text.splitlines():
            if not has_name(line.casefold()):
                continue
            for piece in self._pieces(line, SHORT, name):
                for kind, one in made.behind_names:
                    keys.setdefault(kind, set()).update(tokens(kind, one, piece))
                for patterns, told in ((made.quoted, all_of), (made.unquoted, first_word)):
                    for pattern, group in patterns.items():
                        passwords.update(self._passwords(piece, pattern, group, told, name))
        for kind, found in keys.items():
            text = self._without(text, found, kind)
        return self._without(text, passwords, KEYWORD)

    def _passwords(
        self, piece: str, pattern: re.Pattern[str], group: int, told: Callable[[str], str], name: str
    ) -> Iterator[str]:
        at = 0
        while (found := pattern.search(piece, at)) is not None:
            self._in_time(name)
            value = told(found[group])
            at = found.start(group) + max(1, len(value))
            if is_password(value):
                yield value

    def _without(self, text: str, secrets: set[str], kind: str) -> str:
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST:
                text, number = re.subn(places_of(secret, kind), _mark(kind), text)
                self.found += number
        return text

    def _pieces(self, text: str, size: int, name: str) -> Iterator[str]:
        for start in range(0, max(1, len(text) - size // 2), size // 2):
            self._in_time(name)
            yield text[start : start + size]

    def _in_time(self, name: str) -> None:
        if self.clock() > self._until:
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
        if not isinstance(value, str):
            return value
        if is_password(value) and names_a_secret(key):
            self.found += 1
            return _mark(KEYWORD)
        return self.of_text(value, "metadata")


def _mark(kind: str) -> str:
    return f"{MARK}{kind}]"


def _too_large(name: str) -> EngramqError:
    return invalid(name, f"{name} is too large with a mark in the place of each secret.", "Leave the secrets out.")


class Redacted(NamedTuple):
    """A command without the secrets in the memories that it brings, and how many there were."""

    command: Command
    secrets: int = 0


def redacted(command: Command, wanted: Redact) -> Redacted:
    """Return a command without the secrets in its memories, if it is of those that are wanted without.

    Raises EngramqError naming the parameter, and of a batch the row, that could not be looked through in time; where
    rows have faults of their own that is one.
    """
    redaction = Redaction()
    if isinstance(command, StoreMemory) and wanted is Redact.ALL:
        return Redacted(redaction.of_memory(command), redaction.found)
    if isinstance(command, UpdateMemory) and command.metadata is not UNSET and wanted is Redact.ALL:
        kept = msgspec.structs.replace(command, metadata=redaction.of_metadata(command.metadata))
        return Redacted(kept, redaction.found)
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
