"""Settings: one documented table of environment variables, read once into a frozen struct.

This module does not read the environment; the entry points pass `os.environ` in. A bad value is refused at start
with a SettingsError that names the variable.
"""

# ruff: noqa: RUF009 - each call makes a field of the table

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from engramq.schemas import limits
from engramq.schemas import setting_values as take
from engramq.schemas.limits import LANES_MAX
from engramq.schemas.passwords import without_password
from engramq.schemas.vocabulary import DEFAULT_LANGUAGE, DEFAULT_NAMESPACE, DEFAULT_PRINCIPAL, Detail, Partition

PREFIX: Final = "ENGRAMQ_"
TESTS_PREFIX: Final = f"{PREFIX}TEST_"  # CONTRIBUTING.md says which there are
_LINE: Final = "line"


class SettingsError(ValueError):
    """A setting has a value that cannot be used; the message names the variable and what it takes."""


class Auth(StrEnum):
    """How HTTP callers prove who they are."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - the name of a method, not a token
    JWT = "jwt"


class Redact(StrEnum):
    """Out of which memories secrets are taken before they are kept."""

    IMPORTS = "imports"
    ALL = "all"
    OFF = "off"


class Jwt(NamedTuple):
    """Which JWTs are good, and which claims name the tenant, list the scopes, and are true for an untrusted principal.

    `keys`: the URL of the issuer's JWKS, or a file with its public key (PEM).
    """

    issuer: str = ""
    audience: tuple[str, ...] = ()
    keys: str | Path | None = None
    namespace: str = "namespace"
    scope: str = "scope"
    untrusted: str = Partition.UNTRUSTED.value

    @classmethod
    def of(cls, text: str) -> "Jwt":
        """Return what a text such as `issuer=https://a.example, audience=one two, keys=/key.pem, scope=roles` says."""
        given = take.pairs(text, cls._fields)
        audience, keys = given.pop("audience", ""), given.pop("keys", "")
        named = {part: take.name(value) for part, value in given.items()}
        return cls(**named)._replace(audience=tuple(audience.split()), keys=take.keys(keys))  # type: ignore[arg-type] # texts


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table: the variable is PREFIX, or TESTS_PREFIX, + the field's name in capitals."""

    default: str
    meaning: str
    parse: Callable[[str], Any]
    secret: bool = False
    of_tests: bool = False
    field: str = ""

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return (TESTS_PREFIX if self.of_tests else PREFIX) + self.field.upper()


def _setting(
    default: str, meaning: str, parse: Callable[[str], Any], *, secret: bool = False, of_tests: bool = False
) -> Any:
    """Return a field of Settings with its line of the table; one that is of tests is on no page."""
    return field(metadata={_LINE: Setting(default, meaning, parse, secret, of_tests)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, and the table of them. Times are in seconds, bounds in commands."""

    home: Path = _setting("~/.engramq", "Folder of the embedded data, sockets and logs", take.home)
    database_url: str = _setting(
        "",
        "PostgreSQL of your own (17 or later, pgvector 0.8 or later); empty: the embedded one",
        take.url("postgresql://", "postgres://"),
        secret=True,
    )
    migrate_database_url: str = _setting(
        "",
        "PostgreSQL without a pooler, by a role that owns the database, for migrations and `engramq purge --rewrite`; "
        "empty: ENGRAMQ_DATABASE_URL",
        take.url("postgresql://", "postgres://"),
        secret=True,
    )
    redis_url: str = _setting(
        "",
        "Redis or Valkey of your own (7.0 or later), `rediss://` by TLS; empty: the embedded one",
        take.redis_url,
        secret=True,
    )
    lanes: int = _setting(
        "1",
        "Lanes that namespaces are spread over, each a queue of its own: on a Redis Cluster several for each master. "
        "Chosen at installation, equal for all processes; another number is refused while anything waits",
        take.integer(1, LANES_MAX),
    )
    key_prefix: str = _setting(
        "engramq", "Prefix of every Redis key; tells installations apart that share a Redis", take.key_prefix
    )
    namespace: str = _setting(DEFAULT_NAMESPACE, "Tenant of stdio clients and of the command line", take.namespace)
    principal: str = _setting(
        DEFAULT_PRINCIPAL,
        "The principal of stdio clients, the command line and HTTP without tokens: their created_by, and the actor in "
        "the audit log. In a home it is the login name of its user, `I/O` in an older home; else `I/O`",
        take.principal,
    )
    project: str = _setting(
        "",
        "Project of stdio clients, of HTTP without tokens and of imports, for calls that name none: what they "
        "store is in it, and they see it and what is in none. `*` sees all and stores into none; empty: none, but of "
        "a stdio client that of the repository in which it starts",
        take.project,
    )
    auth: Auth = _setting(
        Auth.NONE, "How HTTP callers prove who they are: none (loopback only), token or jwt", take.one_of(Auth)
    )
    host: str = _setting("127.0.0.1", "Address that HTTP is served on", take.name)
    port: int = _setting("8765", "Port that HTTP is served on; 0 takes a free one", take.integer(0, 65_535))
    public_url: take.Public = _setting(
        "",
        "Scheme, host and port by which clients reach HTTP through a proxy, such as `https://memory.example.org`; its "
        "host and origin are allowed. After it, with commas: further names that a Host header may have (`pod-7`), and "
        "origins of web pages that may call (`https://app.example.org`)",
        take.public,
    )
    trusted_proxies: tuple[str, ...] = _setting(
        "", "Addresses or networks of proxies whose X-Forwarded-For is believed, with commas", take.networks
    )
    jwt: Jwt = _setting(
        "",
        "Which JWTs are good: `issuer=https://login.example.org/, audience=https://memory.example.org/mcp, "
        "keys=https://login.example.org/jwks.json`. `audience`: one of several, with spaces. `keys`: where the issuer "
        "publishes them (its JWKS), or a file with its public key (PEM). Claims with other names than `namespace` (the "
        "tenant; a JWT without it is refused), `scope` (`scp` if it is missing) and `untrusted` (true for an untrusted "
        "principal) follow: `namespace=tenant, scope=roles`",
        Jwt.of,
    )
    quotas: take.Quotas = _setting(
        "",
        "Bounds of a namespace, and of each principal of one, with commas: `memories=100000, bytes=500000000, "
        "calls=6000, principal_memories=10000, principal_bytes=50000000, principal_calls=600, "
        "principal_calls_per_second=50`. Archived memories count, bytes are of contents and metadata, calls those of a "
        "minute or a second at one gateway, twice as many in a burst of seconds. 0 or left out: no bound; but of calls "
        "per second a caller with a token may make 200",
        take.quotas,
    )
    tools: str = _setting(
        "everyday",
        "Tools that are listed: everyday, graph (with all of the knowledge graph), full, core (fewest) or names with "
        "commas. everyday and graph take calls of the others by name",
        take.name,
    )
    output_schemas: bool = _setting("0", "Advertise output schemas too (they fill the context window)", take.flag)
    detail: Detail = _setting(
        Detail.BRIEF, "How much replies say unless a call asks otherwise: brief or full", take.one_of(Detail)
    )
    reply_chars: int = _setting(
        str(limits.REPLY_CHARS),
        "Most characters of a reply that holds contents, unless a call asks otherwise",
        take.integer(limits.REPLY_CHARS_MIN, limits.REPLY_CHARS_MAX),
    )
    hook_tokens: int = _setting(
        "800",
        "Most tokens that hooks tell a model at a session's start and with each prompt, up to 3,100; 0: "
        "nothing. Set it where the client runs",
        take.integer(0, 20_000),
    )
    reply_timeout_s: float = _setting("10", "Seconds that the gateway waits for a reply", take.number(0.05, 600))
    mailbox_bound: int = _setting(
        "10000",
        "Commands that may wait in one mailbox before callers are refused, however fast they are served; "
        "of imports one namespace has at most half",
        take.integer(1, 10_000_000),
    )
    embedder: str = _setting(
        "minilm",
        "minilm, e5 (many languages; first run `engramq model build e5`), onnx:FOLDER (a sentence model in ONNX), "
        "openai:MODEL[@DIMENSIONS] or fastembed:MODEL (with the extra of that name)",
        take.name,
    )
    embedder_url: str = _setting(
        "", "Base URL of an OpenAI-compatible embeddings endpoint", take.url("http://", "https://")
    )
    embedder_key: str = _setting("", "Bearer key of that endpoint", str, secret=True)
    language: str = _setting(
        DEFAULT_LANGUAGE,
        "Language whose words full text stems in namespaces that are new: one that PostgreSQL knows, `simple`, "
        "`chinese`, `japanese`, `korean` or `thai`; `engramq tenant config` changes that of one",
        take.language,
    )
    timezone: tzinfo = _setting(
        "UTC",
        "Time zone (an IANA name, such as `Europe/Berlin`) of dates and times that are given without an offset, and of "
        "the days that questions mean: today, last Friday. The same for gateways and workers",
        take.time_zone,
    )
    degree_cap: int = _setting("10", "Most links that a memory may have", take.integer(1, 10_000))
    reinforce_delta: float = _setting("0.10", "Weight that a link gains when it is reinforced", take.number(0, 1))
    link_threshold: float = _setting("0.60", "Cosine from which a new memory is linked to others", take.number(0, 1))
    similar_threshold: float = _setting(
        "0.50", "Cosine from which store_memory shows a similar memory", take.number(0, 1)
    )
    min_relevance: float | None = _setting(
        "",
        "Least relevance of the hits that a search shows where a call names none, 0 (all) to 1; empty: as learned, "
        "none where nothing answers, else all but those that hardly do. Page, `engramq search` and adapters show all",
        take.optional(take.number(0, 1)),
    )
    retention: tuple[take.Retention, ...] = _setting(
        "",
        "How long memories are kept that name no expires_at, by source type or tag, with commas: "
        "`source_type:research=30d, tag:scratch=12h`. They are archived then; restore_memory brings them back",
        take.parse_retention,
    )
    redact: Redact = _setting(
        Redact.IMPORTS,
        "Out of which memories keys, tokens and passwords are taken before they are kept: imports, all (what is stored "
        "too) or off; set it where the gateway or the import runs",
        take.one_of(Redact),
    )
    webhooks_key: str = _setting(
        "",
        "Master key of webhooks' secrets and receipts, at least 32 characters, the same for all "
        "workers and `engramq webhook`; left out: a key that the home keeps",
        str,
        secret=True,
    )
    webhooks_private: bool = _setting("0", "Let webhooks go to private addresses, and by http (1 or 0)", take.flag)
    sweep_interval_s: float = _setting(
        "5", "Seconds between two looks for unfinished work", take.number(0.05, 3_600), of_tests=True
    )
    log_level: str = _setting("INFO", "DEBUG, INFO, WARNING or ERROR", take.log_level)
    otel_endpoint: str = _setting(
        "",
        "Where traces are sent by OTLP over HTTP, such as `http://127.0.0.1:4318`; empty: there are none",
        take.url("http://", "https://"),
    )
    health_port: take.Listening | None = _setting(
        "",
        "Port on which a worker answers every caller about its health, at /healthz and /readyz; 0 takes a free one. "
        "`0.0.0.0:9465` names the address too, else it is 127.0.0.1. Empty: it tells nobody",
        take.listening,
    )
    metrics_port: take.Listening | None = _setting(
        "",
        "Port that a worker serves its metrics on, at /metrics, or address and port as above. Empty: it serves none",
        take.listening,
    )
    metrics_token: str = _setting(
        "",
        "Bearer token that reads /metrics, of gateways and workers, and nothing else. Empty: a gateway that "
        "authenticates its callers wants a token of scope admin, others want none",
        str,
        secret=True,
    )


SETTINGS: Final[tuple[Setting, ...]] = tuple(
    replace(line.metadata[_LINE], field=line.name) for line in fields(Settings)
)

# Variables beside the settings: of clients, of the embedded stack and of tests, which read them themselves.
OTHERS: Final[Mapping[str, str]] = {
    "ENGRAMQ_URL": "The address of a gateway, such as `http://127.0.0.1:8765`, for commands, clients and examples",
    "ENGRAMQ_TOKEN": "The token that such commands and clients send",
    "ENGRAMQ_TOKEN_FILE": "A file that holds this token",
    "ENGRAMQ_REDIS_BINARY": "The redis-server or valkey-server that the embedded stack starts",
    "ENGRAMQ_CHROMIUM": "The browser of `make test-page`",
}
KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)")

# Settings that earlier revisions had, by variable: what to do instead.
GONE: Final[Mapping[str, str]] = {
    "ENGRAMQ_DATABASES": "All namespaces are in ENGRAMQ_DATABASE_URL; `engramq export` and `engramq import` bring one "
    "there.",
    "ENGRAMQ_DATABASE_REPLICAS": "All reads go to ENGRAMQ_DATABASE_URL, which may name several hosts to follow a "
    "failover.",
    "ENGRAMQ_DATABASE_POOLER": "A pooler such as PgBouncer is recognised at each new connection.",
    "ENGRAMQ_RATE_LIMIT": "Say principal_calls_per_second=NUMBER in ENGRAMQ_QUOTAS.",
    "ENGRAMQ_LINGER_S": "The stack outlives its last client by 5 s; `engramq service install` keeps it running.",
    "ENGRAMQ_SWEEP_INTERVAL_S": "Workers look for unfinished work every 5 s.",
    "ENGRAMQ_JWT_ALGORITHMS": "Every signature by a private key is taken: RS, PS, ES and EdDSA.",
    "ENGRAMQ_JWT_LEEWAY_S": "The issuer's clock may differ from ours by 30 s.",
    "ENGRAMQ_CONCURRENCY_LIMIT": "A principal with a token may have 100 calls under way at once.",
    "ENGRAMQ_UI": "The page is served wherever HTTP is, by the same sign-in; a proxy that refuses /ui hides it.",
    **{f"ENGRAMQ_JWT_{part.upper()}": f"Say {part}=... in ENGRAMQ_JWT." for part in Jwt._fields[:3]},
    **{f"ENGRAMQ_JWT_{name}": "Say keys=... in ENGRAMQ_JWT." for name in ("JWKS_URL", "KEY_FILE")},
    "ENGRAMQ_JWT_CLAIMS": "Say the same in ENGRAMQ_JWT, after issuer, audience and keys.",
    **{f"ENGRAMQ_JWT_{name.upper()}_CLAIM": f"Say {name}=CLAIM in ENGRAMQ_JWT." for name in Jwt._fields[3:]},
    "ENGRAMQ_ALLOWED_HOSTS": "Say them in ENGRAMQ_PUBLIC_URL, after the address: https://memory.example.org, pod-7.",
    "ENGRAMQ_ALLOWED_ORIGINS": "Say them in ENGRAMQ_PUBLIC_URL, after the address: https://memory.example.org, "
    "https://app.example.org.",
    "ENGRAMQ_HEALTH_HOST": "Say it before the port: ENGRAMQ_HEALTH_PORT=0.0.0.0:9465.",
    "ENGRAMQ_METRICS_HOST": "Say it before the port: ENGRAMQ_METRICS_PORT=0.0.0.0:9464.",
    **{f"ENGRAMQ_QUOTA_{name.upper()}": f"Say {name}=NUMBER in ENGRAMQ_QUOTAS." for name in take.Quotas._fields},
}


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings that `environ` gives; raises SettingsError naming the first variable that is bad or unknown.

    An empty variable counts as not set.
    """
    _refuse_unknown(environ)
    values = {setting.field: _parse(setting, environ.get(setting.variable) or setting.default) for setting in SETTINGS}
    settings = Settings(**values)
    _refuse_unsafe(settings)
    return settings


def parse_setting(field: str, text: str) -> Any:
    """Return the value of a setting from another source than the environment; raises SettingsError for a bad one."""
    return _parse(next(setting for setting in SETTINGS if setting.field == field), text)


def _parse(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as problem:
        shown = "its value" if setting.secret else repr(without_password(text))
        raise SettingsError(f"{setting.variable}: {shown} cannot be used: {problem}") from None


def _refuse_unknown(environ: Mapping[str, str]) -> None:
    """Raise SettingsError for a variable that nothing reads, so that nobody believes that it counts.

    Kubernetes describes each service to its pods in variables such as `ENGRAMQ_REDIS_SERVICE_HOST`: these are ignored.
    """
    known = {setting.variable for setting in SETTINGS} | OTHERS.keys()
    known |= {f"{setting.variable}_FILE" for setting in SETTINGS if setting.secret}
    for variable, value in environ.items():
        if not value or not variable.startswith(PREFIX) or variable in known:
            continue
        if variable.startswith(TESTS_PREFIX) or KUBERNETES.search(variable):
            continue
        if instead := GONE.get(variable) or GONE.get(variable.removesuffix("_FILE")):
            raise SettingsError(f"{variable}: there is no such setting any more. {instead} Unset it.")
        near = difflib.get_close_matches(variable, known, n=1, cutoff=0.9)
        words = set(variable.split("_"))
        near = near or sorted((name for name in known if words > set(name.split("_"))), key=len)[-1:]
        near = near or difflib.get_close_matches(variable, known, n=1)
        meant = f"Did you mean {near[0]}? " if near else ""
        raise SettingsError(f"{variable}: there is no such setting. {meant}docs/settings.md lists all. Unset it.")


def _refuse_unsafe(settings: Settings) -> None:
    """Raise SettingsError for settings that are valid alone but together expose the server or lock everybody out."""
    if settings.auth is Auth.NONE and not is_loopback(settings.host):
        raise SettingsError(
            f"ENGRAMQ_HOST: {settings.host!r} is not a loopback address, and without authentication nothing else "
            "is served. Use 127.0.0.1, or set ENGRAMQ_AUTH to token or jwt."
        )
    if settings.auth is not Auth.JWT:
        return
    for part in ("issuer", "audience", "keys"):
        if not getattr(settings.jwt, part):
            raise SettingsError(f"ENGRAMQ_JWT must say {part}=... with ENGRAMQ_AUTH=jwt.")
    keys = settings.jwt.keys
    if isinstance(keys, str) and keys.startswith("http://") and not is_loopback(urlsplit(keys).hostname or ""):
        raise SettingsError("ENGRAMQ_JWT: keys fetched over http can be forged on the way; use https.")


def is_loopback(host: str) -> bool:
    """Say whether binding to `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
