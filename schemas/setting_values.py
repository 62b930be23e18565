"""Parse the values of settings: a function for each kind of environment variable, or one that returns a parser.

They raise ValueError, which says what the variable takes.
"""

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engramq.schemas.fields import NOT_IN_NAMES, compose_letters, tag_key
from engramq.schemas.redis_urls import FORMS, is_cluster, is_sentinel, read_servers, sentinels_of, with_name_check
from engramq.schemas.vocabulary import LANGUAGES, SYSTEM_NAMESPACE, SYSTEM_PRINCIPAL


def number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:  # false for NaN too
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return value

    return parse


def integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def flag(text: str) -> bool:
    if text.lower() not in {"0", "1", "true", "false", "yes", "no", "on", "off"}:
        raise ValueError("must be 1 or 0")
    return text.lower() in {"1", "true", "yes", "on"}


def one_of(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        if text not in set(words):
            raise ValueError(f"must be one of {', '.join(words)}")
        return words(text)

    return parse


def url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text and not text.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")
        # Drivers say what they cannot read with the URL itself, its password included.
        if re.search("%(?![0-9A-Fa-f]{2})", text):
            raise ValueError("must have each % that stands for itself, as in a password, written as %25")
        try:
            parts = urlsplit(text)
            _ = parts.port if "," not in parts.netloc else None  # libpq takes several hosts
        except ValueError:
            raise ValueError("must be a URL whose host and port can be read") from None
        return text

    return parse


def redis_url(text: str) -> str:
    if url(*FORMS)(text) and is_cluster(text):
        read_servers(text)
    elif is_sentinel(text):
        sentinels_of(text)
    return with_name_check(text)


def name(text: str) -> str:
    # Bytes of the environment that are no UTF-8 come as halves of surrogate pairs, which nothing could keep.
    if not text.strip() or len(text) > 255 or re.search("[\0\ud800-\udfff]", text):
        raise ValueError("must be a text of 1 to 255 characters in UTF-8")
    if NOT_IN_NAMES.search(text):
        raise ValueError("must have no line break or other control character, and no mark that turns text around")
    return text


def note(text: str) -> str:
    if not text.strip() or len(text) > 2_000 or re.search("[\0\ud800-\udfff]", text):
        raise ValueError("must be a text of 1 to 2000 characters in UTF-8")
    return text


def language(text: str) -> str:
    if text not in LANGUAGES:
        raise ValueError(f"must be one of {', '.join(LANGUAGES)}")
    return text


def time_zone(text: str) -> tzinfo:
    try:
        # UTC is known where no zones are installed. PostgreSQL has to know the name too, which it does of those with a
        # capital: not of localtime and the like.
        return UTC if text == "UTC" else ZoneInfo(text if text[:1].isupper() else "")
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a folder of zones
        raise ValueError("must be the name of a time zone, such as Europe/Berlin or UTC") from None


def namespace(text: str) -> str:
    if name(text) == SYSTEM_NAMESPACE:
        raise ValueError("must be another one: it is engramq's own")
    return text


def principal(text: str) -> str:
    if name(text) == SYSTEM_PRINCIPAL:
        raise ValueError("must be another one: it is engramq's own")
    return text


def project(text: str) -> str:
    return name(compose_letters(text)) if text else text


def key_prefix(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ValueError("must be 1 to 64 letters, digits, '.', '_' or '-'")
    return text


def log_level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
    return text.upper()


def home(text: str) -> Path:
    return Path(text).expanduser().absolute()


def optional(parse: Callable[[str], float]) -> Callable[[str], float | None]:
    """Return a parser that takes an empty text for None."""
    return lambda text: parse(text) if text else None


class Listening(NamedTuple):
    """Where a process listens; port 0 takes a free one."""

    host: str
    port: int


def listening(text: str) -> Listening | None:
    """Return where `8901`, `0.0.0.0:8901` or `[::1]:8901` says to listen; None for an empty text."""
    host, colon, port = text.rpartition(":")
    if colon and not re.fullmatch(r"[\w.:%\[\]-]{1,255}", host):  # Kubernetes describes ports as tcp://10.0.0.1:80
        raise ValueError("must be a port, or an address and a port such as 0.0.0.0:9465")
    return Listening(host if colon else "127.0.0.1", integer(0, 65_535)(port)) if text else None


def _split(text: str) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _authority(text: str) -> SplitResult:
    """Split `scheme://host[:port]`; raises ValueError for anything beside these."""
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username is not None:
        raise ValueError("must be like https://memory.example.org")
    if parts.path.strip("/") or parts.query or parts.fragment or not re.fullmatch(r"[!-~]+", text):
        raise ValueError("must be scheme, host and port alone, like https://memory.example.org")
    if parts.port == 0:  # .port raises ValueError by itself for what is no port
        raise ValueError("must have a port from 1 to 65535")
    return parts


def origin(text: str) -> str:
    """Return `scheme://host[:port]` as browsers write it: lower case, without the scheme's usual port."""
    parts = _authority(text)
    shown = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{shown}" + (f":{parts.port}" if parts.port not in (None, usual) else "")


class Public(NamedTuple):
    """By what clients reach a server: its origin, which it announces, further names, as in a Host header, and pages."""

    url: str = ""
    names: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()  # the origins of web pages that may call


def public(text: str) -> Public:
    """Return what a text such as `https://memory.example.org, pod-7, https://app.example.org` says.

    IPv6 addresses are in brackets. Only behind an address are origins those of pages.
    """
    parts = _split(text)
    url = origin(parts.pop(0)) if parts and "://" in parts[0] else ""
    pages = tuple(origin(part) for part in parts if url and "://" in part)
    names = tuple(part.lower() for part in parts if not (url and "://" in part))
    for host in names:
        if not re.fullmatch(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]", host):
            raise ValueError("must be like https://memory.example.org, with further names without ports after commas")
    return Public(url, names, pages)


def networks(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ipaddress.ip_network(part)) for part in _split(text))
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.0.0.0/8, with commas") from None


def words(text: str) -> tuple[str, ...]:
    return tuple(_split(text))


def file(text: str) -> Path | None:
    path = Path(text).expanduser()
    if text and not path.is_absolute():  # another process reads it, from a folder of its own
        raise ValueError("must be an absolute path")
    return path if text else None


def keys(text: str) -> str | Path | None:
    return url("https://", "http://")(text) if "://" in text else file(text)


class Quotas(NamedTuple):
    """The limits of a namespace and of each of its principals; 0: no limit. Calls are a minute's."""

    memories: int = 0
    bytes: int = 0
    calls: int = 0
    principal_memories: int = 0
    principal_bytes: int = 0
    principal_calls: int = 0
    principal_calls_per_second: int | None = None  # so many, and twice as many in a burst; None: as call_limits says


def pairs(text: str, names: Collection[str]) -> dict[str, str]:
    """Return the parts of a text such as `calls=60, bytes=1000`, each name once; raises ValueError for any other."""
    parts = [part.partition("=") for part in _split(text)]
    given = {name.strip(): value.strip() for name, _, value in parts}
    if len(given) < len(parts) or not all(value and name in names for name, value in given.items()):
        raise ValueError(f"must be pairs like {next(iter(names))}=VALUE, with commas, of {', '.join(names)}")
    return given


def quotas(text: str) -> Quotas:
    return Quotas(**{name: integer(0, 10**15)(value) for name, value in pairs(text, Quotas._fields).items()})


_RULE: Final = re.compile(r"(source_type|tag):(.{1,255})=(\d{1,5})([dh])", re.DOTALL)
_UNITS: Final = {"d": "days", "h": "hours"}


class Retention(NamedTuple):
    """One rule: a memory of this source type, or with this tag (the other is None), expires after so long."""

    source_type: str | None
    tag: str | None
    kept_for: timedelta

    def is_about(self, source_type: str | None, tags: Collection[str]) -> bool:
        """Say whether the rule is about a memory of this source type and with these tags."""
        if self.tag is not None:
            return tag_key(self.tag) in map(tag_key, tags)
        return self.source_type == source_type


def parse_retention(text: str) -> tuple[Retention, ...]:
    """Return the rules in a text such as `source_type:research=30d, tag:scratch=12h`, the shortest first.

    Raises ValueError for any other text.
    """
    rules = []
    for part in filter(None, map(str.strip, text.split(","))):
        found = _RULE.fullmatch(part)
        if found is None or not found[2].strip() or not int(found[3]):
            raise ValueError("must be rules like source_type:research=30d or tag:scratch=12h, with commas")
        word, kept_for = found[2].strip(), timedelta(**{_UNITS[found[4]]: int(found[3])})
        of_source = found[1] == "source_type"
        rules.append(Retention(word if of_source else None, None if of_source else word, kept_for))
    return tuple(sorted(rules, key=lambda rule: rule.kept_for))


def kept_for(rules: Iterable[Retention], source_type: str | None, tags: Collection[str]) -> timedelta | None:
    """Return the time that the first rule about such a memory gives it, None where none is about it."""
    return next((rule.kept_for for rule in rules if rule.is_about(source_type, tags)), None)
