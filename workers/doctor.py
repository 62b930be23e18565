"""What `engramq doctor` and `engramq up` ask of model and database, whether or not any worker runs."""

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engramq.schemas.checks import CheckName, degraded, failed, passed
from engramq.schemas.overview import Check
from engramq.schemas.settings import Settings
from engramq.workers.admin import run
from engramq.workers.db.diagnosis import diagnose
from engramq.workers.db.migrate import migrate
from engramq.workers.db.readiness import NotReady
from engramq.workers.embedders import minilm
from engramq.workers.embedders.e5 import build
from engramq.workers.embedders.factory import create_embedder
from engramq.workers.embedders.interface import EmbedderUnavailable
from engramq.workers.embedders.onnx_folder import read_folder
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


_BUNDLED: Final = {
    minilm.MODEL_FILE: minilm.MODEL_SHA256,
    minilm.INT8_FILE: minilm.INT8_SHA256,
    minilm.TOKENIZER_FILE: minilm.TOKENIZER_SHA256,
}


def files_check(settings: Settings, bundled: Path = minilm.FOLDER) -> Check:
    """Check the files of the model that is set; an endpoint has none here. `bundled`: where the shipped one lies."""
    match settings.embedder:
        case "minilm":
            return _whole("minilm", bundled, _BUNDLED, "Install engramq again.")
        case "e5":
            return _whole("e5", build.folder_in(settings.home), build.SHA256, f"{build.MEND.capitalize()}.")
        case name if name.startswith("onnx:"):
            return _folder(Path(name.removeprefix("onnx:")).expanduser())
        case _:
            return passed(CheckName.MODEL)


def _whole(model: str, folder: Path, expected: Mapping[str, str], mend: str) -> Check:
    for name, sha256 in expected.items():
        path = folder / name
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return failed(CheckName.MODEL, f"The model {model} is not there: {path} is missing.", mend)
        except OSError as problem:
            return failed(CheckName.MODEL, f"The model {model} cannot be read: {path}: {problem.strerror}.", mend)
        if found != sha256:
            return failed(CheckName.MODEL, f"The model {model} is damaged: {path} is not what was installed.", mend)
    return passed(CheckName.MODEL)


def _folder(folder: Path) -> Check:
    try:
        read_folder(folder)
    except ValueError as problem:
        mend = "Complete the folder (docs/languages.md says what it holds), or set another ENGRAMQ_EMBEDDER."
        return failed(CheckName.MODEL, f"The model cannot be used: {problem}.", mend)
    return passed(CheckName.MODEL)


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
