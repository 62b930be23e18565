"""Say in the reader's language what a proposal would do. People consent to the quoted values, which stay as they are.

The proposal holds what its effect quotes, so nothing is guessed: an effect that its values do not make stays English.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from engramq.schemas.command_line import count_of
from engramq.schemas.contents import CUT
from engramq.schemas.sentences import sentences_of

_SHARE: Final = "Let everybody see this memory: {}"
_DELETE_EDGE: Final = "Delete the edge {}."
_DELETE_NODE: Final = "Delete the node {} and its {}, constitutive among them: {}."
_CHANGE: Final = "Change the edge {}: {}."
_SECTOR: Final = "Give the edge {} the sector {}; now it is {}."
_CLOSED: Final = "Nothing any more: it is {}."
_PROPERTY: Final = "property {}"
_ADDED, _ALREADY, _CHANGED = "{} is added: {}", "{} is {} already", "{} from {} to {}"
_MORE: Final = "and {} more"
_EDGE_COUNTS: Final = ("{} edge", "{} edges")
EFFECTS: Final = (
    *(_SHARE, _DELETE_EDGE, _DELETE_NODE, _CHANGE, _SECTOR, _CLOSED, _PROPERTY, _ADDED, _ALREADY, _CHANGED, _MORE),
    *_EDGE_COUNTS,
)
_VALUE_CHARS: Final = 80  # of a value in words, as the workers write it
_OTHERS: Final = re.compile(r"(.*\)); and (\d+) more", re.DOTALL)  # an edge that is named ends in a bracket
_MORE_VALUES: Final = re.compile(r"and (\d+) more")


def say_effect(proposal: Mapping[str, Any], messages: Mapping[str, str]) -> str:
    """Return the effect of a proposal as a language has it."""
    text = str(proposal["effect"])
    if not messages:
        return text
    if text in messages:
        return messages[text]
    edge, node, change = (proposal.get(name) for name in ("edge", "node", "change"))
    said = None
    if proposal.get("memory_id"):
        said = _say_sharing(text, proposal, messages)
    elif edge and proposal["action"] == "delete":
        said = messages[_DELETE_EDGE].format(_words(edge)) if text == _DELETE_EDGE.format(_words(edge)) else None
    elif edge and change:
        said = _say_change(text, _words(edge), change, messages)
    elif edge:
        sectors = proposal["new_sector"], edge["memory_sector"]
        if text == _SECTOR.format(_words(edge), *sectors):
            said = messages[_SECTOR].format(_words(edge), *(messages.get(each, each) for each in sectors))
    elif node:
        said = _say_node(text, node, messages)
    return text if said is None else said


def _say_sharing(text: str, proposal: Mapping[str, Any], messages: Mapping[str, str]) -> str | None:
    begin, state = _SHARE.format(""), proposal["state"]
    if text == _CLOSED.format(state):
        return messages[_CLOSED].format(messages.get(state, state))
    return messages[_SHARE].format(text[len(begin) :]) if text.startswith(begin) else None


def _say_node(text: str, node: Mapping[str, Any], messages: Mapping[str, str]) -> str | None:
    name, count = f"{node['name']} ({node['label']})", node["edge_count"]
    begin = _DELETE_NODE.format(name, count_of(count, "edge"), "").removesuffix(".")
    if not text.startswith(begin):
        return None
    named = text[len(begin) :].removesuffix(".")
    if found := _OTHERS.fullmatch(named):
        named = f"{found[1]}; {messages[_MORE].format(found[2])}"
    return messages[_DELETE_NODE].format(name, messages[_EDGE_COUNTS[count != 1]].format(count), named)


def _say_change(text: str, name: str, change: Mapping[str, Any], messages: Mapping[str, str]) -> str | None:
    begin = _CHANGE.format(name, "").removesuffix(".")
    if not text.startswith(begin):
        return None
    at, said = len(begin), []
    for choices in _differences(change):
        made = next(((form, given) for form, given in choices if text.startswith(form.format(*given), at)), None)
        if made is None:
            break
        form, (label, *values) = made
        at += len(form.format(label, *values))
        said.append(messages[form].format(_say_label(label, messages), *values))
        at += 2 * text.startswith("; ", at)
    if found := _MORE_VALUES.match(text, at):
        said.append(messages[_MORE].format(found[1]))
        at = found.end()
    endings = sentences_of(text[at + 1 :])
    if not said or text[at : at + 1] != "." or not messages.keys() >= {*endings}:
        return None
    return " ".join([messages[_CHANGE].format(name, "; ".join(said)), *(messages[each] for each in endings)])


def _say_label(label: str, messages: Mapping[str, str]) -> str:
    begin = _PROPERTY.format("")
    return messages[_PROPERTY].format(label[len(begin) :]) if label.startswith(begin) else messages.get(label, label)


def _differences(change: Mapping[str, Any]) -> Iterator[list[tuple[str, list[str]]]]:
    """Yield for each value in what words it may stand, with what these quote: the worker knows which is so."""
    old, new = change["old"], change["new"]
    before, after = old.get("properties", {}), new.get("properties", {})
    values = [(name, old, new, name) for name in new if name != "properties"]
    values += [(_PROPERTY.format(_json(key)), before, after, key) for key in sorted(after)]
    for label, was, becomes, key in values:
        then = _json(becomes[key])
        if key in was:
            yield [(_ALREADY, [label, then]), (_CHANGED, [label, _json(was[key]), then])]
        else:
            yield [(_ADDED, [label, then])]


def _json(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}{CUT}"


def _words(edge: Mapping[str, Any]) -> str:
    source, target = edge["source"], edge["target"]
    return f"{source['name']} ({source['label']}) --{edge['relation']}--> {target['name']} ({target['label']})"
