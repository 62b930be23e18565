"""A home whose PostgreSQL is of an older major version is moved by `up`, or by hand, and nothing of it is lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.deploy.embedded import versions
from engramq.deploy.embedded.postgres import POSTGRESQL
from engramq.deploy.home import Home
from engramq.deploy.upgrade.clients import Rows
from tests.stack.old_cluster import OLD, age

ENGRAMQ = str(Path(sys.executable).with_name("engramq"))
BOUND_S = 100.0
CONTENTS = [f"The keeper of lighthouse {number} wrote down {number} ships." for number in range(40)]

pytestmark = pytest.mark.timeout(400)


def engramq(home: Path, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ENGRAMQ_HOME": str(home), "ENGRAMQ_EMBEDDER": "hash", "ENGRAMQ_PORT": "0"}
    return subprocess.run(
        [ENGRAMQ, *arguments],
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )


def contents(home: Path, tmp_path: Path) -> list[str]:
    """Return the contents of all memories, as an export writes them."""
    target = tmp_path / "exported.jsonl"
    target.unlink(missing_ok=True)
    done = engramq(home, "export", str(target))
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in target.read_text().splitlines()]
    return sorted(record["content"] for record in records if "content" in record)


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Rows]]:
    """A home of a former release, and how many rows its tables have."""
    home = tmp_path_factory.mktemp("aged") / "home"
    rows = home.parent / "rows.jsonl"
    rows.write_text("".join(json.dumps({"content": content}) + "\n" for content in CONTENTS))
    done = engramq(home, "import", str(rows))
    assert done.returncode == 0, done.stderr
    engramq(home, "down")
    return home, age(Home(home))


@pytest.fixture
def home(aged: tuple[Path, dict[str, Rows]], tmp_path: Path) -> Iterator[Path]:
    """A copy of it."""
    copy = tmp_path / "home"
    subprocess.run(["cp", "--archive", str(aged[0]), str(copy)], check=True)
    yield copy
    engramq(copy, "down")


def test_it_is_moved_by_hand_and_the_old_files_stay(
    home: Path, aged: tuple[Path, dict[str, Rows]], tmp_path: Path
) -> None:
    refused = engramq(home, "export", str(tmp_path / "refused.jsonl"))
    assert refused.returncode == 1
    assert f"PostgreSQL {OLD}" in refused.stderr
    assert "engramq upgrade-data" in refused.stderr
    engramq(home, "down")  # the stack that has just refused may still be leaving
    done = engramq(home, "upgrade-data", "--json")
    assert done.returncode == 0, done.stderr
    moved = json.loads(done.stdout)["moved"]
    tables = aged[1]["engramq"]
    assert (moved["before"], moved["after"]) == (OLD, POSTGRESQL)
    assert (moved["tables"], moved["rows"]) == (len(tables), sum(tables.values()))
    assert versions.cluster_version(Path(moved["kept"])) == OLD
    assert versions.cluster_version(home / "postgres" / "data") == POSTGRESQL
    assert contents(home, tmp_path) == sorted(CONTENTS)
    engramq(home, "down")
    assert engramq(home, "upgrade-data").stdout == "Nothing to move.\n"


@pytest.mark.parametrize("step", ["The database is of", "The old server runs", "The new server runs"])
def test_killed_at_any_step_it_begins_anew(home: Path, step: str, tmp_path: Path) -> None:
    environment = {**os.environ, "ENGRAMQ_HOME": str(home)}
    process = subprocess.Popen([ENGRAMQ, "upgrade-data"], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr as told:
        assert any(line.startswith(step) for line in told)
        process.send_signal(signal.SIGKILL)
    assert process.wait(BOUND_S) == -signal.SIGKILL
    assert versions.cluster_version(home / "postgres" / "data") == OLD
    done = engramq(home, "upgrade-data")
    assert done.returncode == 0, done.stderr
    assert contents(home, tmp_path) == sorted(CONTENTS)
    assert not (home / "postgres" / "upgrading").exists()


def test_killed_between_the_two_renames_the_next_start_does_the_second(home: Path, tmp_path: Path) -> None:
    assert engramq(home, "upgrade-data").returncode == 0
    data = home / "postgres" / "data"
    data.rename(data.with_name(versions.UPGRADED))
    assert contents(home, tmp_path) == sorted(CONTENTS)


def test_up_moves_it_before_it_starts(home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "ENGRAMQ_HOME": str(home), "ENGRAMQ_EMBEDDER": "hash", "ENGRAMQ_PORT": "0"}
    process = subprocess.Popen([ENGRAMQ, "up"], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as told:
        lines = []
        for line in told:
            lines.append(line)
            if "Ctrl-C stops it" in line:
                process.send_signal(signal.SIGINT)
    assert process.wait(BOUND_S) == 0, lines
    assert any(f"rows to PostgreSQL {POSTGRESQL}" in line for line in lines)
    assert contents(home, tmp_path) == sorted(CONTENTS)


def test_a_folder_without_the_old_programs_is_refused_and_nothing_is_changed(home: Path, tmp_path: Path) -> None:
    refused = engramq(home, "upgrade-data", "--old-binaries", str(tmp_path))
    assert (refused.returncode, f"has no `postgres` of version {OLD}" in refused.stderr) == (1, True)
    (home / "postgres" / "data" / "PG_VERSION").write_text("9\n")
    nowhere = engramq(home, "upgrade-data")
    assert nowhere.returncode == 1
    assert "postgresql-9-pgvector" in nowhere.stderr
    assert sorted(path.name for path in (home / "postgres").glob("*data*")) == ["data"]


def test_a_newer_cluster_is_refused_and_left_alone(home: Path, tmp_path: Path) -> None:
    (home / "postgres" / "data" / "PG_VERSION").write_text("99\n")
    refused = engramq(home, "export", str(tmp_path / "refused.jsonl"))
    assert refused.returncode == 1
    assert "PostgreSQL 99" in refused.stderr
    assert engramq(home, "upgrade-data").stdout == "Nothing to move.\n"
