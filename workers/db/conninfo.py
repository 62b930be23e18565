"""Make connection strings, with the settings and time limits of every session of a worker."""

import secrets
from collections.abc import Mapping
from typing import Any, Final

from psycopg.conninfo import conninfo_to_dict, make_conninfo

WORKER_ROLE: Final = "engramq_worker"
WORKER_SESSION: Final = "engramq-worker"  # how a worker's sessions are called, with a word of their process behind it
CONNECT_S: Final = 3
IDLE_IN_TRANSACTION_MS: Final = 2_500  # half of a lease
STATEMENT_MS: Final = 30_000
# A session in the middle of a pipeline does not count as idle, however long its worker is paused: this ends it, and
# frees its locks. Longer than any transaction takes (1,000 imported rows on a busy host: about 10 s).
TRANSACTION_MS: Final = 30_000
LOCK_MS: Final = 5_000


def _format_ms(milliseconds: int) -> str:
    """Return a time as PostgreSQL shows it, so that what was set can be compared with what holds."""
    return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"


# What holds in every session of a worker, as PostgreSQL shows it. libpq sends these when a session begins; behind a
# pooler each transaction sets them, see transaction.py. Either way they are read back.
SESSION: Final = {
    "plan_cache_mode": "force_custom_plan",  # a generic plan made for a large tenant costs a small one tenfold
    "jit": "off",
    # What a role or a database may be set to otherwise, and what would change results then.
    "search_path": "public, pg_temp",
    "row_security": "on",
    "timezone": "UTC",
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "standard_conforming_strings": "on",
    "gin_fuzzy_search_limit": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_deferrable": "off",
    "exit_on_error": "off",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "100",
    "hnsw.max_scan_tuples": "20000",
    "statement_timeout": _format_ms(STATEMENT_MS),
    "transaction_timeout": _format_ms(TRANSACTION_MS),
    "lock_timeout": _format_ms(LOCK_MS),
    "idle_in_transaction_session_timeout": _format_ms(IDLE_IN_TRANSACTION_MS),
}


_BLANK: Final = r"\ "  # within an option


def worker_conninfo(database_url: str) -> str:
    """Return the connection string of one worker's sessions; a URL of another role steps down to the workers' role."""
    given = conninfo_to_dict(database_url)
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value.replace(' ', _BLANK)}" for name, value in SESSION.items()]
    if given.get("user") != WORKER_ROLE:
        options.append(f"-c role={WORKER_ROLE}")
    return _conninfo(database_url, _worker_session(), " ".join(options).strip())


def pooled_conninfo(database_url: str) -> str:
    """Return the same for a pooler, whose servers' sessions are not one worker's to set.

    Poolers refuse settings that come as startup options, or lose them.
    """
    return _conninfo(database_url, _worker_session(), str(conninfo_to_dict(database_url).get("options") or ""))


def pooled_settings(database_url: str) -> dict[str, str]:
    """Return what each transaction behind a pooler has to set; the role comes last, being what loses rights."""
    steps_down = conninfo_to_dict(database_url).get("user") != WORKER_ROLE
    return SESSION | ({"role": WORKER_ROLE} if steps_down else {})


def _worker_session() -> str:
    return f"{WORKER_SESSION} {secrets.token_hex(4)}"


def owner_conninfo(database_url: str) -> str:
    """Return the connection string of a migration, which has to run as the URL's own role."""
    return _conninfo(database_url, "engramq-migrate", str(conninfo_to_dict(database_url).get("options") or ""))


def _conninfo(database_url: str, application: str, options: str) -> str:
    bounds = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 2}
    given = conninfo_to_dict(database_url)
    servers = str(given.get("target_session_attrs") or "any")
    if len(_places(given)) > 1 and servers == "any":
        servers = "primary"  # whichever of the hosts that is
    return make_conninfo(
        database_url, application_name=application, options=options, client_encoding="utf8",
        target_session_attrs=servers, **bounds,
    )  # fmt: skip


def host_first(conninfo: str, host: str, port: int) -> str:
    """Return a connection string of several hosts with this one first: each that hangs before it costs CONNECT_S."""
    places = sorted(_places(conninfo_to_dict(conninfo)), key=lambda place: place != (host, str(port)))
    if len(places) < 2:
        return conninfo
    hosts, ports = zip(*places, strict=True)
    return make_conninfo(conninfo, host=",".join(hosts), port=",".join(ports))


def _places(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the hosts of a connection string with their ports."""
    hosts, ports = (str(given.get(name) or "").split(",") for name in ("host", "port"))
    return list(zip(hosts, ports * len(hosts) if len(ports) == 1 else ports, strict=False))
