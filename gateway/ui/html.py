"""Fill the templates of the page and serve its files. Contents of memories are escaped: they are data, never markup."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engramq.gateway.ui.effects import say_effect
from engramq.gateway.ui.languages import ENGLISH, extension_for, read_messages
from engramq.gateway.ui.reasons import say_details, say_reason
from engramq.gateway.ui.texts import compare_texts, drop_marks, reveal, set_markdown
from engramq.schemas.vocabulary import Scope

LIST_CHARS: Final = 320  # of a text in a list; what is longer is cut there
# What a digest covers beside and lists do not show; metadata may hold as much to be obeyed as a text.
_UNSHOWN: Final = ("metadata", "external_id", "position", "valid_from", "valid_until", "expires_at", "evidence")

# The parts of which a score is the sum, as search's `explain` names them.
PART_MEANINGS: Final[Mapping[str, str]] = {
    "lexical": "words of the question in it",
    "similarity": "meaning: the cosine of the vectors",
    "tells_self": "its speaker tells of themselves",
    "only_asks": "it only asks",
    "speaker": "the question names its speaker",
    "date": "it is of the date in the question",
    "next_to": "a memory next to it matches",
    "near_to": "a memory near it matches",
    "answers": "it answers a question that matches",
    "best_of_thread": "the best match of its thread",
    "links": "links to other good matches",
    "usefulness": "how useful it has proved",
    "recency": "how long it has lain idle",
}

# The effect of a form, as the next page says it.
DONE: Final[Mapping[str, str]] = {
    "archived": "The memory is archived. Searches do not show it; Restore brings it back.",
    "erased": "The memory is erased for good.",
    "restored": "The memory is back.",
    "verified": "The verification is changed.",
    "promoted": "The memory is trusted now: searches show it.",
    "shared": "Everybody in the namespace sees the memory now.",
    "consent_required": "Somebody else has to agree first, on the page Approvals. Then share it again.",
    "private": "The memory is private now: you alone see it.",
    "built_on": "Others have built on the memory, so that it stays shared. Archive it instead, or talk to them.",
    "already_trusted": "The memory was trusted already.",
    "changed": "The memory is changed. The audit log has what it was.",
    "stored": "The memory is stored.",
    "both_hold": "Both hold: they are listed here no more.",
    "decided": "One holds in the place of the other, which stays in its history.",
    "superseded": "The new words are stored, and supersede the old ones.",
    "made_before": "That token was made before and is shown once. If it was not noted, revoke it and make another one.",
    "revoked": "The token counts no longer, in half a minute at the latest.",
    "already_revoked": "The token did not count any more.",
    "graph_restored": "The deleted parts are back in the graph.",
    "already_restored": "It had been brought back before.",
    "recorded": "Your decision is recorded.",
    "pending": "It takes longer than usual. The change will be made; load the page again in a moment.",
    "language": "The language is changed.",
    "signed_out": "You are signed out.",
}

# The pages of the navigation: address, name, key after g, the scope that it needs.
PAGES: Final = (
    ("/ui", "Start", "s", ""),
    ("/ui/memories", "Memories", "m", ""),
    ("/ui/changes", "Changes", "w", ""),
    ("/ui/contradictions", "Contradictions", "c", ""),
    ("/ui/standing", "Standing wishes", "b", ""),
    ("/ui/graph", "Graph", "g", ""),
    ("/ui/inbox", "Inbox", "i", ""),
    ("/ui/consent", "Approvals", "a", ""),
    ("/ui/imports", "Import and export", "p", ""),
    ("/ui/audit", "Audit", "u", Scope.ADMIN),
    ("/ui/tokens", "Tokens", "t", Scope.ADMIN),
    ("/ui/system", "System", "y", ""),
)

ACTIONS: Final[Mapping[str, str]] = {
    "supersede": "superseded", "update": "updated", "archive": "archived", "erase": "erased", "restore": "restored",
    "reclassify": "reclassified", "update_edge": "changed an edge", "update_node": "changed a node",
    "delete_edge": "deleted an edge", "delete_node": "deleted a node", "restore_edge": "restored an edge",
    "restore_node": "restored a node", "propose": "proposed", "decide": "decided", "connect": "linked",
    "disconnect": "unlinked", "resolve_deferred": "settled a waiting link", "outcome": "recorded an outcome",
    "verify": "verified", "promote": "promoted", "purge": "purged", "create_token": "made a token",
    "revoke_token": "revoked a token", "share": "shared", "unshare": "made private",
    "hand_over": "handed private memories over", "check_evidence": "compared evidence",
    "rename_project": "renamed a project", "erase_deleted": "erased what was deleted",
    "erase_proposal": "erased a proposal", "erase_properties": "erased properties", "take_back": "took changes back",
    "delete_tenant": "deleted the namespace", "restore_tenant": "restored the namespace",
    "export_tenant": "exported the namespace",
    "configure_tenant": "configured the namespace", "add_webhook": "added a webhook",
    "remove_webhook": "removed a webhook", "retry_command": "retried a command", "drop_command": "dropped a command",
}  # fmt: skip


HERE: Final = Path(__file__).parent
STATIC: Final = "/ui/static"
_DIGEST_CHARS: Final = 12
_SHOWN_ID_CHARS: Final = 8
AGO: Final = "{} ago"
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_OTHER_SIGNS: Final = str.maketrans(",.", ".,")
# Words that page.js and graph.js say by themselves.
SCRIPT_WORDS: Final = (
    "Copied",
    "Selected",
    "That cannot be done here.",
    "Expand",
    "Open",
    "nodes",
    "edges",
    "of",
    "more are not drawn; the most is",
    "What is around it cannot be read now. Load the page again.",
    "The file is too large for the page.",
)
_EXTRA_TYPES: Final = {".txt": "text/plain; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page; its path has a digest of its content, so that browsers may keep it for ever."""

    path: str
    media_type: str
    content: bytes


@cache
def read_assets() -> Mapping[str, Asset]:
    """Return the files of the page by their names."""
    return {file.name: _asset(file) for file in sorted((HERE / "static").iterdir()) if file.is_file()}


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
    guessed = _EXTRA_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Asset(f"{STATIC}/{digest}/{file.name}", guessed, content)


@cache  # a process compiles each template once, however many gateways it has
def environment(language: str = ENGLISH) -> Environment:
    """Return what renders the templates in a language; `asset(name)` in them is the path of a file."""
    assets, messages = read_assets(), read_messages()
    texts = messages[language]
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        extensions=["jinja2.ext.loopcontrols", extension_for(texts)],
    )
    made.filters |= {"when": when, "day": day, "short": short, "unhidden": reveal, "json": as_json}
    made.filters |= {
        "number": partial(format_number, language=language),
        "signed": partial(with_sign, language=language),
    }
    made.filters |= {"markdown": set_markdown, "plain": drop_marks}
    made.filters |= {"t": partial(say_word, messages=texts), "reason": partial(say_reason, messages=texts)}
    made.filters |= {"effect": partial(say_effect, messages=texts)}
    made.filters |= {"detail": lambda text, memory: say_details(text, texts, memory)}
    made.filters |= {"since": partial(since, said=texts.get(AGO, AGO))}
    made.globals |= {"asset": lambda name: assets[name].path, "bar": bar, "column": column, "row_seen": row_seen}
    made.globals |= {
        "PAGES": PAGES,
        "language": language,
        "languages": list(messages),
        "script_words": {word: texts.get(word, word) for word in SCRIPT_WORDS},
        "changes_between": compare_texts,
        "LIST_CHARS": LIST_CHARS,
        "part_kind": lambda name: PART_MEANINGS.get(name, name),
        "action_words": ACTIONS,
    }
    return made


def say_word(text: str, field: str = "", *, messages: Mapping[str, str]) -> str:
    """Return a text as a language has it; a word that means something else elsewhere is looked up by its field."""
    return messages.get(f"{field} {text}" if field else text, text)


def row_seen(memory: Mapping[str, Any]) -> str:
    """Return a row of a list as it was seen: its id, and the digest where the list shows all that it covers."""
    is_whole = len(memory["content"]) <= LIST_CHARS and all(memory.get(name) in (None, "", {}, []) for name in _UNSHOWN)
    return f"{memory['id']}.{memory['digest']}" if is_whole and memory.get("digest") else str(memory["id"])


def when(text: str | None) -> Markup:
    """Return a time to the second, with the whole of it for programs; page.js puts it into the reader's zone."""
    if not text:
        return Markup("")
    zone = "UTC" if text.endswith("Z") else text[-6:]
    shown = text[:19].replace("T", " ")
    return Markup('<time datetime="{}" title="{} ({})">{} {}</time>').format(text, text, zone, shown, zone)


def day(text: str | None) -> Markup:
    """Return the day of a time, with the whole of it for programs; what was given as a date is that date anywhere."""
    if not text:
        return Markup("")
    moves = Markup("") if text[10:19] == "T00:00:00" else Markup(" data-day")
    return Markup('<time datetime="{}" title="{} (UTC)"{}>{}</time>').format(text, text, moves, text[:10])


def since(text: str | None, said: str = AGO) -> Markup:
    """Return how long ago a time was, with the whole of it for programs; page.js says it in the reader's language."""
    if not text:
        return Markup("")
    return Markup('<time datetime="{}" title="{} UTC" data-ago>{}</time>').format(
        text, text[:16].replace("T", " "), ago(text, said)
    )


def ago(text: str, said: str = AGO, now: datetime | None = None) -> str:
    """Return how long ago a time was, in its largest unit, as a language says it."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return said.format(span(((now or datetime.now(UTC)) - moment).total_seconds()))


def span(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def format_number(value: float | None, digits: int = 0, *, language: str = ENGLISH) -> str:
    """Return a number with its thousands apart, as a language writes it; a dash for what nobody knows."""
    if value is None:
        return "–"
    written = f"{value:,.{digits}f}"
    return written if language == ENGLISH else written.translate(_OTHER_SIGNS)


def with_sign(value: float, *, language: str = ENGLISH) -> str:
    """Return a number with its sign and three digits; what is nothing by then has no sign to its disadvantage."""
    written = f"{round(value, 3) + 0.0:+.3f}"
    return written if language == ENGLISH else written.translate(_OTHER_SIGNS)


def short(identifier: str) -> str:
    """Return the end of an id, which tells ids of the same moment apart."""
    return identifier[-_SHOWN_ID_CHARS:]


def as_json(value: Any) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def bar(part: float | None, widest: float) -> Markup:
    """Return a picture of one part of a score, to the right of the middle if it adds and to the left if it takes away.

    Its bounds are attributes: the page's policy allows no inline style.
    """
    share = 0.0 if not part or not widest else max(-1.0, min(1.0, part / widest))
    x, kind = (50 + min(share, 0) * 50, "minus" if share < 0 else "plus")
    return Markup(
        '<svg class="part" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="8"></rect>'
        '<rect class="middle" x="49.6" y="0" width="0.8" height="8"></rect></svg>'
    ).format(kind, x, abs(share) * 50)


def column(share: float) -> Markup:
    """Return the picture of a bar; its bounds are attributes, since the page's policy allows no inline style."""
    height = max(share, 4.0)  # one memory beside a large import can be seen, too
    return Markup(
        '<svg viewBox="0 0 10 100" preserveAspectRatio="none" aria-hidden="true">'
        '<rect x="0" y="{:.1f}" width="10" height="{:.1f}"></rect></svg>'
    ).format(100 - height, height)
