"""What PromQL asks for: names of metrics and labels. Strings and durations are passed over."""

import re
from dataclasses import dataclass

TOKEN = re.compile(
    r"""(?P<space>\s+) | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`) | (?P<range>\[[^\]]*\])
    | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[smhdwy]?) | (?P<word>[A-Za-z_:$][\w:$]*)
    | (?P<sign>[-+*/%^(){},!=<>~@]+?)""",
    re.VERBOSE,
)
OPERATORS = frozenset(["and", "or", "unless", "bool", "offset"])
LISTS = frozenset(["by", "without", "on", "ignoring", "group_left", "group_right"])


@dataclass(frozen=True)
class Asked:
    """The metrics and the labels that a query names."""

    metrics: frozenset[str]
    labels: frozenset[str]


def asked(query: str) -> Asked:
    """Return what a query names; raises ValueError at a character that PromQL has not."""
    tokens, at = [], 0
    while at < len(query):
        found = TOKEN.match(query, at)
        if found is None:
            raise ValueError(f"{query[at : at + 10]!r} in {query!r}")
        at = found.end()
        if found.lastgroup != "space":
            tokens.append((found.lastgroup, found[0]))
    metrics, labels = set(), set()
    in_list = in_matcher = False
    for place, (sort, text) in enumerate(tokens):
        following = tokens[place + 1][1] if place + 1 < len(tokens) else ""
        if text == "{":
            in_matcher = True
        elif text == "}":
            in_matcher = False
        elif text == ")":
            in_list = False
        elif sort != "word" or text in OPERATORS:
            continue
        elif text in LISTS:
            in_list = following == "("
        elif in_matcher or in_list:
            labels.add(text)
        elif following not in {"(", "by", "without"}:
            metrics.add(text)
    return Asked(frozenset(metrics), frozenset(labels))
