"""Read what Copilot's chat in VS Code and Gemini's apps export."""

import hashlib
import html
import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from engramq.deploy.importing import exports, fields
from engramq.deploy.importing.plain_files import OBJECT_BYTES, TOO_LONG
from engramq.deploy.importing.records import Rejection, UncheckedRow
from engramq.deploy.importing.transcript_files import unreadable
from engramq.deploy.local.hooks.transcripts import parse_line
from engramq.deploy.local.hooks.turns import join_answers, object_in
from engramq.schemas.packed_lines import UnusableFile

COPILOT_LIST: Final = "requests"
COPILOT_MARKS: Final = frozenset({"responderUsername", "requesterUsername"})
_OF_PROGRAM: Final = exports.LeftOut(
    "parts of answers of tools and of the program", "part of an answer of a tool or program"
)
_OF_FORM: Final = exports.LeftOut("fields of forms that cannot be read", "field of a form that cannot be read")
_WAITING: Final = exports.LeftOut("prompts that wait to be sent", "prompt that waits to be sent")


def read_copilot_chat(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield what was said in one chat as VS Code exports it, or in the chats of a folder or archive.

    An export has no id: its requests have, by which they are known.
    """
    for member in exports.members(path, re.compile(r".*\.jsonl?")):
        try:
            with exports.open_document(path, member) as stream:
                data = stream.read(OBJECT_BYTES + 1)
            if len(data) > OBJECT_BYTES:
                raise UnusableFile(TOO_LONG.format(OBJECT_BYTES))
            chat = _chat_in(data)
        except UnusableFile as problem:
            if not member:
                raise
            yield unreadable(member, problem)
        else:
            yield from _turns_of(chat, choices)


def _turns_of(chat: Mapping[str, Any], choices: fields.Choices) -> Iterator[exports.Entry]:
    requests = chat[COPILOT_LIST]
    first = fields.value_at(requests[0], "requestId") if requests else None
    said = fields.Conversation("copilot-chat", 1, chat.get("sessionId") or first, choices, chat.get("customTitle"))
    for position, request in enumerate(requests):
        yield from _copilot_request(said, position, request)
    yield from [_WAITING] * len(fields.list_at(chat, "pendingRequests"))


def is_log_of_chat(members: Collection[str]) -> bool:
    """Say whether an object with these members is the first line of a chat that VS Code keeps as a log of changes."""
    return {"kind", "v"} <= set(members)


def _chat_in(data: bytes) -> Mapping[str, Any]:
    """Return the chat of a file, without a last line that is half written. Raises UnusableFile, which says where."""
    chat: Any = parse_line(data)
    if chat is None or is_log_of_chat(chat):
        chat = _chat_of_log(data)
    if not isinstance(chat, dict) or not isinstance(chat.get(COPILOT_LIST), list):
        raise UnusableFile("It is no JSON object with requests.")
    return chat


def _chat_of_log(data: bytes) -> Any:
    chat: Any = None
    lines = data.rstrip().split(b"\n")
    for number, line in enumerate(lines, 1):
        if number < len(lines) and not line.strip():
            continue
        if (change := parse_line(line)) is None:
            if number == len(lines) and chat is not None:
                break
            raise exports.damage_in(b"\n".join(lines[number - 1 :]), number - 1)
        try:
            chat = _apply(chat, change)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            raise UnusableFile(f"Line {number} is no change of a chat of a kind that is known.") from None
    return chat


_WHOLE, _SET, _PUSH, _DELETE = range(4)  # kinds of changes


def _apply(chat: Any, change: Mapping[str, Any]) -> Any:
    """Return a chat after a change of its log: at the path `k`, by the value `v`, from the place `i` of a list on."""
    kind, path, value = change["kind"], change.get("k", []), change.get("v")
    if kind == _WHOLE:
        return value
    place = chat
    for step in path[:-1]:
        place = place[step]
    last = path[-1]
    if kind == _PUSH:
        several = place.setdefault(last, []) if isinstance(place, dict) else place[last]
        several[change.get("i", len(several)) :] = value or []
    elif kind == _SET:
        if isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    elif kind == _DELETE:
        place.pop(last)
    else:
        raise ValueError(kind)
    return chat


def _copilot_request(said: fields.Conversation, position: int, request: Any) -> Iterator[exports.Entry]:
    known, at = fields.value_at(request, "requestId"), fields.value_at(request, "timestamp")
    prompt = fields.value_at(request, "message")
    prompt = fields.value_at(prompt, "text") if isinstance(prompt, dict) else prompt
    at = at / 1000 if isinstance(at, int) else None
    if not known or not isinstance(prompt, str):
        yield Rejection(said.line, COPILOT_LIST, f"Request {position} has no requestId, or no message.")
        return
    yield said.turn(known, 2 * position, fields.USER, prompt, at) if prompt.strip() else fields.NO_TEXT
    texts: list[str] = []
    for number, part in enumerate(fields.list_at(request, "response")):
        yield from [_OF_FORM] * list(_filled_in(part).values()).count(None)
        if words := _words_to_copilot(part):
            yield said.turn(f"{known}#{part.get('resolveId') or number}", 2 * position + 1, fields.USER, words, at)
        elif (text := _copilot_part(part)) is None:
            yield _OF_PROGRAM
        else:
            texts.append(text)
    answer = "".join(texts)
    if answer.strip():
        yield said.turn(f"{known}#answer", 2 * position + 1, fields.ASSISTANT, answer.strip(), at)


def _words_to_copilot(part: Any) -> str:
    """Return what a person has said within an answer: to questions, in a form, or of a plan; "" for another part."""
    kind, given = fields.value_at(part, "kind"), fields.value_at(part, "data")
    if kind == "planReview":
        return fields.clean_text(fields.value_at(given, "feedback"))
    if kind == "questionCarousel" and isinstance(given, dict):
        asked = fields.list_at(part, "questions")
        return join_answers(
            (_question_of(each), _answer_of(each, given.get(str(each.get("id"))))) for each in map(object_in, asked)
        )
    lines = [f"{name}: {text}" for name, text in _filled_in(part).items() if text is not None]
    return join_answers([(_question_of(part), "\n".join(lines))])


def _filled_in(part: Any) -> dict[str, str | None]:
    """Return what a person has filled into a form, by its fields; None for what is no value of a form."""
    filled = fields.value_at(part, "acceptedResult")
    if fields.value_at(part, "kind") != "elicitationSerialized" or not isinstance(filled, dict):
        return {}
    return {name: _text_in_form(value) for name, value in filled.items() if value not in (None, "", [])}


def _text_in_form(value: Any) -> str | None:
    if isinstance(value, list):
        texts = [text for each in value if (text := _text_in_form(each)) is not None]
        return ", ".join(texts) if len(texts) == len(value) else None
    if isinstance(value, int | float):
        return json.dumps(value)
    return value if isinstance(value, str) else None


def _question_of(question: Any) -> object:
    text = fields.value_at(question, "message") or fields.value_at(question, "title")
    return fields.value_at(text, "value") or text


def _answer_of(question: Mapping[str, Any], given: Any) -> list[Any]:
    """Return an answer: a text, or chosen options by their labels and what was typed beside."""
    labels = {str(each.get("value")): each.get("label") for each in map(object_in, fields.list_at(question, "options"))}
    chosen = [fields.value_at(given, "selectedValue"), *fields.list_at(given, "selectedValues")]
    several = [labels.get(str(each)) or each for each in chosen]
    return [given, *several, fields.value_at(given, "freeformValue")]


def _copilot_part(part: Any) -> str | None:
    """Return the text of a part of an answer, the name of a file or symbol that it refers to, None for another."""
    kind = fields.value_at(part, "kind")
    if kind == "inlineReference":
        place = fields.value_at(part, "inlineReference.path") or fields.value_at(part, "inlineReference.uri.path")
        name = fields.value_at(part, "inlineReference.name") or fields.value_at(part, "name")
        return f"`{name or unquote(str(place or '')).rpartition('/')[2]}`"
    text = (
        part
        if kind is None and isinstance(part, str)
        else fields.value_at(part, "value" if kind is None else "content")
    )
    text = fields.value_at(text, "value") or text
    return text if isinstance(text, str) and kind in (None, "markdownContent") else None


# The verbs before what was typed, in English; those of other languages stay with it.
_TYPED: Final = re.compile(r"(?:Prompted with:|Asked (?:Gemini|Bard):|Prompted|Asked|Said|Branched|Answered)\s+")
_DONE: Final = re.compile(
    r"(?:Created|Used|Added|Gave|Selected|Shared|Deleted|Viewed|Visited|Searched|Edited|Pinned|Renamed|Exported|Updated)\b"
)
_ATTACHED: Final = re.compile(r"Attached \d+ files?\.?\Z")
_APPS: Final = ("gemini", "bard")
_ACTIVITY: Final = re.compile(r"(?i)my ?activity\.(?:json|html)")
_BREAKS: Final = re.compile(r"(?i)<(?:br|/p|/li|/h\d|/tr|/div|/pre)\b[^<>]*>\s*")
_ITEMS: Final = re.compile(r"(?i)<li\b[^<>]*>")
_MARKS: Final = re.compile(r"<[^<>]*>")
_ACTIONS: Final = exports.LeftOut(
    "actions in Gemini's apps that are no prompt", "action in Gemini's apps that is no prompt"
)
_OTHERS: Final = exports.LeftOut("activities in other products", "activity in another product")


def is_gemini_activity(values: dict[str, Any]) -> bool:
    """Say whether an activity is one in Gemini's apps, which an account in any language calls by its name."""
    named = [values.get("header"), *fields.list_at(values, "products")]
    return any(app in name.lower() for name in named if isinstance(name, str) for app in _APPS)


def activity_files(path: Path) -> list[str]:
    """Return the members of a Takeout that hold activities in Gemini's apps; those of HTML too."""
    several = exports.members(path, re.compile(r"(?i).*\.(?:json|html)"))
    return [name for name in several if _ACTIVITY.fullmatch(exports.own_name(name)) or "gemini" in name.lower()]


def read_gemini_apps(path: Path, choices: fields.Choices) -> Iterator[exports.Entry]:
    """Yield prompts and answers of Takeout's activity in Gemini's apps, which has no ids and no conversations."""
    several = activity_files(path) if path.is_dir() or exports.is_archive(path) else [""]
    documents = [name for name in several if not name.endswith(".html")]
    if not documents:
        raise UnusableFile("There is no activity in JSON in it: in Takeout, choose My Activity, its format JSON.")
    for member in documents:
        with exports.open_document(path, member) as stream:
            yield from exports.read_each(exports.items(stream), partial(_activity, choices=choices))


def _activity(item: UncheckedRow, choices: fields.Choices) -> Iterator[exports.Entry]:
    values = item.values
    title = values.get("title")
    texts = [fields.value_at(each, "html") for each in fields.list_at(values, "safeHtmlItem")]
    answer = fields.join_texts(_words(text) for text in texts if isinstance(text, str))
    if not is_gemini_activity(values):
        yield _OTHERS
        return
    typed = _TYPED.match(title) if isinstance(title, str) else None
    if not isinstance(title, str) or _DONE.match(title) or not (typed or answer):
        yield _ACTIONS
        return
    prompt = _ATTACHED.sub("", title[typed.end() if typed else 0 :].rstrip()).strip()
    at = values.get("time")
    known = hashlib.blake2b(f"{at}\0{prompt}".encode(errors="surrogatepass"), digest_size=16).hexdigest()
    said = fields.Conversation("gemini-apps", item.line, known, choices)
    yield said.turn(known, 0, fields.USER, prompt, at) if prompt else fields.NO_TEXT
    if answer:
        yield said.turn(f"{known}#answer", 1, fields.ASSISTANT, answer, at)


def _words(text: str) -> str:
    """Return the words of an answer in HTML, on lines as it has them."""
    text = _MARKS.sub("", _ITEMS.sub("- ", _BREAKS.sub("\n", text.replace("\n", " "))))
    return "\n".join(line.strip() for line in html.unescape(text).splitlines()).strip()
