"""Say what an error of the driver means: try again, refuse with nothing applied, or a defect of ours."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import Final

import psycopg

from engramq.schemas.faults import EngramqError, FaultCode, refuse

log = logging.getLogger(__name__)

REFUSED_S: Final = 30.0  # how long a refusal is told that no write since has contradicted
SAY_AGAIN_S: Final = 60.0

# What features may catch; everything else is dealt with here.
DatabaseError = psycopg.Error
Duplicate = psycopg.errors.UniqueViolation
BadValue = (psycopg.errors.DataError, psycopg.errors.IntegrityError)
StatementTimeout = psycopg.errors.QueryCanceled


class SettingsMissing(psycopg.OperationalError):
    """A session does not have what every session of a worker is set to; `names`: of these settings."""

    sqlstate = "EQ002"  # of `take_settings`, which says the same of a transaction

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"a session was begun without {', '.join(names)}")
        self.names = names


class Meaning(Enum):
    """The recovery from an error."""

    CONFLICT = auto()  # another transaction was in the way: try again
    GONE = auto()  # the server or the connection went away: try again on a new connection, for a while
    UNFIT = auto()  # this session may not: try again on a new one, which another server may give or other settings
    EXHAUSTED = auto()  # the server will not for now: refuse at once
    DEFECT = auto()  # our own mistake: let it through


class Again(Exception):
    """Raised by an effect whose premises changed while it was at work: the transaction is tried again.

    `first`: what is awaited before that, when the transaction is rolled back and its connection given back.
    """

    def __init__(self, *, first: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.first = first


OF_TLS: Final = frozenset({"EQ0CA", "EQ0HN", "EQ0TL"})  # of our own making, see _NO_CONNECTION
# By SQLSTATE, or by its class of two characters (PostgreSQL's documentation, appendix A).
_MEANINGS: Final = {
    "40001": Meaning.CONFLICT,  # serialization failure; also "already moved to another partition"
    "40P01": Meaning.CONFLICT,  # deadlock
    "55P03": Meaning.CONFLICT,  # lock_timeout
    "53": Meaning.EXHAUSTED,  # disk full, out of memory, too many connections
    "58": Meaning.EXHAUSTED,  # the server's own input or output fails
    "28": Meaning.UNFIT,  # wrong password or role
    "3D000": Meaning.UNFIT,  # no such database
    # A standby, or a database set read-only. A session keeps its server, and what was set when it began.
    "25006": Meaning.UNFIT,
    "EQ001": Meaning.CONFLICT,  # the tenant that was entered is another namespace's: see transaction.sql
    "EQ002": Meaning.EXHAUSTED,  # the session is not set as it must be: see schema.sql
    "26000": Meaning.CONFLICT,  # a prepared statement was dropped by somebody: who used it has closed the connection
    "57014": Meaning.EXHAUSTED,  # statement_timeout: another try would take as long
    "57": Meaning.GONE,  # shutting down, crashed, starting up
    "25P03": Meaning.GONE,  # idle_in_transaction_session_timeout: this process was paused
    "25P04": Meaning.GONE,  # transaction_timeout: likewise
    "57P05": Meaning.GONE,  # idle_session_timeout
    "08": Meaning.GONE,
    **dict.fromkeys(OF_TLS, Meaning.GONE),  # it may be mended soon
}
_FULL: Final = "53300"
READ_ONLY: Final = "The database is read-only."
# A server's refusal, in words: the longest beginning of an SQLSTATE that is here counts.
_NAMES: Final = {
    "53100": "The database's disk is full.",
    "53200": "The database is out of memory.",
    _FULL: "The database has no connection left.",
    "53": "The database is short of a resource",
    "58": "The database cannot use its disk",
    "28P01": "The database refused the workers' password.",
    "28": "The database does not let the workers in.",
    "3D000": "The database does not exist on its server.",
    "25006": READ_ONLY,
    "57014": "The database took too long.",
    "EQ0CA": "The database shows a certificate of a CA that is not trusted here.",
    "EQ0HN": "The database shows a certificate of another host name.",
    "EQ0TL": "The database does not speak TLS.",
    "EQ002": "The database does not take the workers' settings.",
}
_RETRY_AFTER_S: Final = {"53100": 5.0}  # else 2
# libpq tells of a connection that it did not get in words alone. A server of another language is waited for as one that
# restarts is.
_NO_CONNECTION: Final = {
    "too many clients": _FULL,
    "too many connections": _FULL,
    "no more connections allowed": _FULL,  # by PgBouncer, for which it has no code
    "remaining connection slots are reserved": _FULL,
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    "authentication failed": "28000",
    "is not permitted to log in": "28000",
    "permission denied to set role": "28000",
    'FATAL:  role "': "28000",
    'FATAL:  database "': "3D000",
    "No space left on device": "53100",
    "certificate verify failed": "EQ0CA",
    "server certificate for": "EQ0HN",
    "server does not support SSL": "EQ0TL",
}


def state_of(error: Exception | None) -> str:
    """Return the SQLSTATE of an error, also of a refused connection; empty where it has none."""
    if not isinstance(error, psycopg.Error):
        return ""
    if error.sqlstate or not isinstance(error, psycopg.OperationalError):
        return error.sqlstate or ""
    return next((state for words, state in _NO_CONNECTION.items() if words in str(error)), "")


def meaning_of_error(error: Exception) -> Meaning:
    """Return what an error of the driver or of the connection, or Again, means."""
    if isinstance(error, Again):
        return Meaning.CONFLICT
    if not isinstance(error, psycopg.Error):
        return Meaning.GONE if isinstance(error, OSError) else Meaning.DEFECT
    state = state_of(error)
    known = _MEANINGS.get(state) or _MEANINGS.get(state[:2])
    if known is not None:
        return known
    # Lost connections come without an SQLSTATE.
    return Meaning.GONE if isinstance(error, psycopg.OperationalError) and not state else Meaning.DEFECT


def refuses_options(error: Exception) -> bool:
    """Return whether a pooler refused a connection since it passes no settings on."""
    return "startup parameter" in str(error)


def pools_statements(error: Exception) -> bool:
    """Return whether a pooler refused a transaction, since it lends sessions for one statement each."""
    return "statement pooling mode" in str(error)


def is_full(error: Exception) -> bool:
    """Return whether the server refused a connection since it has as many as it takes."""
    return state_of(error) == _FULL


def describe_refusal(error: Exception | None) -> str:
    """Return what a server that is there refuses, a sentence with nothing of a statement or a row; else nothing."""
    state = state_of(error)
    for length in (5, 2):
        if (name := _NAMES.get(state[:length])) is not None:
            return name if name.endswith(".") else f"{name} ({state})."
    return ""


def refusal_of_database(error: Exception | None = None) -> EngramqError:
    """Return the refusal that says that nothing was applied; its text holds nothing of a statement or a row."""
    if name := describe_refusal(error):
        return refuse(FaultCode.UNAVAILABLE, name, retry_after_s=_RETRY_AFTER_S.get(state_of(error), 2.0))
    found = Meaning.GONE if error is None else meaning_of_error(error)
    if found is Meaning.CONFLICT:
        return refuse(FaultCode.UNAVAILABLE, "Too many others are changing the same memories.", retry_after_s=1.0)
    return refuse(FaultCode.UNAVAILABLE, "The database cannot be reached.", retry_after_s=1.0)


class Refusals:
    """The database's last refusal; empty once a write has succeeded since."""

    def __init__(self) -> None:
        self.latest = ""
        self._at, self._logged_at = 0.0, 0.0

    @property
    def current(self) -> str:
        """The current refusal, as far as it is known."""
        return self.latest if time.monotonic() < self._at + REFUSED_S else ""

    def note(self, name: str) -> None:
        """Remember a refusal, if it is one, and log it when that begins and then once a minute."""
        now = time.monotonic()
        if not name:
            return
        if name != self.latest or now >= self._logged_at + SAY_AGAIN_S:
            log.error("The database refuses", extra={"error": name})
            self._logged_at = now
        self.latest, self._at = name, now
