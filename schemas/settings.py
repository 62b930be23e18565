"""Settings: one documented table of environment variables, read once into a frozen struct.

Nothing here reads the environment by itself; the entry points pass `os.environ` in. A bad value is refused at start
with a SettingsError that names the variable.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.vocabulary import DEFAULT_NAMESPACE, DEFAULT_PRINCIPAL

PREFIX: Final = "ENGRAMQ_"


class SettingsError(ValueError):
    """A setting has a value that cannot be used; the message names the variable and what it takes."""


class Auth(StrEnum):
    """How HTTP callers prove who they are."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - the name of a method, not a token
    JWT = "jwt"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Times are in seconds, bounds in commands; see SETTINGS for what each means."""

    home: Path
    database_url: str
    redis_url: str
    key_prefix: str
    namespace: str
    principal: str
    auth: Auth
    host: str
    port: int
    tools: str
    output_schemas: bool
    reply_timeout_s: float
    mailbox_bound: int
    embedder: str
    embedder_url: str
    embedder_key: str
    degree_cap: int
    reinforce_delta: float
    link_threshold: float
    similar_threshold: float
    linger_s: float
    sweep_interval_s: float
    log_level: str
    otel_endpoint: str


class Setting(msgspec.Struct, frozen=True):
    """One line of the table: the variable is PREFIX + the field's name in capitals."""

    field: str
    default: str
    meaning: str
    parse: Callable[[str], Any]
    secret: bool = False

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return PREFIX + self.field.upper()


def _number(low: float, high: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = float(text)
        if not low <= value <= high:  # false for NaN too
            raise ValueError(f"must be a number from {low:g} to {high:g}")
        return value

    return parse


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


def _flag(text: str) -> bool:
    if text.lower() not in {"0", "1", "true", "false", "yes", "no"}:
        raise ValueError("must be 1 or 0")
    return text.lower() in {"1", "true", "yes"}


def _one_of(words: type[StrEnum]) -> Callable[[str], StrEnum]:
    def parse(text: str) -> StrEnum:
        if text not in set(words):
            raise ValueError(f"must be one of {', '.join(words)}")
        return words(text)

    return parse


def _url(*schemes: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text and not text.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")
        return text

    return parse


def _name(text: str) -> str:
    # Bytes of the environment that are no UTF-8 come as halves of surrogate pairs, which nothing could keep.
    if not text.strip() or len(text) > 255 or re.search("[\0\ud800-\udfff]", text):
        raise ValueError("must be a text of 1 to 255 characters in UTF-8")
    return text


def _key_prefix(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", text):
        raise ValueError("must be 1 to 64 letters, digits, '.', '_' or '-'")
    return text


def _log_level(text: str) -> str:
    if text.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise ValueError("must be DEBUG, INFO, WARNING or ERROR")
    return text.upper()


def _home(text: str) -> Path:
    return Path(text).expanduser().absolute()


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("home", "~/.engramq", "Folder of the embedded data, sockets and logs", _home),
    Setting(
        "database_url",
        "",
        "PostgreSQL of your own (17 or later, pgvector 0.8 or later); empty: the embedded one",
        _url("postgresql://", "postgres://"),
        secret=True,
    ),
    Setting(
        "redis_url",
        "",
        "Redis or Valkey of your own (7.0 or later); empty: the embedded one",
        _url("redis://", "rediss://", "unix://"),
        secret=True,
    ),
    Setting(
        "key_prefix", "engramq", "Prefix of every Redis key; tells installations apart that share a Redis", _key_prefix
    ),
    Setting("namespace", DEFAULT_NAMESPACE, "Tenant of stdio clients and of the command line", _name),
    Setting("principal", DEFAULT_PRINCIPAL, "Who stdio clients and the command line are", _name),
    Setting(
        "auth", Auth.NONE, "How HTTP callers prove who they are: none (loopback only), token or jwt", _one_of(Auth)
    ),
    Setting("host", "127.0.0.1", "Address that HTTP is served on", _name),
    Setting("port", "8765", "Port that HTTP is served on; 0 takes a free one", _integer(0, 65_535)),
    Setting("tools", "full", "Tools that are listed and can be called: full, core, or names with commas", _name),
    Setting("output_schemas", "0", "Advertise output schemas too (they eat the context window)", _flag),
    Setting("reply_timeout_s", "10", "Seconds that the gateway waits for a reply", _number(0.05, 600)),
    Setting(
        "mailbox_bound",
        "10000",
        "Commands that may wait in one mailbox before callers are refused",
        _integer(1, 10_000_000),
    ),
    Setting("embedder", "minilm", "minilm, hash (tests only) or openai:MODEL[@DIMENSIONS]", _name),
    Setting("embedder_url", "", "Base URL of an OpenAI-compatible embeddings endpoint", _url("http://", "https://")),
    Setting("embedder_key", "", "Bearer key of that endpoint", str, secret=True),
    Setting("degree_cap", "10", "Most links that a memory may have", _integer(1, 10_000)),
    Setting("reinforce_delta", "0.10", "Weight that a link gains when it is reinforced", _number(0, 1)),
    Setting("link_threshold", "0.60", "Cosine from which a new memory is linked to others", _number(0, 1)),
    Setting("similar_threshold", "0.50", "Cosine from which a store shows a similar memory", _number(0, 1)),
    Setting("linger_s", "5", "Seconds that the embedded stack outlives its last client", _number(0, 86_400)),
    Setting("sweep_interval_s", "5", "Seconds between two looks for unfinished work", _number(0.05, 3_600)),
    Setting("log_level", "INFO", "DEBUG, INFO, WARNING or ERROR", _log_level),
    Setting("otel_endpoint", "", "OpenTelemetry collector that traces go to", _url("http://", "https://")),
)


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings that `environ` gives; raises SettingsError naming the first variable that is bad.

    An empty variable counts as not set.
    """
    values = {}
    for setting in SETTINGS:
        text = environ.get(setting.variable) or setting.default
        try:
            values[setting.field] = setting.parse(text)
        except ValueError as problem:
            shown = "its value" if setting.secret else repr(text)
            raise SettingsError(f"{setting.variable}: {shown} cannot be used: {problem}") from None
    settings = Settings(**values)
    if settings.auth is not Auth.NONE:
        raise SettingsError(f"ENGRAMQ_AUTH: {settings.auth.value!r} is not there yet; only none is, on loopback.")
    if not is_loopback(settings.host):
        raise SettingsError(
            f"ENGRAMQ_HOST: {settings.host!r} is not a loopback address, and without authentication nothing else "
            "is served. Use 127.0.0.1."
        )
    return settings


def is_loopback(host: str) -> bool:
    """Say whether binding to `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
