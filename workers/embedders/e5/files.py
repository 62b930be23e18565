"""Which files the model is, where they lie, and how to tell that they are whole.

The checksums were written by hand from what `python -m tools.e5.centres` printed.
"""

from pathlib import Path
from typing import Final

FOLDER: Final = Path("models", "e5")  # in the home
MODEL_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = "tokenizer.json"
REPLACEMENTS_FILE: Final = "replacements.json"
LICENSE_FILE: Final = "LICENSE.txt"
SHA256: Final = {
    MODEL_FILE: "2a8c0e8ff5a5363da225da028d424f1deb6784f60ccf7ab2338f96241b03970f",
    TOKENIZER_FILE: "8ed0eac854e9ad093c57154dc977ec1acbb8cc589c51d9b47fbf2d1527b1212f",
    REPLACEMENTS_FILE: "a01b47d9474045c4ae251483f897a10ec3ba139234b69d91b451eca5f370bdf0",
}
MODEL_SHA256: Final = SHA256[MODEL_FILE]

DIMENSIONS: Final = 384
MAX_TOKENS: Final = 512
MEND: Final = "run: engramq model build e5"


def folder_in(home: Path) -> Path:
    """Return the folder of the model in a home."""
    return home / FOLDER


def is_built(home: Path) -> bool:
    """Whether all files are there; whether they are whole is found out when they are loaded."""
    return all((folder_in(home) / name).is_file() for name in SHA256)
