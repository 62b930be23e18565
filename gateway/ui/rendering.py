"""Templates and files of the page. Whatever a template shows is escaped: what memories hold is data, never markup."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from engramq.gateway.ui.words import ACTIONS, kind_of_part

HERE: Final = Path(__file__).parent
STATIC: Final = "/ui/static"
_DIGEST_CHARS: Final = 12
_SHOWN_ID_CHARS: Final = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86_400
_EXTRA_TYPES: Final = {".txt": "text/plain; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the page; its path has a digest of its content, so that browsers may keep it for ever."""

    path: str
    media_type: str
    content: bytes


def read_assets(folder: Path = HERE / "static") -> Mapping[str, Asset]:
    """Return the files of the page by their names."""
    return {file.name: _asset(file) for file in sorted(folder.iterdir()) if file.is_file()}


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]
    guessed = _EXTRA_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return Asset(f"{STATIC}/{digest}/{file.name}", guessed, content)


def environment(assets: Mapping[str, Asset]) -> Environment:
    """Return what renders the templates; `asset(name)` in them is the path of a file."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"when": when, "day": day, "ago": ago, "short": short}
    made.filters |= {"number": number, "signed": signed, "json": as_json}
    made.globals |= {"asset": lambda name: assets[name].path, "bar": bar}
    made.globals |= {"part_kind": kind_of_part, "action_words": ACTIONS}
    return made


def when(text: str | None) -> Markup:
    """Return a time as people read it, to the second, with the whole of it for programs."""
    if not text:
        return Markup("")
    return Markup('<time datetime="{}" title="{} (UTC)">{}</time>').format(text, text, _readable(text, 19))


def day(text: str | None) -> Markup:
    """Return the day of a time, with the whole of it for programs."""
    if not text:
        return Markup("")
    return Markup('<time datetime="{}" title="{} (UTC)">{}</time>').format(text, text, _readable(text, 10))


def _readable(text: str, chars: int) -> str:
    return text[:chars].replace("T", " ")


def ago(text: str, now: datetime | None = None) -> str:
    """Return how long ago a time was, in its largest unit."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return span(((now or datetime.now(UTC)) - moment).total_seconds()) + " ago"


def span(seconds: float) -> str:
    """Return a length of time in its largest unit."""
    for size, unit in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with its thousands apart; a dash for what nobody knows."""
    return "–" if value is None else f"{value:,.{digits}f}"


def signed(value: float) -> str:
    """Return a number with its sign and three digits; what is nothing by then has no sign to its disadvantage."""
    return f"{round(value, 3) + 0.0:+.3f}"


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
