"""The wheel, built from the sdist, holds what git holds as one package; foreign folders on the path harm nothing."""

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT

pytestmark = pytest.mark.promise("RC-1")

ENGRAMQ = str(Path(sys.executable).parent / "engramq")
BESIDE = ("integrations", "docs")  # whose folders are linked one by one


def run(*command: str, cwd: Path, **variables: str) -> str:
    environment = {**os.environ, **variables}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def build(target: str, source: Path, into: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into), cwd=source)
    return next(into.glob("*.tar.gz" if target == "sdist" else "*.whl"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the sdist unpacks to."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build("sdist", ROOT, folder)) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", sdist, tmp_path_factory.mktemp("wheel"))


def ours() -> set[str]:
    """What git knows of or would take, below the linked folders and the package, by its name in the wheel."""
    linked = {path.resolve().relative_to(ROOT).as_posix() for path in (ROOT / "engramq").iterdir() if path.is_symlink()}
    folders = (*linked, "engramq")
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *folders, cwd=ROOT)
    paths = [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
    files = {path.partition("/")[2] if path.startswith(BESIDE) else path for path in paths}
    return {path if path.startswith("engramq/") else f"engramq/{path}" for path in files}


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.split("/")[0].endswith(".dist-info")}


def test_the_wheel_from_the_sdist_holds_what_git_holds(wheel: Path) -> None:
    assert {f"engramq/{package}/__init__.py" for package in PACKAGES} <= ours()
    assert sorted(contents(wheel)) == sorted(ours())


def test_a_wheel_straight_from_the_tree_is_the_same(wheel: Path, tmp_path: Path) -> None:
    assert sorted(contents(build("wheel", ROOT, tmp_path))) == sorted(contents(wheel))


def test_the_wheel_brings_licences_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        told = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        assert {"LICENSE", "THIRD_PARTY_NOTICES", "METADATA"} <= set(told)
        assert "engramq = engramq.deploy.cli:main" in archive.read(told["entry_points.txt"]).decode()


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with packages of the names of ours, as a project of somebody else's may have them."""
    for package in (*PACKAGES, "tools", "bench"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"raise RuntimeError('the wrong {package}')\n")
    return tmp_path


@pytest.mark.parametrize("command", [(ENGRAMQ,), (sys.executable, "-m", "engramq")], ids=["engramq", "-m engramq"])
def test_foreign_folders_on_the_path_do_no_harm(command: tuple[str, ...], foreign: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "home")
    version = run(*command, "--version", cwd=foreign, PYTHONPATH=str(foreign), ENGRAMQ_HOME=home)
    assert metadata.version("engramq") in version
    status = subprocess.run(
        [*command, "status"],
        cwd=foreign,
        env={**os.environ, "PYTHONPATH": str(foreign), "ENGRAMQ_HOME": home},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "the wrong" not in status.stdout + status.stderr
    assert "Traceback" not in status.stderr
    assert "is not running" in status.stdout


def test_every_command_of_the_wheel_loads_beside_foreign_folders(wheel: Path, foreign: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(foreign / "site")
    loads = "import engramq, engramq.deploy.cli, engramq.gateway.run, engramq.workers.app; print(engramq.__file__)"
    path = os.pathsep.join([str(foreign), str(foreign / "site")])
    loaded = run(sys.executable, "-c", loads, cwd=foreign, PYTHONPATH=path)
    assert Path(loaded.strip()) == foreign / "site" / "engramq" / "__init__.py"
