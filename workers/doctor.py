"""Check model and database for `engramq doctor` and `engramq up`, whether or not any worker runs."""

import asyncio
import logging
from typing import Final

from engramq.schemas.checks import Check, CheckName, degraded, failed, passed
from engramq.schemas.connection import let_tls_end
from engramq.schemas.settings import Settings
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.other_models import OURS
from engramq.workers.model_files import files_check

MODEL_S: Final = 8.0  # to load a model, or for an endpoint's answer


def model_check(settings: Settings) -> Check:
    """Check that the model is whole and makes a vector here. Without an endpoint reads go on."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())
    files = files_check(settings)
    if files.state != "ok":
        return files
    try:
        asyncio.run(_one_vector(settings))
    except (ValueError, EmbedderUnavailable) as problem:
        told = f"The model {settings.embedder} cannot be used: {problem}."
        is_ours = settings.embedder in OURS
        return failed(CheckName.MODEL, told) if is_ours else degraded(CheckName.MODEL, told)
    except TimeoutError:
        told = f"The model {settings.embedder} has made no vector within {MODEL_S:.0f} s."
        return degraded(CheckName.MODEL, told)
    return passed(CheckName.MODEL)


async def _one_vector(settings: Settings) -> None:
    """Make a vector; raises ValueError, EmbedderUnavailable or TimeoutError saying why there is none."""
    embedder = create_embedder(settings.embedder, settings.embedder_url, key=settings.embedder_key, home=settings.home)
    try:
        async with asyncio.timeout(MODEL_S):
            await embedder.warm()
    finally:
        await embedder.aclose()
        await let_tls_end()


def database_checks(settings: Settings, *, migrates: bool = False) -> list[Check]:
    """Check that the database can be worked with, within some 5 s; see `diagnose`."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())  # what is wrong is told by the checks
    return asyncio.run(diagnose(settings.database_url, settings.language, migrates=migrates))


def migrate_now(database_url: str) -> str:
    """Bring the database up to this version and say what was done, or why not."""
    try:
        applied = asyncio.run(migrate(database_url))
    except NotReady as problem:
        return f"not migrated: {problem}"
    return f"migrated the database: {', '.join(applied) or 'nothing was missing'}"
