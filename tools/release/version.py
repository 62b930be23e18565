"""The version that pyproject.toml states."""

import tomllib
from pathlib import Path
from typing import Final

VERSION: Final[str] = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"][
    "version"
]
