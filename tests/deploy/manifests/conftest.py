"""The validators below .environments/deploy, and the chart rendered with values of every kind."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.architecture.source import ROOT

DEPLOY: Final = ROOT / "deploy"
CHART: Final = DEPLOY / "helm" / "engramq"
INSTALLED: Final = ROOT / ".environments" / "deploy"
# What the chart is rendered with.
VALUE_FILES: Final = sorted(Path(__file__).with_name("values").glob("*.yaml"))
BOUND_S: Final = 120.0

Object = dict[str, Any]


def tool(name: str) -> str:
    """Return the path of a validator that `make test-deploy` has installed."""
    for folder in (INSTALLED / "bin", INSTALLED / "python" / "bin"):
        if (folder / name).exists():
            return str(folder / name)
    raise AssertionError(f"{name} is not below {INSTALLED}: run `make test-deploy`")


def of_system(name: str) -> str:
    """Return the path of a program of the operating system; skips the test at home where there is none, fails in CI."""
    found = shutil.which(name) or shutil.which(name, path=INSTALLED / "bin")
    if found is None:
        assert not os.environ.get("CI"), f"there is no {name} on this machine"
        pytest.skip(f"there is no {name} on this machine")
    return found


def run(
    command: Sequence[str | Path], *, given: str | None = None, cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; both of its outputs are in the result."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def rendered(*arguments: str | Path) -> str:
    """Return the chart's objects, those of hooks too, as `helm template` prints them."""
    done = run([tool("helm"), "template", "release", CHART, "--namespace", "memories", *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> list[Object]:
    """Return the objects of a YAML stream."""
    return [each for each in yaml.safe_load_all(text) if each is not None]


@pytest.fixture(scope="session", params=VALUE_FILES, ids=lambda path: path.stem)
def release(request: pytest.FixtureRequest) -> str:
    """The chart rendered with one of the files in `values`."""
    return rendered("--values", request.param)


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that has the validators' packages."""
    return tool("python")
