"""Whether the model makes a vector here: what `engramq doctor` asks, whether or not any worker runs."""

import asyncio
import logging
from typing import Final

from engramq.schemas.checks import CheckName, degraded, failed, passed
from engramq.schemas.overview import Check
from engramq.schemas.settings import Settings
from engramq.workers.cli.model_files import files_check
from engramq.workers.cli.running import run
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.other_models import OURS

MODEL_S: Final = 8.0  # to load a model, or for an endpoint's answer


def model_check(settings: Settings) -> Check:
    """Check that the model is whole and makes a vector here. Without an endpoint reads go on."""
    logging.getLogger("engramq").addHandler(logging.NullHandler())
    files = files_check(settings)
    if files.state != "ok":
        return files
    try:
        run(_one_vector(settings))
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
