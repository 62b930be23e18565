"""The contracts of pyproject.toml hold, and guard every package."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.architecture.source import PACKAGES, ROOT

LINT_IMPORTS = str(Path(sys.executable).parent / "lint-imports")


def contracts() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"] for contract in settings["tool"]["importlinter"]["contracts"]}


def test_the_contracts_hold() -> None:
    command = [LINT_IMPORTS, "--no-cache", "--no-logo"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in ended.stdout


def test_every_package_has_a_contract() -> None:
    packages = {path.parent.name for package in PACKAGES for path in ROOT.glob(f"{package}/__init__.py")} | {
        f"{half}.{path.parent.name}" for half in ("gateway", "workers") for path in ROOT.glob(f"{half}/*/__init__.py")
    }
    assert packages - contracts() == set()
