"""Which number a namespace has: every key of its rows begins with it. Asked for once, then remembered.

A number never changes and is never given again, so what is remembered holds for as long as the database is the same.
That it is, each transaction finds out as it enters (`enter_tenant`); the error is dealt with here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg.types.numeric import Int4

from engramq.schemas.vocabulary import DEFAULT_LANGUAGE, PRIMARY_DATABASE, SYSTEM_NAMESPACE
from engramq.workers.db.errors import Moved, elsewhere
from engramq.workers.db.pool import Connection
from engramq.workers.db.queries import sql
from engramq.workers.db.session import ask

FIND: Final = sql("find_tenant")
MAKE: Final = sql("make_tenant")

NOBODY: Final = Int4(0)  # what a namespace without a number reads as: no row has it
STRANGER: Final = "EQ001"  # the SQLSTATE of `enter_tenant`
KEPT: Final = 100_000  # namespaces; about 150 bytes each


class Tenants:
    """The numbers that are known: one per process and database."""

    def __init__(self, language: str = DEFAULT_LANGUAGE, *, makes: bool = True) -> None:
        """`language`: of namespaces that are new. `makes`: whether there are any; else all have moved to here."""
        self._language = language
        self._makes = makes
        self._known: dict[str, Int4] = {}

    async def of(self, connection: Connection, namespace: str, *, make: bool) -> Int4:
        """Return the number of a namespace; one that has none gets one if it is to be made, else it is NOBODY's.

        Asks the database, outside any transaction, only when the number is not known. Raises psycopg.Error, or Moved
        where a namespace should have moved to here and has not: its move was taken back, and the first database knows.
        """
        known = self._known.get(namespace)
        if known is not None:
            return known
        make = make and self._makes
        rows = await ask(connection, MAKE if make else FIND, self._values(namespace, make=make))
        row = next(iter(rows), None)
        if row is None or row["tenant"] is None:
            if (
                not self._makes and namespace != SYSTEM_NAMESPACE
            ):  # which is no tenant's: whose tokens are is asked in it
                raise Moved(namespace, PRIMARY_DATABASE)
            return NOBODY
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        found = self._known[namespace] = Int4(row["tenant"])
        return found

    def _values(self, namespace: str, *, make: bool) -> dict[str, str]:
        return {"namespace": namespace} | ({"language": self._language} if make else {})

    @contextmanager
    def doubting(self, namespace: str) -> Iterator[None]:
        """Forget a number that turns out to be not this namespace's: the database was emptied or brought back.

        Raises Moved or Held, for the error that says so.
        """
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate == STRANGER:
                self._known.pop(namespace, None)
            if (other := elsewhere(error, namespace)) is not None:
                raise other from error
            raise
