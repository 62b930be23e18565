"""What tells a secret: detect-secrets' detectors, where each is worth asking, and what is none in spite of them.

They are regular expressions made for lines of code; nothing is looked up or verified, so nothing goes over the network.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

SHORTEST: Final = 6  # characters of a secret: what is shorter stands everywhere in a text
SHORT: Final = 250  # characters of the pieces in which secrets behind names are looked for
MARK: Final = "[redacted: "  # then the kind of secret, and a bracket

# Guesses by entropy and addresses would take out what is no secret.
_LEFT_OUT: Final = frozenset({"Base64 High Entropy String", "Hex High Entropy String", "Public IP (ipv4)"})
KEYWORD: Final = "Secret Keyword"
_PRIVATE_KEY: Final = "Private Key"
_IN_ADDRESS: Final = "Basic Auth Credentials"
_ARTIFACTORY: Final = "Artifactory Credentials"
# These look for a value behind a name, in time that grows with the cube of the blanks between.
_BEHIND_NAMES: Final = frozenset(
    {"Cloudant Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials", "SoftLayer Credentials"}
)
# One of these stands in every line in which a detector of _BEHIND_NAMES or of passwords finds something, and
NAMES: Final = ("key", "pass", "pw", "secret", "token", "contrase", "cloudant", "softlayer")
# one of these in every text in which another does. What has capitals stands for itself alone.
MARKS_OF: Final[Mapping[str, Sequence[str]]] = {
    _ARTIFACTORY: ("AKC", "AP"),
    "AWS Access Key": ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws"),
    "Azure Storage Account access key": ("AccountKey=",),
    _IN_ADDRESS: ("://",),
    "Discord Bot Token": (".",),
    "GitHub Token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "GitLab Token": (
        "glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-",
    ),
    "JSON Web Token": ("eyJ",),
    "Mailchimp Access Key": ("-us",),
    "NPM tokens": ("_authToken=",),
    "OpenAI Token": ("T3BlbkFJ",),
    "PyPI Token": ("pypi-AgE",),
    "SendGrid API Key": ("SG.",),
    "Slack Token": ("xox", "hooks.slack.com"),
    "Square OAuth Secret": ("sq0csp-",),
    "Stripe Access Key": ("k_live_",),
    "Telegram Bot Token": (":",),
    "Twilio API Key": ("AC", "SK"),
}  # fmt: skip

_ENDS: Final = " \t\r\n,;\"'`)]}"  # of a password without quotes
_CALL: Final = re.compile(r"[^\W\d][\w.]*[(\[]")  # password = db.Column(db.String(120)), not a password
_WORDS: Final = "password|passwd|secret|api_?key|(?<![a-z])key"
# What documentation writes in the place of a password: your_secret_key_here, testpassword.
_PLACEHOLDER: Final = re.compile(rf"[a-z_\-]*(?:{_WORDS})[a-z_\-]*", re.IGNORECASE | re.ASCII)


class _Detectors(NamedTuple):
    """The detectors by how they are asked; `quoted` and `unquoted` find passwords, in the group that each names."""

    anywhere: Sequence[tuple[str, Any]]
    behind_names: Sequence[tuple[str, Any]]
    quoted: Mapping[re.Pattern[str], int]
    unquoted: Mapping[re.Pattern[str], int]


@cache
def detectors() -> _Detectors:
    """Return the detectors, loaded at the first call."""
    from detect_secrets.core.plugins.util import (  # noqa: PLC0415 - 0.3 s, for whom secrets are redacted only
        get_mapping_from_secret_type_to_class,
    )
    from detect_secrets.plugins import keyword  # noqa: PLC0415 - the same

    classes: dict[str, Any] = get_mapping_from_secret_type_to_class()
    own = {*_LEFT_OUT, KEYWORD, _PRIVATE_KEY}
    made = {kind: one() for kind, one in classes.items() if kind not in own}
    return _Detectors(
        anywhere=[(kind, one) for kind, one in made.items() if kind not in _BEHIND_NAMES],
        behind_names=[(kind, one) for kind, one in made.items() if kind in _BEHIND_NAMES],
        quoted=keyword.QUOTES_REQUIRED_DENYLIST_REGEX_TO_GROUP,
        unquoted=keyword.CONFIG_DENYLIST_REGEX_TO_GROUP,
    )


def may_have(kind: str, text: str, folded: str) -> bool:
    """Say whether a text may have a secret of a kind; `folded` is the text in small letters."""
    marks = MARKS_OF.get(kind, ("",))
    return any((mark in folded) if mark == mark.casefold() else (mark in text) for mark in marks)


def has_name(folded: str) -> bool:
    """Say whether a line in small letters may name a secret."""
    return any(name in folded for name in NAMES)


@cache
def _named() -> Sequence[re.Pattern[str]]:
    return tuple(detectors().quoted)


def names_a_secret(key: str) -> bool:
    """Say whether what stands under a key is a password."""
    told = f'{key[:SHORT]}: "value"'
    return has_name(told.casefold()) and any(pattern.search(told) for pattern in _named())


def all_of(value: str) -> str:
    """Return what of a value in quotes may be a password."""
    return value


def first_word(value: str) -> str:
    """Return what of a value without quotes may be a password: one word that is none of a language, nor code."""
    end = next((at for at, one in enumerate(value) if one in _ENDS), len(value))
    word = value[:end].rstrip(".")
    if any(one.isdigit() for one in word) and any(one.isalpha() for one in word) and _CALL.match(word) is None:
        return word
    return ""


def is_password(value: str) -> bool:
    """Say whether what stands where a password does is one: no placeholder, and not too short."""
    if len(value) < SHORTEST or value.startswith(MARK):
        return False
    return len(value) > SHORT or _PLACEHOLDER.fullmatch(value) is None


def tokens(kind: str, detector: Any, piece: str) -> Iterator[str]:
    """Give the secrets that a detector finds in a piece, whole: of some it tells only how they begin."""
    told = set(detector.analyze_string(piece))
    for pattern in detector.denylist if told else ():
        for found in pattern.finditer(piece):
            groups = [one for one in found.groups() if one]
            if told.isdisjoint([*groups, found[0]]):
                continue
            longest = max(groups, key=len, default=found[0])
            secret: str = found[0] if found[0].startswith(longest) else longest
            secret = secret.strip(' \t\r\n=:"')
            if kind == _ARTIFACTORY and not any(one.isdigit() for one in secret):
                continue  # APEnvironmental is none of its passwords
            if kind != _IN_ADDRESS or is_password(secret):
                yield secret


def places_of(secret: str, kind: str) -> str:
    """Return a pattern for the places of a text in which a secret is taken out."""
    place = re.escape(secret)
    if kind not in {KEYWORD, _IN_ADDRESS}:
        return place
    if not secret.isalpha():
        return rf"(?<!\w){place}(?!\w)"
    # A password that is a word stands in sentences too, where it is none.
    return rf"(?<=:){place}(?=@)" if kind == _IN_ADDRESS else rf"(?<=['\"`]){place}(?=['\"`])"
