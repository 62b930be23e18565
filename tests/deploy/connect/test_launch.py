"""A client is told to start engramq the way it was started itself."""

import sys
from pathlib import Path

import pytest

from engramq.deploy.connect.catalogue import how_started

pytestmark = pytest.mark.promise("RC-4")


def script(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("cache", ["archive-v0/x1y2", "environments-v2/engramq-12ab"])
def test_uvx_starts_it_again_where_uvx_started_it(tmp_path: Path, cache: str) -> None:
    uvx = script(tmp_path / "bin" / "uvx")
    prefix = tmp_path / ".cache" / "uv" / cache
    started = how_started({"PATH": str(uvx.parent)}, str(prefix), str(script(prefix / "bin" / "engramq")), "")
    assert started.command("stdio") == (str(uvx), "engramq", "stdio")
    wheel = "/tmp/engramq-0.1.0-py3-none-any.whl"  # finding D15: another version, or nobody's, was run
    assert how_started({"PATH": str(uvx.parent)}, str(prefix), "engramq", wheel).words == (
        str(uvx), "--from", wheel, "engramq",
    )  # fmt: skip


def test_pipx_run_starts_it_again_where_pipx_run_started_it(tmp_path: Path) -> None:
    prefix = tmp_path / ".local" / "pipx" / ".cache" / "12ab"
    assert how_started({"PATH": ""}, str(prefix), "engramq", "").words == ("pipx", "run", "engramq")
    source = "git+https://git.example.com/engramq"
    assert how_started({"PATH": ""}, str(prefix), "engramq", source).words == (
        "pipx", "run", "--spec", source, "engramq",
    )  # fmt: skip


def test_the_script_is_named_where_it_was_called_not_where_it_leads(tmp_path: Path) -> None:
    real = script(tmp_path / "pipx" / "venvs" / "engramq" / "bin" / "engramq")
    link = tmp_path / "local bin" / "engramq"
    link.parent.mkdir()
    link.symlink_to(real)
    assert how_started({}, str(real.parent.parent), str(link)).words == (str(link),)


def test_without_a_script_the_interpreter_starts_it(tmp_path: Path) -> None:
    assert how_started({}, str(tmp_path), "__main__.py").words == (sys.executable, "-P", "-m", "engramq")
