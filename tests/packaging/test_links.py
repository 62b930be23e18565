"""A tree whose links are text files, as git makes them without core.symlinks: no wheel, a clear message, a repair."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tools.package_links import LinksMissing, check, repair

pytestmark = pytest.mark.promise("RC-1")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture
def without_links(tmp_path: Path) -> Path:
    """A clone of the committed tree with core.symlinks=false."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--quiet", "-c", "core.symlinks=false", str(ROOT), str(clone))
    for uncommitted in ("tools/package_links.py", "pyproject.toml"):  # the test tries the tree as it stands
        (clone / uncommitted).write_bytes((ROOT / uncommitted).read_bytes())
    assert (clone / "engramq" / "gateway").is_file()
    return clone


def build(tree: Path, target: str, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_a_build_fails_and_says_what_to_do(target: str, without_links: Path, tmp_path: Path) -> None:
    ended = build(without_links, target, tmp_path / "dist")
    assert ended.returncode != 0
    assert "engramq/gateway" in ended.stderr
    assert "make setup" in ended.stderr
    assert not list((tmp_path / "dist").glob("*"))


def test_a_repaired_tree_builds_the_whole_wheel(without_links: Path, tmp_path: Path) -> None:
    made = repair(without_links)
    linked = [path.name for path in (ROOT / "engramq").iterdir() if path.is_symlink()]
    assert sorted(made) == sorted(linked)
    for name in made:
        assert (without_links / "engramq" / name).readlink() == (ROOT / "engramq" / name).readlink()
    assert build(without_links, "wheel", tmp_path / "dist").returncode == 0
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert {"engramq/gateway/run.py", "engramq/workers/app.py"} <= set(archive.namelist())


def test_a_repair_leaves_a_whole_tree_alone() -> None:
    assert repair(ROOT) == []
    check(ROOT)


def test_a_missing_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "engramq").mkdir()
    with pytest.raises(LinksMissing, match="engramq/deploy"):
        check(tmp_path)


def test_the_editor_workspace_hides_what_the_links_show() -> None:
    lines = (ROOT / "engramq.code-workspace").read_text(encoding="utf-8").splitlines()
    settings = json.loads("\n".join(line for line in lines if not line.lstrip().startswith("//")))["settings"]
    shown = {link.resolve() for link in (ROOT / "engramq").iterdir() if link.is_symlink()}
    hidden = {ROOT / folder for folder in settings["files.exclude"] if not folder.startswith("**")}
    assert hidden == shown
