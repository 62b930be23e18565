"""The items of a JSON document one after the other, in bounded memory: of a list, or of a list within an object."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import IO, Any, Final

from engramq.deploy.importing.records import LINE, Given, Rejection
from engramq.schemas.packed_lines import UnusableFile

CHUNK_CHARS: Final = 64 * 1024
ITEM_CHARS: Final = 64 * 1024 * 1024  # one conversation of an export; longest known: some 10 million
# An error so close to the end of what was read may be one that more text mends, as of a cut number or escape.
_EDGE_CHARS: Final = 16
_OPEN_TEXT: Final = "Unterminated string"
_CUT: Final = "The file ends too early: it is cut off within its JSON. Nothing of it can be relied on."
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


def items(stream: IO[bytes], *keys: str) -> Iterator[Given | Rejection]:
    """Yield the objects of the document, each with its line; what is no object is a rejection.

    The document is a list, or an object that has a list under one of the `keys`. Raises UnusableFile when it is
    neither, no JSON, or cut off, maybe after some items.
    """
    text = _Text(stream)
    if text.peek() == "{":
        _go_to_list(text, keys)
    if text.peek() != "[":
        raise UnusableFile("The file is no JSON list.")
    text.take()
    while text.peek() != "]":
        line = text.line
        value = text.value()
        yield Given(line, value) if isinstance(value, dict) else Rejection(line, LINE, "The item is no JSON object.")
        if text.peek() == ",":
            text.take()
            if text.peek() == "]":
                raise text.broken("a comma before the end of the list")
        elif text.peek() != "]":
            raise text.broken("no comma between two items")


def first_item(stream: IO[bytes]) -> Any:
    """Return the first item of a document that is a list; None when there is none. Raises UnusableFile."""
    text = _Text(stream)
    return _first(text) if text.peek() == "[" else None


def first_member(stream: IO[bytes], *keys: str) -> tuple[set[str], Any]:
    """Return the keys of an object up to one of the `keys` that has a list, and the first item of that, else None.

    Raises UnusableFile, also for a document that is no object.
    """
    text = _Text(stream)
    if text.peek() != "{":
        raise UnusableFile("The file is no JSON object.")
    passed = set[str]()
    for key in _members(text, keys):
        passed.add(key)
        if key in keys and text.peek() == "[":
            return passed, _first(text)
    return passed, None


def _first(text: "_Text") -> Any:
    text.take()
    return None if text.peek() == "]" else text.value()


def _go_to_list(text: "_Text", keys: tuple[str, ...]) -> None:
    if not any(key in keys and text.peek() == "[" for key in _members(text, keys)):
        wanted = " or ".join(repr(key) for key in keys)
        raise UnusableFile(f"The JSON object has no list {wanted}." if keys else "The file is no JSON list.")


def _members(text: "_Text", keys: tuple[str, ...]) -> Iterator[str]:
    """Yield each key of an object, up to one of the `keys` that has a list; other values are passed over."""
    text.take()
    while text.peek() != "}":
        key = text.value()
        if not isinstance(key, str) or text.peek() != ":":
            raise text.broken("no key where one is due")
        text.take()
        yield key
        if key in keys and text.peek() == "[":
            return
        text.value()
        if text.peek() == ",":
            text.take()
        elif text.peek() != "}":
            raise text.broken("no comma between two members")


class _Text:
    """The text of a document, of which as much is held as one value needs; `line`: that of the next character."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._held = ""
        self._at = 0
        self._ended = False
        self.line = 1

    def peek(self) -> str:
        """Return the next character that is no white space; raises UnusableFile at the end."""
        while True:
            blank = _BLANK.match(self._held, self._at)
            self._pass(blank.end() if blank else self._at)
            if self._at < len(self._held):
                return self._held[self._at]
            if not self._read(CHUNK_CHARS):
                raise UnusableFile(_CUT)

    def take(self) -> None:
        """Pass over the character that `peek` has returned."""
        self._pass(self._at + 1)

    def value(self) -> Any:
        """Return the next value; raises UnusableFile for what is none."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._held, self._at)
            except json.JSONDecodeError as problem:
                if not self._may_go_on(problem):
                    raise self.broken(problem.msg) from None
            except RecursionError:
                raise self.broken("nested too deeply") from None
            else:
                if end < len(self._held) or not self._read(CHUNK_CHARS):  # a number may go on
                    self._pass(end)
                    return value

    def _may_go_on(self, problem: json.JSONDecodeError) -> bool:
        """Read on where the value may only be cut at the end of what is held; twice as much each time."""
        held = len(self._held) - self._at
        if not problem.msg.startswith(_OPEN_TEXT) and problem.pos < len(self._held) - _EDGE_CHARS:
            return False
        if held > ITEM_CHARS:
            raise self.broken(f"an item of more than {ITEM_CHARS} characters")
        if not self._read(max(held, CHUNK_CHARS)):
            raise UnusableFile(_CUT)
        return True

    def broken(self, why: str) -> UnusableFile:
        """Return what to raise for text that is no JSON."""
        return UnusableFile(f"The file is no JSON near line {self.line}: {why}.")

    def _pass(self, to: int) -> None:
        self.line += self._held.count("\n", self._at, to)
        self._at = to

    def _read(self, size: int) -> bool:
        """Hold more, and nothing that has been passed; say whether there was more."""
        self._held, self._at = self._held[self._at :], 0
        before = len(self._held)
        while not self._ended and len(self._held) < before + size:
            data = self._stream.read(size)
            self._ended = not data
            try:
                self._held += self._decode(data, self._ended)
            except UnicodeDecodeError:
                raise UnusableFile("The file is no text in UTF-8.") from None
        return len(self._held) > before
