"""Check that the files of a model are whole, without loading any; this runs before every start and imports little."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from engramq.schemas.checks import Check, CheckName, failed, passed
from engramq.schemas.settings import Settings
from engramq.workers.embedders import minilm
from engramq.workers.embedders.e5 import build
from engramq.workers.embedders.onnx_folder import read_folder
from engramq.workers.embedders.onnx_session import sha256_of

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
            found = sha256_of(path)
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
