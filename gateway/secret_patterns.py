"""Find secrets in a text: tokens by their form, passwords by the name before them, private keys by their lines.

For example `ghp_...` is a token of GitHub wherever it stands, and `hunter2x` is a password in `password: hunter2x`.
Every pattern takes time in proportion to a text's length. Nothing is looked up, so nothing goes over the network.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engramq.schemas.ids import TOKEN_PREFIX

SHORTEST: Final = 6  # characters of a secret: what is shorter stands everywhere in a text
_SHORTEST_PIN: Final = 3  # with a digit, where a key of metadata says what it is
MARK: Final = "[redacted: "  # then the kind of secret, and a bracket

# One of these stands, in small letters, in every line that has a name of a secret.
NAMES: Final = ("key", "pass", "pw", "secret", "token", "contrase", "authorization")
_NAME_CHARS: Final = 250  # that a name may go on behind the words by which it is known

_HEAD_CHARS: Final = 300  # of a name and the sign behind it
_KNOWN: Final = (
    r"(?:api|auth)[ _-]?key|api[ _-]?token|(?:service|account|db|database|priv|private|client)[_-]?key"
    r"|(?:db|database|key)_?pass|password|passwd|pwd|secret(?:[_-]{1,2}key)?|(?:[_-]|api|cloudant)pw(?![a-z])"
    r"|(?:sl|cloudant|api)[_-]?pass(?![a-z])|contrase(?:ñ|n)a|passphrase|passcode"
)
_AT_ITS_END: Final = r"authorization|(?:access|signing|encryption)[_-]?key|(?:access|auth|refresh|bearer)[_-]?token"
_NAME: Final = rf"(?<!\[redacted: )(?:(?:{_KNOWN})\w{{0,{_NAME_CHARS}}}+|(?:{_AT_ITS_END})(?!\w))"
_QUOTE_MARKS: Final = frozenset("'\"`")
_QUOTE: Final = r"\\?[\"'`]"  # \" in JSON that is a text of JSON
_ASSIGNED: Final = re.compile(rf"{_NAME}[\]\\'\"]{{0,3}}+\s*+(?::=|={{1,3}}>?|!==?|:)\s*+@?({_QUOTE})?", re.IGNORECASE)
_BEFORE: Final = re.compile(rf"{_NAME}[^\s\\'\"`]{{0,50}}+\s*+({_QUOTE})", re.IGNORECASE)  # private_key "value";
# "value" == password
_BEHIND: Final = re.compile(rf"([\"'`])\s*+[!=]{{2,3}}\s*+(?=\w{{0,{_NAME_CHARS}}}?(?:{_KNOWN}))")
# Of Authorization.
_SCHEME: Final = re.compile(r"(?:bearer|basic|digest|token|bot|apikey|key)\s++(?=\S)", re.IGNORECASE)
_TO_QUOTE: Final = {quote: re.compile(rf"(?:[^\\{quote}]++|\\.)*+(?={quote})") for quote in "\"'`"}
_WORD: Final = re.compile(r"[^ \t\r\n,;\"'`)\]}]*+")
_CALL: Final = re.compile(r"[^\W\d][\w.]*+[(\[]")  # password = db.Column(db.String(120)), not a password
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")
# So long, or with capitals such, that no language has it.
_NO_WORD: Final = re.compile(r"[\w+=-][\w+/=-]{39,}+|(?=[\w-]*?[a-z][A-Z])(?=[\w-]*?[A-Z]{2})[\w-]{16,}+")
_NUMBER: Final = re.compile(r"\d{6,}+")

_WORDS: Final = "password|passwd|secret|api_?key|token|(?<![a-z])key"
_LONGEST_WORDS: Final = 250  # characters of a placeholder, whose pattern takes the square of them
# What documentation writes in the place of a password: your_secret_key_here, ${PASSWORD}, <token>, ****.
_PLACEHOLDER: Final = re.compile(
    rf"[a-z_\-]*(?:{_WORDS})[a-z_\-]*|\$[A-Z_][A-Z0-9_]*|\$?\{{[^}}]*\}}+|%[({{]?\w*[)}}]?s?%?|\$?\([^)]*\)|<[^>]*>?|[*.xX•…]+|pass|\[[^\]]*\]?",
    re.IGNORECASE | re.ASCII,
)


def has_name(folded: str) -> bool:
    """Say whether a line in small letters may name a secret."""
    return any(name in folded for name in NAMES)


def is_password(value: str, shortest: int = SHORTEST) -> bool:
    """Say whether what stands where a password does is one: no placeholder, and not too short."""
    if len(value) < shortest or value.startswith(MARK):
        return False
    return len(value) > _LONGEST_WORDS or _PLACEHOLDER.fullmatch(value) is None


def passwords(line: str) -> Iterator[tuple[int, int]]:
    """Give where in a line the passwords begin and end, whole however long they are; some twice, in any order."""
    at = 0
    while (head := _ASSIGNED.search(line, at)) is not None:
        at = head.end()
        told = _quoted(line, at, head[1]) if head[1] else None
        start, end = told or _word(line, at)
        if told is None:  # another name may stand where the word ends: auth_key=db_password = "value"
            at = max(at, end - _HEAD_CHARS)
        if _is_made(line[start:end], is_quoted=told is not None):
            yield start, end
    for head in _BEFORE.finditer(line):
        told = _quoted(line, head.end(), head[1])
        if told is not None and line.startswith(";", told[1] + len(head[1])) and is_password(line[slice(*told)]):
            yield told
    for tail in _BEHIND.finditer(line):
        start = line.rfind(tail[1], 0, tail.start()) + 1
        if start and is_password(line[start : tail.start()]):
            yield start, tail.start()


def _quoted(line: str, at: int, quote: str) -> tuple[int, int] | None:
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
_WORD_OF_KEY: Final = re.compile(r"[A-Z]?[a-z]++|[A-Z]++(?![a-z])|\d++|[^\W\d_]++")
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
_ANY: Final = re.compile(_KNOWN, re.IGNORECASE)
_ENDING: Final = re.compile(rf"(?:{_KNOWN}|{_AT_ITS_END})\Z", re.IGNORECASE)


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


IN_ADDRESS: Final = "Basic Auth Credentials"
KEYWORD: Final = "Secret Keyword"


class SecretSpan(NamedTuple):
    """Where a secret stands in a text, from `start` up to `end`, and of what kind it is."""

    start: int
    end: int
    kind: str


# Kind, prefix (a pattern of the prefix alone), least characters of letters, digits, - and _ behind it: fewer than are
# issued, so that one that was cut is found too. By the issuers' own documentation of 2025 and 2026.
_PREFIXES: Final = (
    ("engramq Token", re.escape(TOKEN_PREFIX), 40),
    ("Anthropic Token", r"sk-ant-", 20),
    ("OpenAI Token", r"sk-(?:proj|svcacct|admin|None)-", 20),
    ("OpenAI Token", r"sk-(?=[A-Za-z0-9]{40})", 40),  # before 2024
    ("OpenAI Token", r"sk-(?=[\w\-]{20,99}?T3BlbkFJ)", 40),
    ("OpenRouter Token", r"sk-or-v\d-", 32),
    ("GitHub Token", r"github_pat_|gh[pousr]_", 22),
    ("GitLab Token", r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-", 20),
    ("Google API Key", r"AIza", 30),
    ("Google OAuth Secret", r"GOCSPX-|ya29\.", 20),
    ("Hugging Face Token", r"hf_|api_org_", 30),
    ("NPM tokens", r"npm_", 30),
    ("Slack Token", r"xapp-\d-|xox[abceoprs]-(?:\d+-)?|xoxe\.xox[bp]-\d-", 8),
    ("Stripe Access Key", r"(?:sk|rk)_(?:live|test)_|whsec_", 16),
    ("DigitalOcean Token", r"do[opr]_v1_", 40),
    ("Docker Token", r"dckr_(?:pat|oat)_", 20),
    ("Shopify Token", r"shp(?:at|ca|pa|ss)_", 32),
    ("HashiCorp Vault Token", r"hv[sbr]\.", 24),
    ("Linear API Key", r"lin_(?:api|oauth)_", 32),
    ("Postman API Key", r"PMAK-", 24),
    ("Databricks Token", r"dapi(?=[0-9a-f]{32})", 32),
    ("Groq Token", r"gsk_", 40),
    ("xAI Token", r"xai-", 40),
    ("Replicate Token", r"r8_", 30),
    ("NVIDIA Token", r"nvapi-", 40),
    ("Atlassian Token", r"ATATT3x", 40),
    ("Age Secret Key", r"AGE-SECRET-KEY-1", 50),
    ("AWS Access Key", r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)(?=[A-Z0-9]{16})", 16),
    ("Artifactory Credentials", r"AKC(?=[a-zA-Z0-9]{10})(?=[a-zA-Z]{0,99}\d)", 10),
    ("Artifactory Credentials", r"AP[\dA-F](?=[a-zA-Z0-9]{8})(?=[a-zA-Z]{0,99}\d)", 8),
    ("GitLab Token", r"GR1348941", 20),
    ("PyPI Token", r"pypi-AgE", 40),
    ("SendGrid API Key", r"SG\.(?=[\w\-]{16,64}\.)", 16),
    ("Square OAuth Secret", r"sq0csp-", 40),
    ("Twilio API Key", r"(?:AC|SK)(?=[a-z0-9]{32})", 32),
    ("Discord Bot Token", r"[MNO](?=[\w\-]{23,25}\.[\w\-]{6}\.[\w\-]{27})", 23),
)
# A prefix begins a word (also behind \n in JSON), and its token goes to that word's end, dots between included. Each
# place is begun at once, and what was begun is not gone through again: hence the possessive quantifiers.
_TOKEN: Final = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))(?:"
    + "|".join(
        rf"(?P<k{number}>(?:{prefix})[\w\-]{{{least},}}+)" for number, (_, prefix, least) in enumerate(_PREFIXES)
    )
    + r")(?:\.[\w\-]++)*+",
    re.ASCII,
)
# A password goes up to the last @ before the host: it may have an @ and a slash, though neither should be there.
_ADDRESS: Final = re.compile(
    r"://[^\s/?#@:'\"<>`]*+:((?:(?!://)[^\s@'\"<>`])++(?:@(?:(?!://)[^\s/?#@'\"<>`,;])*+(?=@))*+)@"
)
_PORT: Final = re.compile(r"\d{1,5}(?:[/?#]|$)")  # https://host:8443/a@b has no password


def _is_random(token: str) -> bool:
    """Say whether a token may be one: npm_config_registry_of_this_project is none."""
    return not (token.islower() or token.isupper()) or any(char.isdigit() for char in token)


# Kind, what stands (in small letters) in every text that has one, its form, and what else it has to be.
_OTHERS: Final[tuple[tuple[str, str, re.Pattern[str], Callable[[str], bool]], ...]] = (
    # A word with - and _ is gone through once.
    (
        "JSON Web Token",
        "eyj",
        re.compile(r"(?:(?<![\w\-])|(?<=\\[nrt]))(eyJ[\w\-]{10,}+\.eyJ[\w\-]++(?:\.[\w\-]++)*+)", re.ASCII),
        _is_random,
    ),
    (
        "Bearer Token",
        "bearer",
        re.compile(r"\bbearer[ \t]++([\w.~+/=\-]{16,}+)", re.IGNORECASE | re.ASCII),
        _is_random,
    ),
    (
        "NPM tokens",
        ":_",
        re.compile(r":_(?:authToken|auth|password)[ \t]*+=[ \t]*+[\"']?([^\s\"']{6,}+)"),
        is_password,
    ),
    (
        "AWS Access Key",
        "aws",
        re.compile(r"aws[^\n]{0,60}?['\"]([0-9a-z/+]{40})['\"]", re.IGNORECASE | re.ASCII),
        _is_random,
    ),
    (
        "Azure Storage Account access key",
        "accountkey=",
        re.compile(r"AccountKey=([\w+/=]{80,}+)", re.ASCII),
        _is_random,
    ),
    (
        "Mailchimp Access Key",
        "-us",
        re.compile(r"(?:(?<![0-9a-zA-Z])|(?<=\\[nrt]))([0-9a-z]{32}-us\d{1,2})\b"),
        _is_random,
    ),
    (
        "Slack Token",
        "hooks.slack.com",
        re.compile(r"hooks\.slack\.com/services/(T\w+/B\w+/\w+)", re.IGNORECASE | re.ASCII),
        _is_random,
    ),
    (
        "Telegram Bot Token",
        ":",
        re.compile(r"(?<!\d)(\d{8,10}:[0-9A-Za-z_-]{35})(?![\w-])", re.ASCII),
        _is_random,
    ),
)


def known_tokens(text: str, folded: str) -> Iterator[SecretSpan]:
    """Give the places of the secrets that their form tells; `folded` is the text in small letters."""
    for found in _TOKEN.finditer(text):
        name = found.lastgroup or ""
        if _is_random(found[name]):
            yield SecretSpan(found.start(), found.end(), _PREFIXES[int(name[1:])][0])
    for kind, mark, pattern, is_secret in _OTHERS:
        for found in pattern.finditer(text) if mark in folded else ():
            if is_secret(found[1]):
                yield SecretSpan(found.start(1), found.end(1), kind)


def in_addresses(text: str) -> Iterator[SecretSpan]:
    """Give the places of passwords in addresses such as postgresql://ada:password@host."""
    for found in _ADDRESS.finditer(text) if "://" in text else ():
        if is_password(found[1], shortest=1) and _PORT.match(found[1]) is None:
            yield SecretSpan(found.start(1), found.end(1), IN_ADDRESS)


KEY_MARK: Final = f"{MARK}Private Key]"

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
    heads = list(_HEAD.finditer(text)) if "PRIVATE KEY" in text or "PuTTY-User-Key-File-" in text else []
    if not heads:
        return text, 0
    kept, at, found = "", 0, 0
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


def secrets_in(text: str) -> list[SecretSpan]:
    """Return the places of secrets, the kinds that tell most first; some overlap."""
    folded = text.casefold()
    places = [*known_tokens(text, folded), *in_addresses(text)]
    secrets = {text[place.start : place.end]: place.kind for place in places if place.kind == IN_ADDRESS}
    if has_name(folded):
        begin = 0
        for line in text.splitlines(keepends=True):
            for start, end in passwords(line.rstrip("\r\n")) if has_name(line.casefold()) else ():
                places.append(SecretSpan(begin + start, begin + end, KEYWORD))
                secrets[line[start:end]] = KEYWORD
            begin += len(line)
    for secret, kind in secrets.items():  # wherever else they stand
        at = text.find(secret) if len(secret) >= SHORTEST else -1
        while at >= 0:
            end = at + len(secret)
            if _stands_alone(text, at, end, kind):
                places.append(SecretSpan(at, end, kind))
            at = text.find(secret, end)
    return places


def _stands_alone(text: str, start: int, end: int, kind: str) -> bool:
    """Say whether a password stands at a place, not a part of another word.

    One that is a word stands in sentences too, where it is none.
    """
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    if text[start:end].isalpha():
        return (
            (before, after) == (":", "@")
            if kind == IN_ADDRESS
            else bool(before and after) and {before, after} <= _QUOTE_MARKS
        )
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
