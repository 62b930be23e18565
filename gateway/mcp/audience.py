"""Say which tools a caller has, and leave out of texts each sentence that names another.

A caller has the tools of the profile (ENGRAMQ_TOOLS) that their scopes and trust allow. Texts write the word of a tool
(connect, guide) for the tool alone.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from engramq.gateway.identity.authorization import may_send
from engramq.schemas.commands import FORMER_TOOLS, TOOLS, Tool, tools_of
from engramq.schemas.envelope import Principal
from engramq.schemas.sentences import sentence_starts
from engramq.schemas.settings import SettingsError
from engramq.schemas.vocabulary import Scope

EVERYDAY: Final = "everyday"
GRAPH: Final = "graph"
FULL: Final = "full"
CORE: Final = "core"
ALL_TOOLS: Final = tuple(TOOLS.values())
_GRAPH_AREAS: Final = ("knowledge graph", "sectors of edges, consent")
_OF_GRAPH: Final = frozenset(tool.name for area in _GRAPH_AREAS for tool in tools_of(area))
# The profiles that have a name, and which tools they list.
PROFILES: Final[Mapping[str, Callable[[Tool], object]]] = {
    EVERYDAY: lambda tool: tool.everyday,
    GRAPH: lambda tool: tool.everyday or tool.name in _OF_GRAPH,
    FULL: lambda _tool: True,
    CORE: lambda tool: tool.core,
}
# They list what a model needs on most days, and take calls of every other tool by its name.
OPEN: Final = frozenset({EVERYDAY, GRAPH})
MORE_TOOLS: Final = "`engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists all tools."
_IN_FULL: Final = "`engramq stdio --tools full`, or ENGRAMQ_TOOLS=full, lists a tool for this."
_TRUSTED: Final = "`engramq token create` without --untrusted makes a token that may do this."
_OR: Final = "Or "  # begins no text: what it was the other way to may be left out
_WORDED: Final = frozenset({"recovery", "hint", "notice", "rest"})  # what a reply asks its reader to do
# Where replies hold refusals and other replies. Callers' own texts stay as they are, whatever their keys.
_WITHIN: Final = frozenset({"errors", "reply", "connect_result", "results", "resolved"})


def choose_tools(profile: str) -> tuple[Tool, ...]:
    """Return the tools that a profile lists: one of PROFILES, or names with commas.

    Raises SettingsError, naming ENGRAMQ_TOOLS, for a name that no tool has and when nothing is chosen.
    """
    if profile.strip() in PROFILES:
        return tuple(tool for tool in ALL_TOOLS if PROFILES[profile.strip()](tool))
    names = [name.strip() for name in profile.split(",") if name.strip()]
    unknown = [name for name in names if name not in TOOLS]
    if unknown or not names:
        wrong = f"there is no tool {unknown[0]!r}" if unknown else "no tool is named"
        instead = f" {FORMER_TOOLS[unknown[0]]}" if unknown and unknown[0] in FORMER_TOOLS else ""
        known = ", ".join((*PROFILES, f"or some of {', '.join(TOOLS)}"))
        raise SettingsError(f"ENGRAMQ_TOOLS: {wrong}.{instead} Give {known}.")
    return tuple(tool for tool in ALL_TOOLS if tool.name in names)


@dataclass(frozen=True, slots=True, eq=False)
class Audience:
    """The tools that a reader has, and for each other tool where it can be had."""

    tools: frozenset[str]
    elsewhere: Mapping[str, str]
    absent: re.Pattern[str] | None


def audience_with(tools: Collection[str], elsewhere: Mapping[str, str]) -> Audience:
    """Return an audience with these tools; `elsewhere` says in a sentence where each other tool can be had."""
    longest_first = sorted(elsewhere, key=len, reverse=True)
    absent = re.compile(rf"(?<![\w/@])(?:{'|'.join(longest_first)})(?!\w)") if longest_first else None
    return Audience(frozenset(tools), elsewhere, absent)


def may_call(tool: Tool, principal: Principal) -> bool:
    """Say whether the principal may call the tool at all; what its arguments need is decided when it is called."""
    return may_send(tool.parameters, tool.scope, principal)


def tools_for(tools: tuple[Tool, ...], principal: Principal) -> tuple[Tool, ...]:
    """Return those of a profile's tools that the principal may call."""
    return tuple(tool for tool in tools if may_call(tool, principal))


@lru_cache(maxsize=256)
def audience_of(tools: tuple[Tool, ...], scopes: tuple[Scope, ...], untrusted: bool) -> Audience:
    """Return the audience that a principal with these scopes is, where the profile has these tools."""
    anybody = Principal(name="", scopes=scopes, untrusted=untrusted)
    names = {tool.name for tool in tools_for(tools, anybody)}
    elsewhere = {name: _where(tool, tool in tools, scopes) for name, tool in TOOLS.items() if name not in names}
    return audience_with(names, elsewhere)


def _where(tool: Tool, in_profile: bool, scopes: tuple[Scope, ...]) -> str:
    """Say where a tool can be had that the profile lacks, or that a token lacks the scope for, or the trust."""
    if not in_profile:
        return _IN_FULL
    if tool.scope in scopes:
        return _TRUSTED
    wanted = ",".join(scope for scope in Scope if scope in scopes or scope is tool.scope)
    return f"`engramq token create --scopes {wanted}` makes a token that may do this."


def omit_unavailable(text: str, audience: Audience) -> str:
    """Return the text without the sentences that name a tool which the audience lacks; perhaps nothing."""
    if audience.absent is None or audience.absent.search(text) is None:
        return text
    pieces = [text[start:end] for start, end in pairwise([*sentence_starts(text), len(text)])]
    left = "".join(piece for piece in pieces if audience.absent.search(piece) is None).rstrip()
    return f"{left[len(_OR)].upper()}{left[len(_OR) + 1 :]}" if left.startswith(_OR) else left


def reword_for(text: str, audience: Audience) -> str:
    """Return the text as `omit_unavailable` does; where it omits a tool, a sentence says where that can be had."""
    if audience.absent is None:
        return text
    named = audience.absent.findall(text)
    if not named:
        return text
    sentences = (omit_unavailable(text, audience), *dict.fromkeys(audience.elsewhere[name] for name in named))
    return " ".join(sentence for sentence in sentences if sentence)


def reword_body(body: dict[str, Any], audience: Audience) -> dict[str, Any]:
    """Return a reply whose recoveries, hints and notices name only tools that the audience has."""
    if audience.absent is None:
        return body
    changed: dict[str, Any] = {}
    for name, value in body.items():
        new = value
        if name in _WORDED and isinstance(value, str):
            new = reword_for(value, audience)
        elif name in _WITHIN and isinstance(value, dict):
            new = reword_body(value, audience)
        elif name in _WITHIN and isinstance(value, list):
            items = [reword_body(item, audience) if isinstance(item, dict) else item for item in value]
            new = items if any(item is not old for item, old in zip(items, value, strict=True)) else value
        if new is not value:
            changed[name] = new
    return {**body, **changed} if changed else body
