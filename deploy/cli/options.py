"""The options that several commands have, and the types of options that the settings do not know.

A type is a function that reads a text and raises ValueError saying what is wrong with it; click shows that.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import UUID

import click

from engramq.deploy.local import settings
from engramq.evidence.files import NotCitable, cite
from engramq.schemas.ids import parse_time, parse_uuid
from engramq.schemas.setting_values import integer, namespace, note
from engramq.schemas.settings import SETTINGS, SettingsError
from engramq.schemas.vocabulary import MemoryState, Partition, Scope, Sector, Verification, Visibility

CommandBody = TypeVar("CommandBody", bound=Callable[..., Any])

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_SPAN: Final = re.compile(r"([1-9]\d{0,5})([hdw])")
# Ids begin with the time in milliseconds, 12 hex digits; 8 of them are a minute.
LEAST_DIGITS: Final = 8
BEGINNING: Final = re.compile(r"[0-9a-f]{8}(-([0-9a-f]{0,4}(-[0-9a-f]{0,4}){0,2}(-[0-9a-f]{0,12})?)?)?", re.IGNORECASE)
_WITH_LINES: Final = re.compile(r"(.+):([1-9][0-9]*(?:-[1-9][0-9]*)?)")
_OPTIONS: Final = {settings.HOST: "--host", settings.PORT: "--port"}


def end_time(text: str) -> datetime:
    """Return the moment at which a span ends: of a date its last."""
    return parse_time(text, end_of_day=True)


def expiry(text: str) -> datetime:
    """Return the moment that `text` names or that is so long from now; raises ValueError when it is no future one."""
    now = datetime.now(UTC)
    span = _SPAN.fullmatch(text)
    try:
        moment = now + int(span[1]) * _UNITS[span[2]] if span else end_time(text)
    except OverflowError:
        raise ValueError(f"{text!r} is too far away") from None
    except ValueError as problem:
        raise ValueError(f"{problem}, nor a time from now (90d, 12h, 4w)") from None
    if moment <= now:
        raise ValueError(f"{text!r} has passed")
    return moment


def identifier(text: str) -> UUID:
    """Return the id that a text is."""
    parsed = parse_uuid(text)
    if parsed is None:
        raise ValueError(f"{text!r} is no id")
    return parsed


def scopes(text: str) -> tuple[Scope, ...]:
    """Return the scopes that are named with commas, in their own order and each once."""
    words = [word.strip() for word in text.split(",")]
    unknown = [word for word in words if word not in set(Scope)]
    if unknown:
        raise ValueError(f"there is no scope {unknown[0]!r}; there are {', '.join(Scope)}")
    return tuple(scope for scope in Scope if scope in words)


def of_setting(field: str) -> Callable[[str], Any]:
    """Return what reads the environment variable of a setting, for the option that stands for it."""
    return next(setting.parse for setting in SETTINGS if setting.field == field)


def address_options(body: CommandBody) -> CommandBody:
    """Give a command --host and --port."""
    port = click.option(
        "--port", metavar="PORT", type=of_setting("port"), help="The port; 0 takes a free one. Default: ENGRAMQ_PORT."
    )
    host = click.option(
        "--host", metavar="HOST", type=of_setting("host"), help="The address to listen on. Default: ENGRAMQ_HOST."
    )
    return host(port(body))


def address_variables(host: str | None, port: int | None) -> dict[str, str]:
    """Return the variables that --host and --port stand for."""
    given = {settings.HOST: host, settings.PORT: port}
    return {name: str(value) for name, value in given.items() if value is not None}


@contextlib.contextmanager
def named_as_options(given: Mapping[str, str]) -> Iterator[None]:
    """Let a SettingsError that is about one of these variables name the option that it came by."""
    try:
        yield
    except SettingsError as problem:
        variable, colon, rest = str(problem).partition(":")
        raise SettingsError(_OPTIONS[variable] + colon + rest if variable in given else str(problem)) from None


def limit_option(most: int, default: int, about: str, *, least: int = 1) -> Callable[[CommandBody], CommandBody]:
    """Return the option --limit of a command that lists things: at most `most`, `default` unless it is given."""
    return click.option(
        "--limit", metavar="N", type=integer(least, most), default=str(default), show_default=True, help=about
    )


WHOLE_REPLY: Final = 200_000  # characters: no agent's context has to be spared


def _words(name: str, words: type[Partition | Sector | MemoryState | Verification], text: str) -> Any:
    return click.option(
        f"--{name}", f"{name}s", multiple=True, type=click.Choice([str(word) for word in words]), help=text
    )


def namespace_option(text: str) -> Callable[[CommandBody], CommandBody]:
    """Return the option --namespace, for a command whose default `text` says."""
    return click.option("--namespace", metavar="NAME", type=namespace, help=text)


def _visibility(_context: click.Context, _option: click.Parameter, private: bool | None) -> Visibility | None:
    return None if private is None else Visibility.PRIVATE if private else Visibility.SHARED


NAMESPACE: Final = namespace_option("Default: ENGRAMQ_NAMESPACE.")
JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
PARTITION: Final = _words("partition", Partition, "Default: trusted; repeat it for both.")
SECTOR: Final = _words("sector", Sector, "Only these.")
STATE: Final = _words("state", MemoryState, "Default: active and pending.")
VERIFICATION: Final = _words("verification", Verification, "Default: all but rejected.")
TAG: Final = click.option("--tag", "tags", metavar="TAG", multiple=True, help="Repeat it for several: all of them.")
PROJECT: Final = click.option(
    "--project", metavar="NAME", help="Default: ENGRAMQ_PROJECT, else what is in no project. '*': every project."
)
ONLY: Final = click.option(
    "--only", "project_only", is_flag=True, help="Only of that project, without memories that are in no project."
)
PRIVATE: Final = click.option(
    "--private/--shared",
    "visibility",
    default=None,
    callback=_visibility,
    help="Visible to its author alone, or to everybody in the namespace.",
)
THREAD: Final = click.option("--thread", metavar="NAME", help="Conversation or document.")
AS_OF: Final = click.option("--as-of", metavar="TIME", help="As it was then: a date, or a time.")
SUPERSEDED: Final = click.option("--include-superseded", is_flag=True, help="Also what was replaced.")
REASON: Final = click.option("--reason", metavar="TEXT", type=note, help="For the audit log.")


def citation_of(text: str) -> dict[str, str]:
    """Return the citation that a text means; raises click's error for a file that cannot be cited."""
    if (known := parse_uuid(text)) is not None:
        return {"memory_id": str(known)}
    if BEGINNING.fullmatch(text) and not Path(text).exists():
        return {"memory_id": text}
    if text.startswith(("https://", "http://")):
        return {"url": text}
    found = None if Path(text).exists() else _WITH_LINES.fullmatch(text)
    path, lines = (found[1], found[2]) if found else (text, "")
    try:
        return cite(path, lines)
    except NotCitable as problem:
        raise click.BadParameter(f"{problem}.") from None


EVIDENCE: Final = click.option(
    "--evidence",
    "evidence",
    metavar="WHAT",
    multiple=True,
    callback=lambda _context, _option, given: tuple(map(citation_of, given)),
    help="Its evidence: FILE, FILE:3-9, a memory's id or its beginning, or an address. Repeat it for several.",
)


def span_options(body: CommandBody) -> CommandBody:
    """Give a command the options by when something happened, and by when it was stored."""
    return options(
        click.option("--since", metavar="TIME", help="Happened, else stored, then or later: a date, or a time."),
        click.option("--until", metavar="TIME", help="Happened, else stored, then or before."),
        click.option("--stored-since", metavar="TIME", help="Stored then or later."),
        click.option("--stored-until", metavar="TIME", help="Stored then or before."),
    )(body)


def options(*several: Callable[[CommandBody], CommandBody]) -> Callable[[CommandBody], CommandBody]:
    """Return what gives a command these options, in this order."""

    def given(body: CommandBody) -> CommandBody:
        for option in reversed(several):
            body = option(body)
        return body

    return given


def refuse_options(context: click.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that say nothing of what the command is given."""
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name or "") is not click.core.ParameterSource.DEFAULT
        if given and parameter.name in names:
            raise click.UsageError(f"{parameter.opts[0]} is for {why}.")


def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given, as a tool takes it: without what was left out."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value is not None and value != () and value is not False
    }


def require_folder(file: Path, hint: str) -> None:
    """Refuse a file whose folder cannot be written to; `hint` names the argument or option."""
    if not os.access(file.absolute().parent, os.W_OK):
        raise click.BadParameter(f"{str(file.parent)!r} is no folder that can be written to.", param_hint=f"'{hint}'")


def can_ask() -> bool:
    """Say whether somebody sits at a terminal who can answer a question."""
    return sys.stdin is not None and sys.stdin.isatty()
