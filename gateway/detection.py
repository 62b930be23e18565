"""detect-secrets' detectors: where each is worth asking, and the secrets that it finds.

They are regular expressions made for lines of code; nothing is looked up or verified, so nothing goes over the network.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from engramq.gateway.known_tokens import IN_ADDRESS
from engramq.gateway.passwords import is_password

# Guesses by entropy and addresses would take out what is no secret.
_LEFT_OUT: Final = frozenset({"Base64 High Entropy String", "Hex High Entropy String", "Public IP (ipv4)"})
KEYWORD: Final = "Secret Keyword"
_PRIVATE_KEY: Final = "Private Key"
_NPM: Final = "NPM tokens"  # its pattern takes the square of a line: known_tokens has one of ours
_ARTIFACTORY: Final = "Artifactory Credentials"
# These look for a value behind a name, in time that grows with the cube of the blanks between: they see one blank.
_BEHIND_NAMES: Final = frozenset(
    {"Cloudant Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials", "SoftLayer Credentials"}
)
# One of these stands in every text in which a detector finds something. What has capitals stands for itself alone.
MARKS_OF: Final[Mapping[str, Sequence[str]]] = {
    _ARTIFACTORY: ("AKC", "AP"),
    "AWS Access Key": ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws"),
    "Azure Storage Account access key": ("AccountKey=",),
    IN_ADDRESS: ("://",),
    "Discord Bot Token": (".",),
    "GitHub Token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    "GitLab Token": (
        "glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "GR1348941", "glcbt-", "glimt-", "glptt-", "glagent-", "gloas-",
    ),
    "JSON Web Token": ("eyJ",),
    "Mailchimp Access Key": ("-us",),
    "OpenAI Token": ("T3BlbkFJ",),
    "PyPI Token": ("pypi-AgE",),
    "SendGrid API Key": ("SG.",),
    "Slack Token": ("xox", "hooks.slack.com"),
    "Square OAuth Secret": ("sq0csp-",),
    "Stripe Access Key": ("k_live_",),
    "Telegram Bot Token": (":",),
    "Twilio API Key": ("AC", "SK"),
}  # fmt: skip


class _Detectors(NamedTuple):
    """The detectors by how they are asked."""

    anywhere: Sequence[tuple[str, Any]]
    behind_names: Sequence[tuple[str, Any]]


@cache
def detectors() -> _Detectors:
    """Return the detectors, loaded at the first call."""
    from detect_secrets.core.plugins.util import (  # noqa: PLC0415 - 0.3 s, for whom secrets are redacted only
        get_mapping_from_secret_type_to_class,
    )

    classes: dict[str, Any] = get_mapping_from_secret_type_to_class()
    own = {*_LEFT_OUT, KEYWORD, _PRIVATE_KEY, _NPM}
    made = {kind: one() for kind, one in classes.items() if kind not in own}
    return _Detectors(
        anywhere=[(kind, one) for kind, one in made.items() if kind not in _BEHIND_NAMES],
        behind_names=[(kind, one) for kind, one in made.items() if kind in _BEHIND_NAMES],
    )


def may_have(kind: str, text: str, folded: str) -> bool:
    """Say whether a text may have a secret of a kind; `folded` is the text in small letters."""
    marks = MARKS_OF.get(kind, ("",))
    return any((mark in folded) if mark == mark.casefold() else (mark in text) for mark in marks)


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
            if kind != IN_ADDRESS or is_password(secret):
                yield secret
