"""What `engramq doctor` and `engramq up` ask of the database, whether or not any worker runs."""

import asyncio
import logging

from engramq.schemas.overview import Check
from engramq.schemas.settings import Settings
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady


def database_checks(settings: Settings, *, migrates: bool = False) -> list[Check]:
    """Check that the database can be worked with, within some 5 s; see `diagnose`."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())  # what is wrong is told by the checks
    return asyncio.run(
        diagnose(settings.database_url, settings.language, migrates=migrates, pooler=settings.database_pooler)
    )


def migrate_now(database_url: str) -> str:
    """Bring the database up to this version and say what was done, or why not."""
    try:
        applied = asyncio.run(migrate(database_url))
    except NotReady as problem:
        return f"not migrated: {problem}"
    return f"migrated the database: {', '.join(applied) or 'nothing was missing'}"
