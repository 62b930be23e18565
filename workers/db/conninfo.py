"""Connection strings: what every session of a worker is set to, and what a session must not be allowed to do."""

import secrets
from typing import Final
from urllib.parse import urlsplit

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

# The driver's libpq sends these when a session begins; `check` in store.py reads them back, since PostgreSQL takes any
# value of a setting of an extension that is not loaded yet.
SESSION: Final = {
    "plan_cache_mode": "force_custom_plan",  # a generic plan made for a large tenant costs a small one tenfold
    "jit": "off",
    "timezone": "UTC",
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "100",
    "hnsw.max_scan_tuples": "20000",
    "statement_timeout": f"{STATEMENT_MS}ms",
    "transaction_timeout": f"{TRANSACTION_MS}ms",
    "lock_timeout": f"{LOCK_MS}ms",
    "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}ms",
}


def worker_conninfo(database_url: str) -> str:
    """Return the connection string of one worker's sessions; a URL of another role steps down to the workers' role."""
    given = conninfo_to_dict(database_url)
    options = [str(given.get("options") or "")]
    options += [f"-c {name}={value}" for name, value in SESSION.items()]
    if given.get("user") != WORKER_ROLE:
        options.append(f"-c role={WORKER_ROLE}")
    return _conninfo(database_url, f"{WORKER_SESSION} {secrets.token_hex(4)}", " ".join(options).strip())


def owner_conninfo(database_url: str) -> str:
    """Return the connection string of a migration, which has to run as the URL's own role."""
    return _conninfo(database_url, "engramq-migrate", str(conninfo_to_dict(database_url).get("options") or ""))


def _conninfo(database_url: str, application: str, options: str) -> str:
    bounds = {"connect_timeout": CONNECT_S, "tcp_user_timeout": 5_000, "keepalives_idle": 5, "keepalives_interval": 2}
    return make_conninfo(database_url, application_name=application, options=options, client_encoding="utf8", **bounds)


def shown(database_url: str) -> str:
    """Return a database URL that may be shown: without its password."""
    parts = urlsplit(database_url)
    return f"{parts.hostname or parts.query or 'socket'}{parts.path}"
