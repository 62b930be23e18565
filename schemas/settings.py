"""Settings: one documented table of environment variables, read once into a frozen struct.

This module does not read the environment; the entry points pass `os.environ` in. A bad value is refused at start
with a SettingsError that names the variable.
"""

import difflib
import ipaddress
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from engramq.schemas import limits
from engramq.schemas.limits import LANES_MAX
from engramq.schemas.setting_values import (
    Retention,
    file,
    flag,
    home,
    host_names,
    integer,
    jwt_algorithms,
    key_prefix,
    language,
    log_level,
    name,
    namespace,
    networks,
    number,
    one_of,
    optional,
    optional_origin,
    optional_port,
    origins,
    parse_retention,
    principal,
    project,
    redis_url,
    url,
    words,
)
from engramq.schemas.vocabulary import DEFAULT_LANGUAGE, DEFAULT_NAMESPACE, DEFAULT_PRINCIPAL, Detail, Partition

PREFIX: Final = "ENGRAMQ_"
QUOTA: Final = integer(0, 10**15)


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


class Pooler(StrEnum):
    """Whether a pooler such as PgBouncer is before PostgreSQL."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All settings. Times are in seconds, bounds in commands; see SETTINGS for what each means."""

    home: Path
    database_url: str
    database_pooler: Pooler
    migrate_database_url: str
    redis_url: str
    lanes: int
    key_prefix: str
    namespace: str
    principal: str
    project: str
    auth: Auth
    host: str
    port: int
    ui: bool
    public_url: str
    allowed_hosts: tuple[str, ...]
    allowed_origins: tuple[str, ...]
    trusted_proxies: tuple[str, ...]
    jwt_issuer: str
    jwt_audience: tuple[str, ...]
    jwt_jwks_url: str
    jwt_key_file: Path | None
    jwt_algorithms: tuple[str, ...]
    jwt_leeway_s: float
    jwt_namespace_claim: str
    jwt_scope_claim: str
    jwt_untrusted_claim: str
    rate_limit: float | None
    concurrency_limit: float | None
    quota_calls: int
    quota_principal_calls: int
    quota_memories: int
    quota_bytes: int
    quota_principal_memories: int
    quota_principal_bytes: int
    tools: str
    output_schemas: bool
    detail: Detail
    reply_chars: int
    hook_tokens: int
    reply_timeout_s: float
    mailbox_bound: int
    embedder: str
    embedder_url: str
    embedder_key: str
    language: str
    degree_cap: int
    reinforce_delta: float
    link_threshold: float
    similar_threshold: float
    min_relevance: float | None
    retention: tuple[Retention, ...]
    redact: Redact
    webhooks_key: str
    webhooks_private: bool
    linger_s: float
    sweep_interval_s: float
    log_level: str
    otel_endpoint: str
    health_host: str
    health_port: int | None
    metrics_host: str
    metrics_port: int | None
    metrics_token: str


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


SETTINGS: Final[tuple[Setting, ...]] = (
    Setting("home", "~/.engramq", "Folder of the embedded data, sockets and logs", home),
    Setting(
        "database_url",
        "",
        "PostgreSQL of your own (17 or later, pgvector 0.8 or later); empty: the embedded one",
        url("postgresql://", "postgres://"),
        secret=True,
    ),
    Setting(
        "database_pooler",
        Pooler.AUTO,
        "Whether a pooler such as PgBouncer is before PostgreSQL: auto looks at each new connection, on and off say "
        "so. Behind one each transaction sets its session, and no statement is prepared",
        one_of(Pooler),
    ),
    Setting(
        "migrate_database_url",
        "",
        "PostgreSQL without a pooler, by a role that owns the database, for migrations and `engramq purge --rewrite`; "
        "empty: ENGRAMQ_DATABASE_URL",
        url("postgresql://", "postgres://"),
        secret=True,
    ),
    Setting(
        "redis_url",
        "",
        "Redis or Valkey of your own (7.0 or later), `rediss://` by TLS; empty: the embedded one",
        redis_url,
        secret=True,
    ),
    Setting(
        "lanes",
        "1",
        "Lanes that namespaces are spread over, each a queue of its own: on a Redis Cluster several for each master. "
        "Chosen at installation, equal for all processes; another number is refused while anything waits",
        integer(1, LANES_MAX),
    ),
    Setting(
        "key_prefix", "engramq", "Prefix of every Redis key; tells installations apart that share a Redis", key_prefix
    ),
    Setting("namespace", DEFAULT_NAMESPACE, "Tenant of stdio clients and of the command line", namespace),
    Setting(
        "principal",
        DEFAULT_PRINCIPAL,
        "Who stdio clients and the command line are: created_by of what they store, the actor in the audit log. `I/O`: "
        "whoever uses this machine and has named nobody",
        principal,
    ),
    Setting(
        "project",
        "",
        "Project of stdio clients, of HTTP without tokens and of imports, for calls that name none: what they "
        "store is in it, and they see it and what is in none. `*` sees all and stores into none; empty: none",
        project,
    ),
    Setting("auth", Auth.NONE, "How HTTP callers prove who they are: none (loopback only), token or jwt", one_of(Auth)),
    Setting("host", "127.0.0.1", "Address that HTTP is served on", name),
    Setting("port", "8765", "Port that HTTP is served on; 0 takes a free one", integer(0, 65_535)),
    Setting("ui", "1", "Serve the page for people at `/ui` beside MCP over HTTP; 0 or off: do not", flag),
    Setting(
        "public_url",
        "",
        "Scheme, host and port by which clients reach HTTP through a proxy, such as `https://memory.example.org`; its "
        "host and origin are allowed",
        optional_origin,
    ),
    Setting("allowed_hosts", "", "Further names that a Host header may have, separated by commas", host_names),
    Setting(
        "allowed_origins",
        "",
        "Origins of web pages that may call, such as `https://app.example.org`, with commas",
        origins,
    ),
    Setting(
        "trusted_proxies",
        "",
        "Addresses or networks of proxies whose X-Forwarded-For is believed, with commas",
        networks,
    ),
    Setting("jwt_issuer", "", "Issuer (`iss`) that a JWT must name", str),
    Setting("jwt_audience", "", "Audiences (`aud`), with commas; a JWT must name one of them", words),
    Setting("jwt_jwks_url", "", "Where the issuer publishes its keys (JWKS)", url("https://", "http://")),
    Setting("jwt_key_file", "", "File with the issuer's public key (PEM), instead of a JWKS", file),
    Setting("jwt_algorithms", "RS256,ES256,EdDSA", "Signatures that a JWT may have", jwt_algorithms),
    Setting("jwt_leeway_s", "30", "Seconds that the issuer's clock may differ from ours", number(0, 300)),
    Setting("jwt_namespace_claim", "namespace", "Claim that names the tenant; a JWT without it is refused", name),
    Setting("jwt_scope_claim", "scope", "Claim that lists the scopes; `scp` if it is missing", name),
    Setting("jwt_untrusted_claim", Partition.UNTRUSTED, "Claim that is true for an untrusted principal", name),
    Setting(
        "rate_limit",
        "",
        "Calls per second that one principal may make, twice as many in a burst; 0: no limit. Empty: 200 for callers "
        "with a token, no limit for local clients",
        optional(number(0, 1_000_000)),
    ),
    Setting(
        "concurrency_limit",
        "",
        "Calls of one principal that may be under way at once; 0: no limit. Empty: 100 for callers with a token, "
        "no limit for local clients",
        optional(integer(0, 1_000_000)),
    ),
    Setting(
        "quota_calls",
        "0",
        "Calls a minute that all principals of a namespace may make together, by one gateway; 0: no limit",
        integer(0, 1_000_000_000),
    ),
    Setting(
        "quota_principal_calls",
        "0",
        "Calls a minute that one principal of a namespace may make, by one gateway; 0: no limit",
        integer(0, 1_000_000_000),
    ),
    Setting("quota_memories", "0", "Memories that a namespace may have, archived ones too; 0: no limit", QUOTA),
    Setting(
        "quota_bytes",
        "0",
        "Bytes that contents and metadata of a namespace's memories may have; 0: no limit",
        QUOTA,
    ),
    Setting("quota_principal_memories", "0", "Memories that one principal may have in a namespace; 0: no limit", QUOTA),
    Setting(
        "quota_principal_bytes",
        "0",
        "Bytes that contents and metadata of one principal's memories in a namespace may have; 0: no limit",
        QUOTA,
    ),
    Setting("tools", "full", "Tools that are listed and can be called: full, core, or names with commas", name),
    Setting("output_schemas", "0", "Advertise output schemas too (they fill the context window)", flag),
    Setting("detail", Detail.BRIEF, "How much replies say unless a call asks otherwise: brief or full", one_of(Detail)),
    Setting(
        "reply_chars",
        str(limits.REPLY_CHARS),
        "Most characters of a reply that holds contents, unless a call asks otherwise",
        integer(limits.REPLY_CHARS_MIN, limits.REPLY_CHARS_MAX),
    ),
    Setting(
        "hook_tokens",
        "800",
        "Most tokens that hooks tell a model at a session's start and with each prompt; 0: "
        "nothing. Set it where the client runs",
        integer(0, 20_000),
    ),
    Setting("reply_timeout_s", "10", "Seconds that the gateway waits for a reply", number(0.05, 600)),
    Setting(
        "mailbox_bound",
        "10000",
        "Commands that may wait in one mailbox before callers are refused, however fast they are served; "
        "of imports one namespace has at most half",
        integer(1, 10_000_000),
    ),
    Setting(
        "embedder",
        "minilm",
        "minilm, e5 (many languages; first run `engramq model build e5`), onnx:FOLDER (a sentence model in ONNX), "
        "openai:MODEL[@DIMENSIONS], fastembed:MODEL (with the extra of that name) or hash (tests only)",
        name,
    ),
    Setting("embedder_url", "", "Base URL of an OpenAI-compatible embeddings endpoint", url("http://", "https://")),
    Setting("embedder_key", "", "Bearer key of that endpoint", str, secret=True),
    Setting(
        "language",
        DEFAULT_LANGUAGE,
        "Language whose words full text stems in namespaces that are new: one that PostgreSQL knows, `simple`, "
        "`chinese`, `japanese`, `korean` or `thai`; `engramq tenant config` changes that of one",
        language,
    ),
    Setting("degree_cap", "10", "Most links that a memory may have", integer(1, 10_000)),
    Setting("reinforce_delta", "0.10", "Weight that a link gains when it is reinforced", number(0, 1)),
    Setting("link_threshold", "0.60", "Cosine from which a new memory is linked to others", number(0, 1)),
    Setting("similar_threshold", "0.50", "Cosine from which a store shows a similar memory", number(0, 1)),
    Setting(
        "min_relevance",
        "",
        "Least relevance of the hits that a search shows where a call names none, 0 (all) to 1; empty: as learned, "
        "none where nothing answers, else all but those that hardly do",
        optional(number(0, 1)),
    ),
    Setting(
        "retention",
        "",
        "How long memories are kept that name no expires_at, by source type or tag, with commas: "
        "`source_type:research=30d, tag:scratch=12h`. They are archived then; restore_memory brings them back",
        parse_retention,
    ),
    Setting(
        "redact",
        Redact.IMPORTS,
        "Out of which memories keys, tokens and passwords are taken before they are kept: imports, all (what is stored "
        "too) or off; set it where the gateway or the import runs",
        one_of(Redact),
    ),
    Setting(
        "webhooks_key",
        "",
        "What the secrets of webhooks and the key of receipts follow from, of at least 32 characters, the same for all "
        "workers and `engramq webhook`; left out: a key that the home keeps",
        str,
        secret=True,
    ),
    Setting("webhooks_private", "0", "Let webhooks go to private addresses, and by http (1 or 0)", flag),
    Setting("linger_s", "5", "Seconds that the embedded stack outlives its last client", number(0, 86_400)),
    Setting("sweep_interval_s", "5", "Seconds between two looks for unfinished work", number(0.05, 3_600)),
    Setting("log_level", "INFO", "DEBUG, INFO, WARNING or ERROR", log_level),
    Setting(
        "otel_endpoint",
        "",
        "Where traces are sent by OTLP over HTTP, such as `http://127.0.0.1:4318`; empty: there are none",
        url("http://", "https://"),
    ),
    Setting("health_host", "127.0.0.1", "Address that a worker tells its health on", name),
    Setting(
        "health_port",
        "",
        "Port that a worker tells its health on, at /healthz and /readyz, to whoever asks; 0 takes a free one. Empty: "
        "it tells nobody",
        optional_port,
    ),
    Setting("metrics_host", "127.0.0.1", "Address that a worker serves its metrics on", name),
    Setting(
        "metrics_port",
        "",
        "Port that a worker serves its metrics on, at /metrics; 0 takes a free one. Empty: it serves none",
        optional_port,
    ),
    Setting(
        "metrics_token",
        "",
        "Bearer token that reads /metrics, of gateways and workers, and nothing else. Empty: a gateway that "
        "authenticates its callers wants a token of scope admin, others want none",
        str,
        secret=True,
    ),
)

# Variables beside the settings: of clients, of the embedded stack and of tests, which read them themselves.
OTHERS: Final[Mapping[str, str]] = {
    "ENGRAMQ_URL": "The address of a gateway, such as `http://127.0.0.1:8765`, for commands, clients and examples",
    "ENGRAMQ_TOKEN": "The token that such commands and clients send",
    "ENGRAMQ_TOKEN_FILE": "A file that holds this token",
    "ENGRAMQ_REDIS_BINARY": "The redis-server or valkey-server that the embedded stack starts",
    "ENGRAMQ_CHROMIUM": "The browser of `make test-page`",
    "ENGRAMQ_FUZZ_EXAMPLES": "How many calls the fuzz test makes",
}
KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT)|_PORT_\d+_(TCP|UDP)")
TESTS_PREFIX: Final = f"{PREFIX}TEST_"  # CONTRIBUTING.md says which there are

# Settings that earlier revisions had, by variable: what to do instead.
GONE: Final[Mapping[str, str]] = {
    "ENGRAMQ_DATABASES": "All namespaces are in ENGRAMQ_DATABASE_URL; `engramq export` and `engramq import` bring one "
    "there.",
    "ENGRAMQ_DATABASE_REPLICAS": "All reads go to ENGRAMQ_DATABASE_URL, which may name several hosts to follow a "
    "failover.",
}


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Return the settings that `environ` gives; raises SettingsError naming the first variable that is bad or unknown.

    An empty variable counts as not set.
    """
    _refuse_unknown(environ)
    values = {setting.field: _parsed(setting, environ.get(setting.variable) or setting.default) for setting in SETTINGS}
    settings = Settings(**values)
    _refuse_unsafe(settings)
    return settings


def parse_setting(field: str, text: str) -> Any:
    """Return the value of a setting from another source than the environment; raises SettingsError for a bad one."""
    return _parsed(next(setting for setting in SETTINGS if setting.field == field), text)


def _parsed(setting: Setting, text: str) -> Any:
    try:
        return setting.parse(text)
    except ValueError as problem:
        shown = "its value" if setting.secret else repr(text)
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
        if instead := GONE.get(variable.removesuffix("_FILE")):
            raise SettingsError(f"{variable}: there is no such setting any more. {instead} Unset it.")
        near = difflib.get_close_matches(variable, known, n=1)
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
    for variable, value in (("JWT_ISSUER", settings.jwt_issuer), ("JWT_AUDIENCE", settings.jwt_audience)):
        if not value:
            raise SettingsError(f"{PREFIX}{variable} must be set with ENGRAMQ_AUTH=jwt.")
    if bool(settings.jwt_jwks_url) == (settings.jwt_key_file is not None):
        raise SettingsError("ENGRAMQ_AUTH=jwt takes either ENGRAMQ_JWT_JWKS_URL or ENGRAMQ_JWT_KEY_FILE.")
    keys_host = urlsplit(settings.jwt_jwks_url).hostname or ""
    if settings.jwt_jwks_url.startswith("http://") and not is_loopback(keys_host):
        raise SettingsError("ENGRAMQ_JWT_JWKS_URL: keys fetched over http can be forged on the way; use https.")


def is_loopback(host: str) -> bool:
    """Say whether binding to `host` can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
