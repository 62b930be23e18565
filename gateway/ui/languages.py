"""Say the page in the reader's language. The texts of the templates are looked up as these are compiled.

A language is a file `messages/LANGUAGE.json`, from each English text to its own: of the text between two tags or
expressions, of titles, labels and placeholders, and of strings in expressions that are words for people. A text that is
missing there stays English; a test names it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

ENGLISH: Final = "en"
FOLDER: Final = Path(__file__).parent / "messages"
_SAID: Final = frozenset({"title", "aria-label", "placeholder", "alt"})  # attributes that people read
_KEPT: Final = frozenset({"code", "kbd", "pre"})  # elements whose text is no language
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][\w-]*)")
_ATTRIBUTE: Final = re.compile(r"([\w-]+)\s*=\s*$")
_CODE: Final = re.compile(r"/|\w:\w")  # addresses, and triggers of htmx
_WORDS: Final = re.compile(r"[^\W\d_]{2}")


def read_messages(folder: Path = FOLDER) -> Mapping[str, Mapping[str, str]]:
    """Return the tables by their languages; English, of which the texts are, has none."""
    tables = {file.stem: msgspec.json.decode(file.read_bytes(), type=dict[str, str]) for file in folder.glob("*.json")}
    return {ENGLISH: {}, **dict(sorted(tables.items()))}


def choose_language(wanted: str, accepted: str, known: Mapping[str, object]) -> str:
    """Return the language that somebody has chosen, else the first of those that a browser accepts, else English."""
    if wanted in known:
        return wanted
    for entry in accepted.split(","):
        language = entry.partition(";")[0].strip().partition("-")[0].lower()
        if language in known:
            return language
    return ENGLISH


def is_for_people(text: str) -> bool:
    """Say whether a string in an expression is a text for people, rather than a word that the page compares."""
    says = " " in text.strip() or text[:1].isupper()
    return says and _WORDS.search(text) is not None and _CODE.search(text) is None


class TemplateTexts:
    """Finds the texts in the pieces of a template, which may begin and end within a tag."""

    def __init__(self, messages: Mapping[str, str]) -> None:
        self.messages = messages
        self.seen: set[str] = set()
        self._in_tag = False
        self._quote = ""
        self._attribute = ""
        self._kept = 0

    def say(self, text: str) -> str:
        """Return a text as the table has it, with the white space around it."""
        said = " ".join(text.split())
        if not _WORDS.search(said):
            return text
        self.seen.add(said)
        if said not in self.messages:
            return text
        begin, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
        return f"{begin}{self.messages[said]}{end}"

    def translate(self, piece: str) -> str:
        """Return a piece of markup with its texts as the table has them."""
        said, at = [], 0
        while at < len(piece):
            end = self._end_of_part(piece, at)
            part = piece[at:end]
            is_text = not self._in_tag and not self._kept
            said.append(self.say(part) if is_text or (self._quote and self._attribute in _SAID) else part)
            at = end
            if at < len(piece):
                at += self._pass(piece, at)
                said.append(piece[end:at])
        return "".join(said)

    def _end_of_part(self, piece: str, at: int) -> int:
        ends = self._quote or ('>"' if self._in_tag else "<")
        places = [place for sign in ends if (place := piece.find(sign, at)) >= 0]
        return min(places, default=len(piece))

    def _pass(self, piece: str, at: int) -> int:
        """Note what begins or ends at a sign, and return how many characters belong to it."""
        if self._quote:
            self._quote = ""
        elif not self._in_tag:
            tag = _TAG.match(piece, at)
            self._in_tag = tag is not None or piece.startswith("<!", at)
            if tag is not None and tag[2] in _KEPT:
                self._kept += -1 if tag[1] else 1
            return len(tag[0]) if tag else 1
        elif piece[at] == ">":
            self._in_tag = False
        else:
            found = _ATTRIBUTE.search(piece, 0, at)
            self._quote, self._attribute = '"', found[1] if found else ""
        return 1


class Messages(Extension):
    """Looks the texts of a template up in the table of its environment, which `use_messages` has set."""

    table: Mapping[str, str] = {}

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Yield the tokens of a template with its texts in another language."""
        texts = TemplateTexts(self.table)
        for token in stream:
            if token.type == "data":
                yield Token(token.lineno, token.type, texts.translate(token.value))
            elif token.type == "string" and is_for_people(token.value):
                yield Token(token.lineno, token.type, texts.say(token.value))
            else:
                yield token


def extension_for(table: Mapping[str, str]) -> type[Messages]:
    """Return the extension of an environment that says its templates by this table."""
    return type("MessagesOf", (Messages,), {"table": table})
