"""Find passwords by the name before them: `password: hunter2x`, `"api_key": "..."`, metadata under `pin` or `apiKey`.

Every pattern takes time in proportion to a text's length.
"""

import re
from collections.abc import Iterator
from typing import Final

from engramq.schemas.patterns import compile_late

SHORTEST: Final = 6  # characters of a secret: what is shorter stands everywhere in a text
_SHORTEST_PIN: Final = 3  # with a digit, where a key of metadata says what it is
MARK: Final = "[redacted: "  # then the kind of secret, and a bracket

# One of these stands, in small letters, in every line that has a name of a secret.
NAMES: Final = ("key", "pass", "kennwort", "pw", "secret", "token", "contrase", "authorization", "schlüssel")
_NAME_CHARS: Final = 250  # that a name may go on behind the words by which it is known

_HEAD_CHARS: Final = 300  # of a name and the sign behind it
_KNOWN: Final = (
    r"(?:api|auth)[ _-]?key|api[ _-]?token|(?:service|account|db|database|priv|private|client)[_-]?key"
    r"|(?:db|database|key)_?pass|passwor[dt]|kennwort|api[ -]?schlüssel"
    r"|passwd|pwd(?!=/)|secret(?:[_-]{1,2}key)?|(?:[_-]|api|cloudant)pw(?![a-z])"
    r"|(?:sl|cloudant|api)[_-]?pass(?![a-z])|contrase(?:ñ|n)a|passphrase|passcode"
)
_AT_ITS_END: Final = r"authorization|(?:access|signing|encryption)[_-]?key|(?:access|auth|refresh|bearer)[_-]?token"
_NAME: Final = (
    rf"(?<!\[redacted: )(?:(?:{_KNOWN})\w{{0,{_NAME_CHARS}}}+(?<!_name)(?<!_file)(?<!_path)|(?:{_AT_ITS_END})(?!\w))"
)
_QUOTE: Final = r"\\?[\"'`]"  # \" in JSON that is a text of JSON
_ASSIGNED: Final = compile_late(
    rf"{_NAME}[\]\\'\"]{{0,3}}+\s*+(?::=|={{1,3}}>?|->|!==?|:)\s*+@?({_QUOTE})?", re.IGNORECASE
)
# "value" == password
_BEHIND: Final = compile_late(rf"([\"'`])\s*+[!=]{{2,3}}\s*+(?=\w{{0,{_NAME_CHARS}}}?(?:{_KNOWN}))")
# Of Authorization.
_SCHEME: Final = compile_late(r"(?:bearer|basic|digest|token|bot|apikey|key)\s++(?=\S)", re.IGNORECASE)
_TO_QUOTE: Final = {quote: compile_late(rf"(?:[^\\{quote}]++|\\.)*+(?={quote})") for quote in "\"'`"}
_WORD: Final = compile_late(r"[^ \t\r\n,;\"'`)\]}]*+")
_CALL: Final = compile_late(r"[^\W\d][\w.]*+[(\[]")  # password = db.Column(db.String(120)), not a password
_DIGIT: Final = compile_late(r"\d")
_LETTER: Final = compile_late(r"[^\W\d_]")
# So long, or with capitals such, that no language has it.
_NO_WORD: Final = compile_late(r"[\w+=-][\w+/=-]{39,}+|(?=[\w-]*?[a-z][A-Z])(?=[\w-]*?[A-Z]{2})[\w-]{16,}+")
_NUMBER: Final = compile_late(r"\d{6,}+")

_WORDS: Final = "password|passwd|secret|api_?key|token|(?<![a-z])key"
_LONGEST_WORDS: Final = 250  # characters of a placeholder, whose pattern takes the square of them
# What documentation writes in the place of a password: your_secret_key_here, ${PASSWORD}, <token>, ****.
_PLACEHOLDER: Final = compile_late(
    rf"[a-z_\-]*(?:{_WORDS})[a-z_\-]*|\$[A-Z_][A-Z0-9_]*|\$?\{{[^}}]*\}}+|%[({{]?\w*[)}}]?s?%?|\$?\([^)]*\)|<[^>]*>?|[*.xX•…]+|pass|\[[^\]]*\]?",
    re.IGNORECASE | re.ASCII,
)
_VARIABLE: Final = compile_late(r"[A-Z]++(?:_[A-Z]++)++")  # the name of one: ENGRAMQ_REDIS_URL_FILE


def has_name(folded: str) -> bool:
    """Say whether a line in small letters may name a secret."""
    return any(name in folded for name in NAMES)


def is_password(value: str, shortest: int = SHORTEST) -> bool:
    """Say whether what stands where a password does is one: no placeholder, and not too short."""
    if len(value) < shortest or value.startswith(MARK):
        return False
    return len(value) > _LONGEST_WORDS or (_PLACEHOLDER.fullmatch(value) or _VARIABLE.fullmatch(value)) is None


def passwords(line: str) -> Iterator[tuple[int, int]]:
    """Give where in a line the passwords begin and end, whole however long they are; some twice, in any order."""
    at = 0
    while (head := _ASSIGNED.search(line, at)) is not None:
        at = head.end()
        told = _find_quoted(line, at, head[1]) if head[1] else None
        start, end = told or _word(line, at)
        if told is None:  # another name may stand where the word ends: auth_key=db_password = "value"
            at = max(at, end - _HEAD_CHARS)
        if _is_made(line[start:end], is_quoted=told is not None):
            yield start, end
    for tail in _BEHIND.finditer(line):
        start = line.rfind(tail[1], 0, tail.start()) + 1
        if start and is_password(line[start : tail.start()]):
            yield start, tail.start()


def _find_quoted(line: str, at: int, quote: str) -> tuple[int, int] | None:
    """Return where a value begins and ends whose quote ends at `at`; None where no quote closes it."""
    if len(quote) == 1:
        found = _TO_QUOTE[quote].match(line, at)
        end = -1 if found is None else found.end()
    else:
        end = line.find(quote, at)
    if end < 0:
        return None
    scheme = _SCHEME.match(line, at, end)
    return (at if scheme is None else scheme.end()), end


def _word(line: str, at: int) -> tuple[int, int]:
    """Return where a value without quotes begins and ends: a word, empty where it is code."""
    scheme = _SCHEME.match(line, at)
    at = at if scheme is None else scheme.end()
    if _CALL.match(line, at) is not None:
        return at, at
    found = _WORD.match(line, at)
    return at, at if found is None else at + len(found[0].rstrip("."))


def _is_made(value: str, *, is_quoted: bool) -> bool:
    """Say whether a value is a password: without quotes only one that is no word of a language."""
    if not is_quoted:
        is_mixed = _DIGIT.search(value) is not None and _LETTER.search(value) is not None
        if not is_mixed and _NO_WORD.fullmatch(value) is None and _NUMBER.fullmatch(value) is None:
            return False
    return is_password(value)


# Of metadata, whose names stand for themselves: by the words of a name, or by those that it ends in.
_WORD_OF_KEY: Final = compile_late(r"[A-Z]?[a-z]++|[A-Z]++(?![a-z])|\d++|[^\W\d_]++")
_LAST_WORDS: Final = frozenset(
    (
        "token",
        "authorization",
        "pin",
        "pw",
        "pwd",
        "passwd",
        "password",
        "passphrase",
        "passcode",
        "secret",
        "otp",
        "cvv",
    )
)
_ANY: Final = compile_late(_KNOWN, re.IGNORECASE)
_ENDING: Final = compile_late(rf"(?:{_KNOWN}|{_AT_ITS_END})\Z", re.IGNORECASE)


def is_secret_value(key: str, value: str | float) -> bool:
    """Say whether what stands under a key of metadata is a password: under password, apiKey, pin, access-token.

    A number is one only under a name that ends so: not under password_days.
    """
    if isinstance(value, bool) or not (_names_itself(key) or (isinstance(value, str) and _ANY.search(key))):
        return False
    if not isinstance(value, str):
        return True
    return is_password(value) or (is_password(value, shortest=_SHORTEST_PIN) and _DIGIT.search(value) is not None)


def _names_itself(key: str) -> bool:
    words = [word.casefold() for word in _WORD_OF_KEY.findall(key)]
    return bool(words) and (words[-1] in _LAST_WORDS or _ENDING.search(key) is not None)
