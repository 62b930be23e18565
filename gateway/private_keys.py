"""Private keys in a text: they have lines, an end that may be missing, and are spoken of without being there."""

import re
from typing import Final

KEY_MARK: Final = "[redacted: Private Key]"

_HEAD: Final = re.compile(r"(?:-{5})?BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?(?:-{5})?|PuTTY-User-Key-File-[23]")
_FOOT: Final = re.compile(r"-{5}END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-{5}")
# A key without its end goes as far as its headers and what has the letters of base64 (of JSON too, which writes \n): a
# long word, or one that no language has.
_CUT: Final = re.compile(
    r"(?:\s+|-{5}|: \S+"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Encryption|Public-Lines|Private-Lines|Private-MAC)[^\n]*"
    r"|(?=\S*[\d+/=])[\\\w+/=]+(?!\S)|[\\\w+/=]{16,}(?!\S))*"
)
_LINE: Final = re.compile(r"[\\\w+/=]{10,}")  # what a key has at least: else it is only spoken of


def without_private_keys(text: str) -> tuple[str, int]:
    """Return a text with a mark in the place of each private key, and how many there were."""
    if "PRIVATE KEY" not in text and "PuTTY-User-Key-File-" not in text:
        return text, 0
    kept, at, found = "", 0, 0
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, limit in zip(heads, ends, strict=True):
        foot = _FOOT.search(text, head.end(), limit)
        cut = _CUT.match(text, head.end(), limit)
        end = foot.end() if foot is not None else cut.end() if cut is not None else head.end()
        inside = text[head.end() : end if foot is None else foot.start()]
        if _LINE.search(inside) is None:
            continue
        end -= len(inside) - len(inside.rstrip()) if foot is None else 0
        kept, at, found = f"{kept}{text[at : head.start()]}{KEY_MARK}", end, found + 1
    return kept + text[at:], found
