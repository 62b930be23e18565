"""What a driver error means: try again, give up saying that nothing was applied, or a defect of ours."""

from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final

import psycopg

from engramq.schemas.faults import EngramqError, FaultCode, refuse

# What features may catch; everything else is dealt with here.
DatabaseError = psycopg.Error
StatementTimeout = psycopg.errors.QueryCanceled


class Meaning(Enum):
    """What to do about an error."""

    CONFLICT = auto()  # another transaction was in the way: try again
    GONE = auto()  # the server or the connection went away: try again on a new connection, for a while
    EXHAUSTED = auto()  # the server will not for now: refuse at once
    DEFECT = auto()  # our own mistake: let it through


class Again(Exception):
    """Raised by an effect whose premises changed while it was at work: the transaction is tried again.

    `first`: what is awaited before that, when the transaction is undone and its connection given back.
    """

    def __init__(self, *, first: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.first = first


# By SQLSTATE, or by its class of two characters (PostgreSQL's documentation, appendix A).
_MEANINGS: Final = {
    "40001": Meaning.CONFLICT,  # serialization failure; also "already moved to another partition"
    "40P01": Meaning.CONFLICT,  # deadlock
    "55P03": Meaning.CONFLICT,  # lock_timeout
    "53": Meaning.EXHAUSTED,  # disk full, out of memory, too many connections
    "58": Meaning.EXHAUSTED,  # the server's own input or output fails
    "28": Meaning.EXHAUSTED,  # wrong password or role
    "3D000": Meaning.EXHAUSTED,  # no such database
    "25006": Meaning.EXHAUSTED,  # a standby, or a database set read-only
    "EQ001": Meaning.CONFLICT,  # the tenant that was entered is another namespace's: see tenants.py
    "26000": Meaning.CONFLICT,  # a prepared statement was dropped by somebody: who used it has closed the connection
    "57014": Meaning.EXHAUSTED,  # statement_timeout: another try would take as long
    "57": Meaning.GONE,  # shutting down, crashed, starting up
    "25P03": Meaning.GONE,  # idle_in_transaction_session_timeout: this process was paused
    "25P04": Meaning.GONE,  # transaction_timeout: likewise
    "57P05": Meaning.GONE,  # idle_session_timeout
    "08": Meaning.GONE,
}
_DISK_FULL: Final = "53100"
# libpq tells of a connection that it did not get in words alone. A server of another language is waited for as one that
# restarts is.
_NO_CONNECTION_LEFT: Final = ("too many clients", "too many connections", "remaining connection slots are reserved")


def meaning(error: Exception) -> Meaning:
    """Return what an error of the driver or of the connection, or Again, means."""
    if isinstance(error, Again):
        return Meaning.CONFLICT
    if not isinstance(error, psycopg.Error):
        return Meaning.GONE if isinstance(error, OSError) else Meaning.DEFECT
    state = error.sqlstate or ""
    known = _MEANINGS.get(state) or _MEANINGS.get(state[:2])
    if known is not None:
        return known
    # Lost connections come without an SQLSTATE.
    return Meaning.GONE if isinstance(error, psycopg.OperationalError) and not state else Meaning.DEFECT


def is_full(error: Exception) -> bool:
    """Return whether the server refused a connection since it has as many as it takes: SQLSTATE 53300."""
    return isinstance(error, psycopg.OperationalError) and any(words in str(error) for words in _NO_CONNECTION_LEFT)


def unavailable(error: Exception | None = None) -> EngramqError:
    """Return the refusal that says that nothing was applied; its text holds nothing of a statement or a row."""
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    if state == _DISK_FULL:
        return refuse(FaultCode.UNAVAILABLE, "The database's disk is full.", retry_after_s=5.0)
    if error is not None and is_full(error):
        return refuse(FaultCode.UNAVAILABLE, "The database has no connection left.", retry_after_s=2.0)
    found = Meaning.GONE if error is None else meaning(error)
    if found is Meaning.CONFLICT:
        return refuse(FaultCode.UNAVAILABLE, "Too many others are changing the same memories.", retry_after_s=1.0)
    if found is Meaning.EXHAUSTED:
        return refuse(FaultCode.UNAVAILABLE, f"The database refused ({state}).", retry_after_s=2.0)
    return refuse(FaultCode.UNAVAILABLE, "The database cannot be reached.", retry_after_s=1.0)
