"""The databases that settings name, as commands see them: a namespace is followed to the one that it is in."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from engramq.schemas.command_line import CommandFailed
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import PRIMARY_DATABASE
from engramq.workers.db.database import Store
from engramq.workers.db.errors import HOPS_MAX, Moved
from engramq.workers.db.readiness import NotReady

T = TypeVar("T")


def directory(settings: Settings) -> Mapping[str, str]:
    """Return the URLs of the databases by their names, the first one first."""
    return {PRIMARY_DATABASE: settings.database_url, **settings.databases}


@asynccontextmanager
async def opened(settings: Settings, name: str = PRIMARY_DATABASE, *, pool_size: int = 1) -> AsyncIterator[Store]:
    """Open a database for a command; raises NotReady, which names a further one."""
    first = name == PRIMARY_DATABASE
    try:
        store = await Store.open(
            directory(settings)[name],
            pooler=settings.database_pooler,
            pool_size=pool_size,
            language=settings.language,
            makes_tenants=first,  # in a further one are those alone that have moved there
        )
    except NotReady as problem:
        if first:
            raise
        raise CommandFailed(f"Database {name!r} of ENGRAMQ_DATABASES: {problem}") from None
    async with store:
        yield store


async def in_its_database(settings: Settings, work: Callable[[Store], Awaitable[T]], *, pool_size: int = 1) -> T:
    """Run `work`, which begins in one namespace, in the database that this is in; raises what `work` does.

    Raises Moved where settings do not name that one. `work` begins again in the next database, so it has entered the
    namespace before it does anything else.
    """
    place = PRIMARY_DATABASE
    for _ in range(HOPS_MAX):
        async with opened(settings, place, pool_size=pool_size) as store:
            try:
                return await work(store)
            except Moved as moved:
                if moved.place not in directory(settings):
                    raise
                place = moved.place
    raise CommandFailed("Each database says of this namespace that it is in another one: restore the last one.")


async def in_each_database(settings: Settings, work: Callable[[Store], Awaitable[T]]) -> AsyncIterator[tuple[str, T]]:
    """Run `work` in each database, the first one first; yield what it returned by the database's name."""
    for name in directory(settings):
        async with opened(settings, name) as store:
            found = await work(store)
        yield name, found
