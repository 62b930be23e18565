"""One line installs the wheel in a clean environment, it works without a network; `server.json` keeps its schema."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging.installed.conftest import BOUND_S, RELEASE, UV, Root, serving
from tools.release.__main__ import ROOT, bill_of_materials

pytestmark = pytest.mark.timeout(3 * BOUND_S)


PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# Without any network, loopback too, where the system lets us.
APART = ("unshare", "--map-root-user", "--net")


def python(version: str) -> str:
    """Return the path of an interpreter, installed if need be; the test is skipped where it cannot be had."""
    managed = [str(path) for path in Path.home().glob(f".pyenv/versions/{version}.*/bin")]
    environment = {**os.environ, "PATH": os.pathsep.join([*managed, os.environ["PATH"]])}
    for command in ("find", "install", "find"):
        words = [UV, "python", command, version]
        found = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
        if found.returncode == 0 and command == "find":
            return found.stdout.strip()
    pytest.skip(f"Python {version} cannot be had here")


def can_be_apart() -> bool:
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


def stores_and_finds(root: Root, *command: str, offline: bool = True) -> None:
    """Store a memory through `engramq stdio`, without a network if that is wanted, and find it by its meaning."""
    apart = APART if offline and can_be_apart() else ()
    with serving(root, *apart, *command, "stdio") as call:
        assert call("store_memory", content="Ada prefers green tea in the morning")["status"] == "stored"
        found = call("search_memories", query="what does Ada drink?")
        assert [memory["content"] for memory in found["memories"]] == ["Ada prefers green tea in the morning"]
    root.run(*command, "down")


@pytest.mark.promise("RC-1")
@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_in_a_clean_environment(root: Root, index: str, version: str) -> None:
    interpreter = python(version)
    root.run(UV, "venv", "--quiet", "--python", interpreter, "env")
    root.run(UV, "pip", "install", "--quiet", "--python", "env/bin/python", "--index", index, "engramq", PYTHONPATH="")
    engramq = str(root.project / "env" / "bin" / "engramq")
    assert "engramq" in root.run(engramq, "--version")
    files = root.run(UV, "pip", "show", "--python", "env/bin/python", "--files", "engramq").split("Files:")[1].split()
    assert {Path(file).parts[0] for file in files if ".dist-info" not in file and ".." not in file} == {"engramq"}
    stores_and_finds(root, engramq)


@pytest.mark.promise("RC-2")
def test_uvx_runs_it_in_one_line(root: Root, index: str) -> None:
    uvx = str(Path(UV).with_name("uvx"))
    command = [uvx, "--quiet", "--index", index, "--python", python("3.12"), "engramq"]
    root.run(*command, "--version", PYTHONPATH="")
    stores_and_finds(root, *command, offline=False)  # uvx asks the index each time
    shown = json.loads(root.run(*command, "connect", "gemini", "--print"))["mcpServers"]["engramq"]
    assert [shown["command"], *shown["args"]] == [uvx, "engramq", "stdio"]


@pytest.mark.promise("RC-2")
def test_pipx_installs_it_in_one_line(root: Root, index: str) -> None:
    places = {"PIPX_HOME": str(root.home / "pipx"), "PIPX_BIN_DIR": str(root.home / "bin"), "PYTHONPATH": ""}
    root.run(
        str(RELEASE / "pipx"), "install", "--quiet", "--pip-args", f"--extra-index-url {index}", "engramq", **places
    )
    engramq = str(root.home / "bin" / "engramq")
    stores_and_finds(root, engramq)
    shown = json.loads(root.run(engramq, "connect", "gemini", "--print"))["mcpServers"]["engramq"]
    assert shown["command"] == engramq


@pytest.mark.promise("RC-1")
def test_the_bill_of_materials_names_what_is_installed() -> None:
    found = json.loads(bill_of_materials(str(RELEASE / "cyclonedx-py")))
    names = {component["name"] for component in found["components"]}
    assert (found["bomFormat"], found["metadata"]["component"]["name"]) == ("CycloneDX", "engramq")
    assert {"mcp", "onnxruntime", "psycopg-binary", "tomlkit"} <= names
    assert not {"pytest", "mypy", "ruff", "fastembed"} & names


@pytest.mark.promise("RC-12")
def test_the_registry_would_take_our_entry(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_bytes((ROOT / "server.json").read_bytes())
    command = [str(RELEASE / "skillsaw"), "lint", "--strict", "--no-plugins", "--format", "json", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "mcp-registry" in done.stdout, done.stdout + done.stderr
    assert (json.loads(done.stdout)["violations"], done.returncode) == ([], 0)
