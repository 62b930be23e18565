"""Find sentences that a good reader of English reads twice."""

import re
from collections.abc import Iterator
from typing import Final

MOST_WORDS: Final = 40
FRONTED: Final = re.compile(r"(?:Of|Who|Whoever|What|Whose) [^?]*")  # a question may begin so
PHRASES: Final = re.compile(r"\b(?:told|in vain|ha(?:s|ve) it stay|but for)\b", re.IGNORECASE)
_LEFT_OUT: Final = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
_CELL: Final = re.compile(r"(?<!\\)\|")
_ITEM: Final = re.compile(r"^(?:[-*+]|\d\.) ")
_CODE: Final = re.compile(r"``[^`]+``|`[^`]*`")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_END: Final = re.compile(r"(?<=[.!?])[\"')]?\s+")


def blocks(page: str) -> Iterator[str]:
    """Yield the paragraphs, items of lists and cells of tables of a page in Markdown, without headings and code."""
    paragraph: list[str] = []
    for line in [*_LEFT_OUT.sub("\n\n", page).splitlines(), ""]:
        text = line.strip()
        if not text or text.startswith(("#", "|")) or _ITEM.match(text):
            yield " ".join(paragraph)
            paragraph = []
        if text.startswith("|"):
            yield from (cell.strip() for cell in _CELL.split(text))
        elif text and not text.startswith("#"):
            paragraph.append(_ITEM.sub("", text, count=1))


def sentences(block: str) -> Iterator[str]:
    """Yield the sentences of a block, code and links as their words."""
    plain = _LINK.sub(r"\1", _CODE.sub("code", block)).replace("*", "")
    yield from (sentence for sentence in _END.split(plain) if sentence)


def is_hard(sentence: str) -> bool:
    """Whether it is too long, begins with its object, or uses a phrase that has a plainer word."""
    words = sum(any(letter.isalnum() for letter in word) for word in sentence.split())
    return words > MOST_WORDS or bool(FRONTED.fullmatch(sentence)) or bool(PHRASES.search(sentence))


def hard_sentences(page: str) -> list[str]:
    """Return the sentences of a page that should be written anew."""
    return [sentence for block in blocks(page) for sentence in sentences(block) if is_hard(sentence)]
