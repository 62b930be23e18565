"""What a release consists of: the same bytes each time, its notes, its part of the lock, its entry in the registry."""

import json
import re
import shutil
import stat
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engramq.schemas.settings import SETTINGS
from tests.architecture.source import ROOT
from tests.packaging.installed.test_installing import PYTHONS
from tools.release.__main__ import build, digests
from tools.release.notes import NoNotes, notes_of
from tools.release.runtime_lock import Unlocked, runtime_lock
from tools.release.version import VERSION

EPOCH = "1763000000"
CHANGELOG = (
    "# Changelog\n\n## Unreleased (0.2.0)\n\n- New.\n\n## 0.1.1 (2026-11-01)\n\n- Mended.\n\n## 0.1.0\n\n- First.\n"
)
LOCK = """\
alpha==1 \\
    --hash=sha256:00
    # via engramq (pyproject.toml)
beta==2 \\
    --hash=sha256:01
    # via
    #   alpha
    #   tester
gamma-x==3 \\
    --hash=sha256:02
    # via beta
tester==4 \\
    --hash=sha256:03
    # via engramq (pyproject.toml)
only-for-tests==5 \\
    --hash=sha256:04
    # via tester
"""
PYPROJECT = '[project]\ndependencies = ["Alpha>=1"]\n[project.optional-dependencies]\ndev = ["tester"]\n'


@pytest.mark.promise("RC-1")
def test_two_builds_of_the_same_source_are_the_same_bytes(tmp_path: Path) -> None:
    first = build(ROOT, tmp_path / "first", EPOCH)
    with tarfile.open(first[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = (path for path in tmp_path.iterdir() if path.name.startswith("engramq-"))
    for path in source.rglob("*"):  # as a checkout by somebody else, at another time
        if path.is_file():
            # Of the modes git keeps but whether a file can be run.
            can_be_run = path.stat().st_mode & stat.S_IXUSR
            shutil.copystat(ROOT / "LICENSE", path)
            path.chmod(0o700 if can_be_run else 0o600)
    second = build(source, tmp_path / "second", EPOCH)
    assert [path.name for path in first] == [path.name for path in second]
    assert digests(first) == digests(second)


def test_the_notes_of_a_version_are_its_part_of_the_changelog() -> None:
    assert notes_of(CHANGELOG, "0.2.0") == "# engramq 0.2.0\n\n- New.\n"
    assert notes_of(CHANGELOG, "0.1.1") == "# engramq 0.1.1\n\n- Mended.\n"
    assert notes_of(CHANGELOG, "0.1.0") == "# engramq 0.1.0\n\n- First.\n"
    with pytest.raises(NoNotes, match=r"0\.3\.0"):
        notes_of(CHANGELOG, "0.3.0")


def test_there_are_notes_of_this_version() -> None:
    assert len(notes_of((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), VERSION)) > 1_000


def test_the_runtime_part_of_a_lock_is_what_is_needed_without_extras() -> None:
    kept = runtime_lock(PYPROJECT, LOCK)
    assert re.findall(r"^([\w-]+)==", kept, re.MULTILINE) == ["alpha", "beta", "gamma-x"]
    assert kept in LOCK
    with pytest.raises(Unlocked, match="delta"):
        runtime_lock(PYPROJECT.replace("Alpha", "delta"), LOCK)


def test_the_lock_pins_what_is_needed_at_run_time() -> None:
    kept = runtime_lock((ROOT / "pyproject.toml").read_text(), (ROOT / "requirements.lock").read_text())
    names = set(re.findall(r"^([\w.-]+)==", kept, re.MULTILINE))
    assert {"mcp", "pydantic-core", "onnxruntime"} <= names
    assert not {"pytest", "mypy", "onnx"} & names


def test_the_pythons_that_are_named_are_those_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python ::" in each]
    assert named == PYTHONS
    assert project["requires-python"] == f">={PYTHONS[0]}"
    for page in ("README.md", "docs/compatibility.md"):
        assert f"tried: {PYTHONS[0]} to {PYTHONS[-1]}" in (ROOT / page).read_text(encoding="utf-8"), page


@pytest.fixture
def entry() -> Any:
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


@pytest.mark.promise("RC-12")
def test_it_is_of_this_package_and_version(entry: Any) -> None:
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == VERSION
    assert (package["registryType"], package["identifier"], package["runtimeHint"]) == ("pypi", "engramq", "uvx")
    assert [argument["value"] for argument in package["packageArguments"]] == ["stdio"]
    # By this line in the page of the package the registry knows whose it is.
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")
    # What comes from an account of GitHub is named by it.
    assert re.match(r"io\.github\.[\w-]+/", entry["name"])


@pytest.mark.promise("RC-12")
def test_its_variables_are_settings_with_our_defaults(entry: Any) -> None:
    settings = {each.variable: each for each in SETTINGS}
    (package,) = entry["packages"]
    for variable in package["environmentVariables"]:
        setting = settings[variable["name"]]
        assert variable.get("default", setting.default) == setting.default
        assert variable.get("isSecret", False) == setting.secret
