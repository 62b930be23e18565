"""Secrets that their own form tells: tokens by documented prefixes, passwords in addresses.

Beside detect-secrets, which has none of these or not whole. Each pattern takes time in proportion to a text's length.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from engramq.gateway.passwords import is_password
from engramq.schemas.tokens import TOKEN_PREFIX

IN_ADDRESS: Final = "Basic Auth Credentials"  # as detect-secrets calls them


class Place(NamedTuple):
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
    ("OpenRouter Token", r"sk-or-v\d-", 32),
    ("GitHub Token", r"github_pat_|gh[pousr]_", 22),
    ("GitLab Token", r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-", 20),
    ("Google API Key", r"AIza", 30),
    ("Google OAuth Secret", r"GOCSPX-|ya29\.", 20),
    ("Hugging Face Token", r"hf_|api_org_", 30),
    ("NPM tokens", r"npm_", 30),
    ("Slack Token", r"xapp-\d-|xox[abceoprs]-|xoxe\.xox[bp]-\d-", 20),
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
)
# What must stand in a text for any of them: cheaper to look for than the patterns.
_MARKS: Final = (
    TOKEN_PREFIX, "sk-", "github_pat_", "gh", "gl", "AIza", "GOCSPX-", "ya29.", "hf_", "api_org_", "npm_", "xapp-",
    "xox", "k_live_", "k_test_", "whsec_", "_v1_", "dckr_", "shp", "hvs.", "hvb.", "hvr.", "lin_", "PMAK-", "dapi",
    "gsk_", "xai-", "r8_", "nvapi-", "ATATT3x", "AGE-SECRET-KEY-1",
)  # fmt: skip
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
# However long: detect-secrets sees pieces. A word with - and _ is gone through once.
_WEB_TOKEN: Final = re.compile(r"(?:(?<![\w\-])|(?<=\\[nrt]))eyJ[\w\-]{10,}+\.eyJ[\w\-]++(?:\.[\w\-]++)*+", re.ASCII)
_BEARER: Final = re.compile(r"\bbearer[ \t]++([\w.~+/=\-]{16,}+)", re.IGNORECASE | re.ASCII)
_NPM_LINE: Final = re.compile(r":_(?:authToken|auth|password)[ \t]*+=[ \t]*+[\"']?([^\s\"']{6,}+)")
# A password goes up to the last @ before the host: it may have an @ and a slash, though neither should be there.
_ADDRESS: Final = re.compile(
    r"://[^\s/?#@:'\"<>`]*+:((?:(?!://)[^\s@'\"<>`])++(?:@(?:(?!://)[^\s/?#@'\"<>`,;])*+(?=@))*+)@"
)
_PORT: Final = re.compile(r"\d{1,5}(?:[/?#]|$)")  # https://host:8443/a@b has no password


def known_tokens(text: str, folded: str) -> Iterator[Place]:
    """Give the places of the secrets that their form tells; `folded` is the text in small letters."""
    if any(mark in text for mark in _MARKS):
        for found in _TOKEN.finditer(text):
            name = found.lastgroup or ""
            if _is_random(found[name]):
                yield Place(found.start(), found.end(), _PREFIXES[int(name[1:])][0])
    if "eyJ" in text:
        for found in _WEB_TOKEN.finditer(text):
            yield Place(found.start(), found.end(), "JSON Web Token")
    if "bearer" in folded:
        for found in _BEARER.finditer(text):
            if _is_random(found[1]):
                yield Place(found.start(1), found.end(1), "Bearer Token")
    if ":_" in text:
        for found in _NPM_LINE.finditer(text):
            if is_password(found[1]):
                yield Place(found.start(1), found.end(1), "NPM tokens")


def in_addresses(text: str) -> Iterator[Place]:
    """Give the places of passwords in addresses such as postgresql://ada:password@host."""
    for found in _ADDRESS.finditer(text) if "://" in text else ():
        if is_password(found[1], shortest=1) and _PORT.match(found[1]) is None:
            yield Place(found.start(1), found.end(1), IN_ADDRESS)


def _is_random(token: str) -> bool:
    """Say whether a token may be one: npm_config_registry_of_this_project is none."""
    return not (token.islower() or token.isupper()) or any(one.isdigit() for one in token)
