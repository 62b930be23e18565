"""Find secrets in a text: tokens by their form, passwords in sentences, commands and addresses, cards, private keys.

For example `ghp_...` is a token of GitHub wherever it stands, and `hunter2x` a password in `the password is hunter2x`.
FORMS is the table of all forms but those of issuers (secret_issuers.py) and those behind a name and a sign
(secret_names.py). Every pattern takes time in proportion to a text's length. Nothing is looked up, so nothing goes
over the network.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engramq.gateway.secret_issuers import is_random, issued_in
from engramq.gateway.secret_names import MARK, SHORTEST, has_name, is_password, passwords
from engramq.schemas.patterns import compile_late

IN_ADDRESS: Final = "Basic Auth Credentials"
KEYWORD: Final = "Secret Keyword"


class SecretSpan(NamedTuple):
    """Where a secret stands in a text, from `start` up to `end`, and of what kind it is."""

    start: int
    end: int
    kind: str


class SecretForm(NamedTuple):
    """A form of secrets. Its pattern has the secret in a group, which `is_secret` judges.

    In small letters one of `marks` stands in every text that has such a secret.
    """

    kind: str
    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    is_secret: Callable[[str], bool]


_DIGIT: Final = compile_late(r"\d")
_LETTER: Final = compile_late(r"[^\W\d_]")
_SYMBOL_INSIDE: Final = compile_late(r"\w[@#$%^*!]\w")
_DIGITS_IN_RANDOM: Final = 3
# What has letters and digits and is no password: sha256, 32-byte, v2.3.1, 2026-11-24, id_ed25519.pub, $DB_PASS1, f(x1).
_TECHNICAL: Final = compile_late(
    r"[~.]{0,2}/\S*+|[$%<{\[(-]\S*+|\w++://\S*+|\S{1,99}\(\S*+|[^\s@]{1,99}@\w[\w-]*+(?:\.[\w-]++)++|v?\d++(?:\.\d++)+\S*+"
    r"|\d{1,4}[-/.]\d\d?[-/.]\d{1,4}(?:[T_]\S*+)?|[^\s:]{1,99}\.[a-z][a-z0-9]{0,4}(?::\d++)?"
    r"|\d++(?:[.,-]\d++)?-?(?:k|m|g|x|h|s|d|ms|min|minutes?|hours?|days?|weeks?|months?|years?|sec|seconds?|[kmg]i?b|st|nd|rd"
    r"|th|bits?|bytes?|chars?|characters?|digits?|words?|req|stellen|stellig\w*+|zeichen|tage?n?|stunden?|minuten|fold|fa|%)"
    r"(?:[-/_]\S*+)?"
    r"|(?:sha|md|aes|rsa|base|utf|bcrypt|scrypt|argon|pbkdf|oauth|rfc|hmac|hs|rs|es|ps|ed|x|totp|web|http|ipv|iso|k|s|ec|tls|crc"
    r"|chacha|blake|python|py|node|php|java|windows|win|log|neo|user|server|host|key|id|line|field|column|part|level|type"
    r"|version|v|phase|row|page|team|issue|pr|tier|stage|api|uuid|ticket)[-_ ]?\d{1,5}[a-z]{0,2}(?:[-_/.:+]\S*+)?",
    re.IGNORECASE,
)
_WORD_AND_NUMBER: Final = compile_late(r"[a-z]++(?:[-_][a-z]++)*+(?:[-_.]v?\d{1,3})?+(?:[-_][a-z]++)*+")  # db-creds-v2
# What stands in the place of a secret in files with examples, beside what secret_names.py knows.
_DEFAULT: Final = compile_late(
    r"change[-_]?(?:me|it)|example|required|optional|disabled|enabled|missing|undefined|default|postgres|secret|redacted"
    r"|hidden|string|prompt|ignore|always",
    re.IGNORECASE,
)

_COMMON_WORDS: Final = frozenset(
    ("the", "and", "for", "are", "was", "not", "but", "our", "his", "her", "has", "had", "from")
)
# What a message says of a password: the password is 'incorrect'.
_STATE: Final = compile_late(
    r"(?:in|un|not)?(?:correct|valid|wrong|expired|empty|blank|weak|known|set|hash|encrypt|plain|strong|mask|visible|null|none"
    r"|false|true|reject|accept|stored|reset|needed|falsch|richtig|ung|abgelaufen|leer|tooshort|toolong|password|passwor)",
    re.IGNORECASE,
)


def _is_mixed(value: str) -> bool:
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


def _is_spoken(value: str) -> bool:
    """Say whether what a sentence calls a password is one: Tr0ub4dor&3 and 48211234, not sha256, 32-byte or wrong."""
    if not is_password(value) or _TECHNICAL.fullmatch(value) is not None:
        return False
    return _is_mixed(value) or value.isdigit() or _SYMBOL_INSIDE.search(value) is not None


def _is_random_value(value: str) -> bool:
    """Say whether what stands behind a token's name is random: 8f14e45fceea167a, not db-creds-v2."""
    digits = sum(char.isdigit() for char in value[:64])
    return _is_spoken(value) and digits >= _DIGITS_IN_RANDOM and _WORD_AND_NUMBER.fullmatch(value) is None


def _is_given(value: str) -> bool:
    """Say whether what stands where a command or a variable wants a password is one, be it a word."""
    return is_password(value) and value[0] not in "$%<{[(-/~." and _DEFAULT.fullmatch(value) is None


def _is_quoted(value: str) -> bool:
    """Say whether what a sentence quotes as a password is one: 'sunshine', not 'incorrect' or 'min_length'."""
    return _is_given(value) and value.isalnum() and _TECHNICAL.fullmatch(value) is None and _STATE.match(value) is None


def _is_short_given(value: str) -> bool:
    return is_password(value, shortest=3) and value[0] not in "$%<{[(-/~" and re.fullmatch(r"\d+:\d+", value) is None


def _is_in_address(value: str) -> bool:
    """Say whether it is a password: https://host:8443/a@b has none."""
    return is_password(value, shortest=1) and re.match(r"\d{1,5}(?:[/?#]|$)", value) is None


def _is_seed(words: str) -> bool:
    """Say whether words are those of a seed phrase: the list that wallets take them from has none of these."""
    return not _COMMON_WORDS & set(words.replace(",", " ").split())


def _is_card(digits: str) -> bool:
    """Say whether the last of a card's digits is the checksum of the others (Luhn)."""
    numbers = [int(char) for char in reversed(digits) if char.isdigit()]
    return (sum(numbers[::2]) + sum(sum(divmod(2 * number, 10)) for number in numbers[1::2])) % 10 == 0


def _form(
    kind: str, marks: str, pattern: str, is_secret: Callable[[str], bool] = is_random, flags: re.RegexFlag = re.ASCII
) -> SecretForm:
    return SecretForm(kind, tuple(marks.split(" ")), compile_late(pattern, flags), is_secret)


_TEXT: Final = re.IGNORECASE
_OPEN: Final = r"[\"'`„“”‚‘«(]{0,2}"
_SPOKEN: Final = r"(?=\S{0,99}?[\d@#$%^*!])([^\s\"'`„“”‘’«»]{6,}+)"
_ARGUMENT: Final = r"(?:\"([^\"\n]++)\"|'([^'\n]++)'|([^\s\"'|;<>`]++))"
_PHRASE: Final = (
    r"(?:(?:passwor[dt]|kennwort|passphrase|passcode|passwd|pwd|zugangscode)(?:['’]s)?"
    r"|(?<![\w-])(?:pw(?!\w)|(?-i:[Pp]ass)(?=:)))"
)
_API_KEY: Final = (
    r"(?:(?<!next[_-])(?<!page[_-])token|secret|(?:api|access|auth|signing|encryption|master)[ _-]?key"
    r"|(?<!\w)(?:api-?|zugangs|geheim)schlüssel)"
)
# is, wurde auf, was changed to
_COPULA: Final = (
    r"(?:[ \t]++(?:is|was|are|be|been|to|now|set|changed|still|currently|ist|lautet|war|wird|wurde|sei|heißt|heisst|auf"
    r"|jetzt|nun|noch|immer|aktuell)(?!\w))"
)
# "for the staging database is now", "wurde auf", "von Bob lautet:", or ":" with a line's end behind it
_IS: Final = (
    r"(?:[ \t]++(?:for|of|to|on|in|at|from|für|von|vom|zum?|zur|de[rs]|am|im|beim?)(?:[ \t]++\S{1,60}+){1,4}?"
    rf"(?:{_COPULA}{{1,4}}+|(?<=:))|{_COPULA}{{0,4}}+)(?:[ \t]*+:)?\s++"
)
_LOGIN: Final = r"(?:creds?|credentials|login|logins|zugangsdaten|anmeldedaten|zugang)"
_OTHER_KEYS: Final = (
    r"(?:cache|public|primary|foreign|sort|partition|idempotency|next|page|continuation|order|group|range|shard)"
)


def _command(marks: str, programs: str, flags: str, is_secret: Callable[[str], bool] = _is_given) -> SecretForm:
    """Return the form of a program's argument: mysql -pS3cret."""
    pattern = rf"(?<![\w-])(?:{programs})\b[^\n|;]{{0,300}}?[ \t](?:{flags}){_ARGUMENT}"
    return _form(KEYWORD, marks, pattern, is_secret)


FORMS: Final[tuple[SecretForm, ...]] = (
    # A word with - and _ is gone through once.
    _form("JSON Web Token", "eyj", r"(?:(?<![\w\-])|(?<=\\[nrt]))(eyJ[\w\-]{10,}+\.eyJ[\w\-]++(?:\.[\w\-]++)*+)"),
    _form("Bearer Token", "bearer", r"\b(?i:bearer)[ \t]++([\w.~+/=\-]{16,}+)"),
    _form("NPM tokens", ":_", r":_(?:authToken|auth|password)[ \t]*+=[ \t]*+[\"']?([^\s\"']{6,}+)", is_password),
    _form("AWS Access Key", "aws", r"(?i:aws[^\n]{0,60}?['\"]([0-9a-z/+]{40})['\"])"),
    # The secret beside a key's id, which says nothing but its length.
    _form(
        "AWS Access Key",
        "akia asia abia acca",
        r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Z0-9])[\s\S]{1,120}?(?<![\w/+])([A-Za-z0-9/+]{40})(?![\w/+=])",
    ),
    _form("Twilio API Key", "ac sk", r"(?<!\w)(?:AC|SK)[0-9a-f]{32}(?!\w)[\s\S]{1,60}?(?<!\w)(\w{32})(?!\w)"),
    _form("Azure Storage Account access key", "accountkey=", r"AccountKey=([\w+/=]{80,}+)"),
    _form("Azure Client Secret", "q~", r"(?:(?<![\w~.-])|(?<=\\[nrt]))([\w~.-]{3}\dQ~[\w~.-]{31,34})(?![\w~.-])"),
    _form("Mailchimp Access Key", "-us", r"(?:(?<![0-9a-zA-Z])|(?<=\\[nrt]))([0-9a-z]{32}-us\d{1,2})\b"),
    _form(
        "Slack Token", "hooks.slack.com", r"(?i:hooks\.slack\.com/(?:services|workflows|triggers)/(\w++(?:/\w++)++))"
    ),
    _form("Teams Webhook", "/webhookb2/", r"/webhookb2/([\w@-]{36,}+/IncomingWebhook/[\w/-]{32,}+)"),
    _form("Tines Webhook", "/webhook/", r"/webhook/([0-9a-f]{32}/[0-9a-f]{32})"),
    _form("Zapier Webhook", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/(\d++/\w{5,}+)"),
    _form("Discord Webhook", "/api/webhooks/", r"/api/webhooks/\d{15,20}/([\w-]{50,}+)"),
    _form("Telegram Bot Token", ":", r"(?<!\d)(\d{8,10}:[0-9A-Za-z_-]{35})(?![\w-])"),
    _form("Azure Storage Signature", "sig=", r"[?&;]sig=([\w%+/=-]{30,}+)"),
    _form("Asana Token", ":", r"(?:(?<![\w/])|(?<=\\[nrt]))(\d/\d{15,17}(?:/\d{15,17})?:[0-9A-Za-z]{32,}+)"),
    _form("Convex Key", "|", r"(?:(?<![\w-])|(?<=\\[nrt]))((?:prod|dev|preview):[\w:-]{3,80}\|[\w+/=-]{30,}+)"),
    _form("Docker Credentials", '"auth"', r"\"auth\"\s*+:\s*+\"([A-Za-z0-9+/]{12,}+={0,2})\""),
    _form("Private Key", "client-key-data", r"client-key-data\\?\"?:\s*+\\?\"?([A-Za-z0-9+/=]{40,}+)"),
    _form("Private Key", "priv", r"(?i:priv(?:ate)?[ _-]?key)[^\n]{0,40}?(?<!\w)((?:0x)?[0-9a-fA-F]{64})(?!\w)"),
    _form(
        "Session Cookie",
        "sess sid",
        r"(?:(?<![\w-])|(?<=\\[nrt]))(?i:(?:\w{1,20}[._-])?session[_-]?(?:id|token)?|sid|phpsessid|jsessionid|connect\.sid)=([\w.%+/=~:-]{16,}+)",
        _is_random_value,
    ),
    _form(
        "Seed Phrase",
        "phrase mnemonic seed",
        r"(?i:(?:seed|recovery|backup|secret)[ _-]?(?:phrase|words)|mnemonic|(?<!\w)seed)\b"
        r"[^\n.]{0,40}?[:=\"'`]\s*+[\"'`]?"
        r"((?:[a-z]{3,8}[ ,]++){11,23}[a-z]{3,8})(?!\w)",
        _is_seed,
    ),
    # By the brands' first digits and lengths.
    _form(
        "Card Number",
        "2 3 4 5 6",
        r"(?<![\w.,/+-])(?<!\d )((?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|[25]\d\d|4[4-9]\d)|35\d\d)"
        r"([ -]?)\d{4}\2\d{4}\2\d{4}"
        r"|3[47]\d\d([ -]?)\d{6}\3\d{5}|3(?:0[0-5]|[689]\d)\d([ -]?)\d{6}\4\d{4})(?![\w-]|[.,]\d| \d)",
        _is_card,
    ),
    # A password goes up to the last @ before the host: it may have an @ and a slash, though neither should be there.
    _form(
        IN_ADDRESS,
        "://",
        r"://[^\s/?#@:'\"<>`]*+:((?:(?!://)[^\s@'\"<>`])++(?:@(?:(?!://)[^\s/?#@'\"<>`,;])*+(?=@))*+)@",
        _is_in_address,
    ),
    # In sentences: the password for staging is hunter2x; nimm hunter2x als Passwort; Zugangsdaten: ada / hunter2x.
    _form(KEYWORD, "pass pw kennwort zugangscode", _PHRASE + _IS + _OPEN + _SPOKEN, _is_spoken, _TEXT),
    _form(
        KEYWORD,
        "pass kennwort zugangscode",
        rf"{_PHRASE}(?:[ \t]++(?:for|of|to|on|in|für|von)(?:[ \t]++\S{{1,60}}+){{1,4}}?)?{_COPULA}{{1,4}}+[ \t]++"
        r"(?:\"([^\s\"]{6,}+)\"|'([^\s']{6,}+)'|`([^\s`]{6,}+)`|„([^\s“”]{6,}+)[“”])",
        _is_quoted,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "token secret key schlüssel",
        _API_KEY + _IS + _OPEN + r"([^\s\"'`„“”‘’«»]{12,}+)",
        _is_random_value,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "pass pw kennwort zugangscode",
        rf"(?<![^\s\"'`„“«(]){_SPOKEN}"
        r"[\"'`“”»]?,?[ \t]++(?:is|was|as|ist|war|als)[ \t]++(?:\w{1,30}+[ \t]++){0,3}?"
        rf"{_PHRASE}(?=[ \t]*(?:[.,;:!?)\n]|$|(?:for|of|to|on|and|für|von|der|und)\b))",
        _is_spoken,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "cred login zugang anmelde",
        rf"(?<!\w){_LOGIN}\b[^\n:/.]{{0,40}}?(?::|is|are|as|with|sind|lauten|mit)[ \t]++"
        rf"[^\s:/]{{1,60}}+(?: ?[:/,|] ?| with | mit ){_OPEN}{_SPOKEN}",
        _is_spoken,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "pin",
        rf"(?<!\w)PIN(?:[ -]?(?:code|nummer|number))?{_IS}{_OPEN}(\d{{4,8}})"
        r"(?![\w-]|[.,:]\d|[ \t]+(?:digits?|bits?|bytes?|Stellen))",
        str.isdigit,
        _TEXT,
    ),
    # Behind names that are no secret's in every text.
    _form(
        KEYWORD,
        "token",
        rf"(?<!next)(?<!next[_-])(?<!page)(?<!page[_-])(?<!continuation)token\\?[\"']?"
        rf"[ \t]*+(?:=>|[:=])[ \t]*+{_OPEN}([\w.+/=~-]{{12,}}+)",
        _is_random_value,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "key token",
        r"(?:key|password|secret|token)\w{0,40}+[ \t]++\"([^\"\s]{6,}+)\"[ \t]*;",
        is_password,
        _TEXT,
    ),
    _form(
        KEYWORD,
        "=",
        rf"(?<![A-Za-z0-9_])[A-Z0-9_]{{0,60}}(?:PASSWORD|PASSWD|PASS|PWD|PW|SECRET)={_ARGUMENT}",
        _is_given,
    ),
    _form(
        KEYWORD,
        "token key auth cred _pat cookie",
        rf"(?<![A-Za-z0-9_])(?![A-Z0-9_]{{0,60}}(?i:{_OTHER_KEYS}))"
        rf"[A-Z0-9_]{{0,60}}(?:TOKEN|_KEY|AUTH|CREDENTIALS?|_PAT|COOKIE)[ \t]*+[=:][ \t]*+{_ARGUMENT}",
        _is_random_value,
    ),
    # In commands.
    _form(
        KEYWORD,
        "curl wget http xh",
        r"(?<![\w-])(?:curl|wget|https?|xh)\b[^\n|;]{0,300}?[ \t](?:-[uUa]|--user|--proxy-user|--auth)[ \t=]?[ \t]*"
        r"(?:\"[^\":\n]{0,80}+:([^\"\n]++)\"|'[^':\n]{0,80}+:([^'\n]++)'|[^\s:\"']{0,80}+:([^\s\"'|;<>`]++))",
        _is_short_given,
    ),
    # USER PASSWORD behind -nb, FILE USER PASSWORD else
    _form(
        KEYWORD,
        "htpasswd",
        r"(?<![\w-])htpasswd\b(?:[ \t]++-(?![\w]*b)\S++(?:[ \t]++\d++)?)*+[ \t]++-\w*b(?:\w|[ \t]++-\S++)*+"
        rf"(?:(?<=[ \t]-nb)|(?<=[ \t]-bn)|(?:[ \t]++[^\s|&;>]++)?)[ \t]++[^\s|&;>]++[ \t]++(?!&){_ARGUMENT}",
        _is_given,
    ),
    _command("mysql maria 7z", r"mysql\w*+|mariadb[\w-]*+|7z\w?", "-p", _is_short_given),
    _command(
        "mongo sshpass cqlsh rabbit login",
        r"mongo\w*+|sshpass|cqlsh|rabbitmqadmin|(?:docker|podman|helm|oc|az)[ \t][^\n|;]{0,80}?\blogin",
        "-p[ \t]*",
    ),
    _command("redis-cli valkey-cli", "redis-cli|valkey-cli", "(?:-a|--pass)[ \t]+"),
    _command("ldap", r"ldap\w++", "-w[ \t]*"),
    _command("sqlcmd bcp isql zip", "sqlcmd|bcp|isql|zip|unzip", "-P[ \t]*"),
    _form(
        KEYWORD,
        "--",
        r"(?<!\S)--(?:[a-z]{1,20}-){0,2}(?:password|passwd|pass(?:phrase)?|token|secret|(?:api-?|secret-|access-)key)"
        rf"[ \t]+{_ARGUMENT}",
        _is_spoken,
    ),
)
_BEHIND_IT: Final = ".,;:)]}"  # a password in a sentence


def known_secrets(text: str, folded: str) -> Iterator[SecretSpan]:
    """Give the places of the secrets that their form tells; `folded` is the text in small letters."""
    for start, end, kind in issued_in(text):
        yield SecretSpan(start, end, kind)
    for form in FORMS:
        for found in form.pattern.finditer(text) if any(mark in folded for mark in form.marks) else ():
            group = found.lastindex or 0
            value = found[group].rstrip(_BEHIND_IT if form.kind == KEYWORD else "")
            if form.is_secret(value):
                yield SecretSpan(found.start(group), found.start(group) + len(value), form.kind)


KEY_MARK: Final = f"{MARK}Private Key]"

_HEAD: Final = compile_late(
    r"(?:-{5})?BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?(?:-{5})?|PuTTY-User-Key-File-[23]"
)
_FOOT: Final = compile_late(r"-{5}END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-{5}")
# A key without its end goes as far as its headers and what has the letters of base64 (of JSON too, which writes \n): a
# long word, or one that no language has.
_CUT: Final = compile_late(
    r"(?:\s+|-{5}|: \S+"
    r"|(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|Encryption|Public-Lines|Private-Lines|Private-MAC)[^\n]*"
    r"|(?=\S*[\d+/=])[\\\w+/=]+(?!\S)|[\\\w+/=]{16,}(?!\S))*"
)
_LINE: Final = compile_late(r"[\\\w+/=]{10,}")  # what a key has at least: else it is only spoken of


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
    places = list(known_secrets(text, folded))
    secrets = {text[place.start : place.end]: place.kind for place in places if place.kind in (IN_ADDRESS, KEYWORD)}
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
            else bool(before and after) and {before, after} <= {*"'`"}
        )
    return not (before.isalnum() or before == "_" or after.isalnum() or after == "_")
