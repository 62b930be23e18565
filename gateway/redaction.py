"""Take secrets out of what is to be kept, before it is queued: keys, tokens and passwords."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from engramq.gateway.secret_names import MARK, is_secret_value
from engramq.gateway.secret_patterns import KEYWORD, SecretSpan, secrets_in, without_private_keys
from engramq.schemas import limits
from engramq.schemas.commands import Command, ImportBatch, ImportMemories, ImportRow, StoreMemory, UpdateMemory
from engramq.schemas.commands.memories import NewMemory
from engramq.schemas.contents import KEY, contents_of, fields_holding
from engramq.schemas.evidence import PATH_CHARS, URL_CHARS, Citation
from engramq.schemas.faults import EngramqError, invalid
from engramq.schemas.records import Memory
from engramq.schemas.settings import Redact

_MARK: Final = re.compile(rf"{re.escape(MARK)}[^\]]*\]")

# Searched beside the content: all fields that an author writes, except the keys that find the memory again.
_KEPT: Final = {"content", *fields_holding(Memory, KEY)}
_FIELDS: Final = tuple(name for name in contents_of(Memory) if name not in _KEPT)

_IMPORTS: Final = (ImportBatch, ImportMemories)
# The commands out of whose memories secrets are taken.
WITH_MEMORIES: Final[Mapping[Redact, tuple[type[Command], ...]]] = {
    Redact.OFF: (),
    Redact.IMPORTS: _IMPORTS,
    Redact.ALL: (*_IMPORTS, StoreMemory, UpdateMemory),
}

C = TypeVar("C", bound=msgspec.Struct)
M = TypeVar("M", bound=NewMemory)


def _always_go_on() -> None:
    """Say nothing: who asked cannot have gone."""


@dataclass(slots=True)
class Redaction:
    """Takes the secrets out of the texts of one command, and counts them.

    `go_on` is called before each text, and raises when nobody waits any more.
    """

    go_on: Callable[[], object] = _always_go_on
    count: int = 0

    def of_memory(self, memory: M) -> M:
        """Return a memory without the secrets in its content and in what else was written about it.

        Raises EngramqError for one that the marks make too large, or give a form that no memory has.
        """
        before = self.count
        redacted = self.of_rest(msgspec.structs.replace(memory, content=self.of_text(memory.content)))
        return redacted if self.count == before else _check_form(redacted)

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
        before = self.count
        redacted = self._of_fields(update, (*_FIELDS, "add_tags", "remove_tags"))
        return redacted if self.count == before else _check_form(redacted)

    def _of_fields(self, command: C, names: Iterable[str]) -> C:
        before = self.count
        changed: dict[str, Any] = {}
        for name in names:
            match getattr(command, name, UNSET):
                case dict() as metadata:
                    changed[name] = self.of_metadata(metadata)
                case str() as text:
                    changed[name] = self._of_name(text)
                case (Citation(), *_) as cited:
                    changed[name] = tuple(self._of_citation(citation) for citation in cited)
                case tuple() as texts:
                    changed[name] = tuple(self._of_name(text) for text in texts)
        return command if self.count == before else msgspec.structs.replace(command, **changed)

    def _of_name(self, text: str) -> str:
        return self.of_text(text)[: limits.NAME_CHARS]

    def _of_citation(self, citation: Citation) -> Citation:
        return msgspec.structs.replace(
            citation,
            path=citation.path and self.of_text(citation.path)[:PATH_CHARS],
            url=citation.url and _MARK.sub(_mark_in_address, self.of_text(citation.url))[:URL_CHARS],
        )

    def of_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return metadata without secrets; what stands under a name such as password is one."""
        before = self.count
        kept: dict[str, Any] = self._of_value(metadata)
        if self.count > before and len(msgspec.json.encode(kept)) > limits.METADATA_BYTES:
            raise _too_large("metadata")
        return kept

    def of_text(self, text: str) -> str:
        """Return a text with a mark in the place of each secret."""
        self.go_on()
        text, keys = without_private_keys(text)
        self.count += keys
        return self._put_marks(text, secrets_in(text))

    def _put_marks(self, text: str, places: list[SecretSpan]) -> str:
        """Return a text with one mark in the place of secrets that overlap, of the kind that was listed first."""
        rank = {kind: number for number, kind in reversed(list(enumerate(place.kind for place in places)))}
        merged: list[SecretSpan] = []
        for place in sorted(places):
            if merged and place.start < merged[-1].end:
                last = merged.pop()
                kind = min(last.kind, place.kind, key=rank.__getitem__)
                place = SecretSpan(last.start, max(last.end, place.end), kind)  # noqa: PLW2901 - both in one
            merged.append(place)
        self.count += len(merged)
        parts: list[str] = []
        at = 0
        for place in merged:
            parts += text[at : place.start], _mark(place.kind)
            at = place.end
        return "".join([*parts, text[at:]])

    def _of_value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._of_value(item, name) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._of_value(item, key) for item in value]
        if not isinstance(value, str | int | float):
            return value
        kept = self.of_text(value) if isinstance(value, str) else value
        if not is_secret_value(key, value) or (isinstance(kept, str) and _MARK.fullmatch(kept)):
            return kept
        self.count += kept == value
        return _mark(KEYWORD)


def _mark_in_address(mark: re.Match[str]) -> str:
    """Return a mark as an address can have it: with neither blanks nor brackets, `redacted-github-token`."""
    return "-".join(re.findall(r"\w+", mark[0])).lower()


def _mark(kind: str) -> str:
    return f"{MARK}{kind}]"


def _check_form(command: C) -> C:
    """Return a command that a worker can read. Raises EngramqError naming what the marks have spoilt."""
    try:
        return msgspec.convert(msgspec.to_builtins(command), type(command))
    except msgspec.ValidationError as problem:
        name = str(problem).rpartition("`$.")[2].rstrip("`") or "content"
        said = f"{name} cannot be kept with a mark in the place of each secret."
        raise invalid(name, said, "Leave the secrets out.") from None


def _too_large(name: str) -> EngramqError:
    return invalid(name, f"{name} is too large with a mark in the place of each secret.", "Leave the secrets out.")


class Redacted(NamedTuple):
    """A command without the secrets in the memories that it brings, and how many there were."""

    command: Command
    secrets: int = 0


def redact_command(command: Command, wanted: Redact, go_on: Callable[[], object] = _always_go_on) -> Redacted:
    """Return a command without the secrets in its memories, if it is of those that are wanted without.

    Raises EngramqError naming the parameter, and of a batch the row, that its marks make too large; where rows have
    faults of their own that is one. `go_on`: see Redaction.
    """
    redaction = Redaction(go_on=go_on)
    if not isinstance(command, WITH_MEMORIES[wanted]):
        return Redacted(command)
    if isinstance(command, StoreMemory):
        return Redacted(redaction.of_memory(command), redaction.count)
    if isinstance(command, UpdateMemory):
        return Redacted(redaction.of_update(command), redaction.count)
    if isinstance(command, ImportBatch):
        records = []
        for index, record in enumerate(command.records):
            try:
                records.append(redaction.of_memory(record))
            except EngramqError as refusal:
                raise invalid(f"records[{index}]", refusal.fault.error, refusal.fault.recovery) from None
        return Redacted(msgspec.structs.replace(command, records=tuple(records)), redaction.count)
    assert isinstance(command, ImportMemories)
    rows = tuple(_redacted_row(redaction, row) for row in command.records)
    return Redacted(msgspec.structs.replace(command, records=rows), redaction.count)


def _redacted_row(redaction: Redaction, row: ImportRow) -> ImportRow:
    before = redaction.count
    try:
        if row.fault is UNSET:
            return redaction.of_memory(row)
        # An error may quote what was given.
        texts = {name: text for name in ("field", "error") if isinstance(text := getattr(row.fault, name), str)}
        told = {name: redaction.of_text(text) for name, text in texts.items()}
        row = ImportRow(fault=msgspec.structs.replace(row.fault, **told))
    except EngramqError as refusal:
        row = ImportRow(fault=refusal.fault)
    redaction.count = before  # nothing of the row is kept
    return row
