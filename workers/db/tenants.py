"""Which number a namespace has: every key of its rows begins with it. Asked for once, then remembered.

A number never changes and is never given again, so what is remembered holds for as long as the database is the same.
That it is, each transaction finds out as it enters (`enter_tenant`); the error is dealt with here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg.types.numeric import Int4

from engramq.schemas.vocabulary import DEFAULT_LANGUAGE
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

    def __init__(self, language: str = DEFAULT_LANGUAGE) -> None:
        """`language`: of namespaces that are new."""
        self._language = language
        self._known: dict[str, Int4] = {}

    async def of(self, connection: Connection, namespace: str, *, make: bool) -> Int4:
        """Return the number of a namespace; one that has none gets one if it is to be made, else it is NOBODY's.

        Asks the database, outside any transaction, only when the number is not known. Raises psycopg.Error.
        """
        known = self._known.get(namespace)
        if known is not None:
            return known
        values = {"namespace": namespace} | ({"language": self._language} if make else {})
        rows = await ask(connection, MAKE if make else FIND, values)
        row = next(iter(rows), None)
        if row is None or row["tenant"] is None:
            return NOBODY
        if len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        found = self._known[namespace] = Int4(row["tenant"])
        return found

    @contextmanager
    def doubting(self, namespace: str) -> Iterator[None]:
        """Forget a number that turns out to be not this namespace's: the database was emptied or brought back."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate == STRANGER:
                self._known.pop(namespace, None)
            raise
