"""CI's script: every target runs, failed tests run once more, and what fails twice fails the run by its name."""

import os
import select
import shutil
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT

# A target passes unless `fails-TARGET` says how often it fails; what it was given stands in `ran`. Where there is a
# pipe `begun`, environments are there once `test` has begun; they wait for what is written into a pipe `held`.
MAKEFILE = """\
.DEFAULT:
\t@[ $@ != environments ] || [ ! -p held ] || cat held
\t@case $@ in environments) [ ! -p begun ] || cat begun;; test) [ ! -p begun ] || echo > begun;; esac
\t@echo "$@ $(findstring --last-failed,$(PYTEST_OPTIONS))" >> ran
\t@echo "output of $@"
\t@echo "$@ $(PYTEST_OPTIONS)" >> options
\t@left=$$(cat fails-$@ 2>/dev/null || echo 0); [ $$left -eq 0 ] || { echo $$((left - 1)) > fails-$@; exit 1; }
"""

OURS = {"MAKEFLAGS", "MAKEOVERRIDES", "PYTEST_OPTIONS", "JOBS"}  # what `make` hands to what it runs, this test for one


def begin_ci(folder: Path, **fails: int) -> subprocess.Popen[str]:
    (folder / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    (folder / "Makefile").write_text(MAKEFILE)
    for target, times in fails.items():
        (folder / f"fails-{target.replace('_', '-')}").write_text(str(times))
    return subprocess.Popen(
        ["bash", ".ci/run"],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name not in OURS} | {"ENGRAMQ_CHROMIUM": "any"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_ci(folder: Path, **fails: int) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    with begin_ci(folder, **fails) as running:
        out, err = running.communicate(timeout=60)
    done = subprocess.CompletedProcess(running.args, running.returncode, out, err)
    return done, [line.strip() for line in (folder / "ran").read_text().splitlines()]


def test_every_target_of_the_makefile_that_tests_is_run(tmp_path: Path) -> None:
    done, ran = run_ci(tmp_path)
    assert done.returncode == 0
    targets = {
        line.partition(":")[0] for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("test")
    }
    by_hand = {"test-agents", "test-image", "test-faults", "test-providers"}
    assert set(ran) == {"setup", "environments", *targets} - by_hand
    assert len(ran) == len(set(ran))
    assert targets - by_hand <= {line.removeprefix("output of ") for line in done.stdout.splitlines()}


def test_environments_are_made_while_the_first_targets_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    done, ran = run_ci(tmp_path, environments=1)
    assert done.returncode == 0
    assert "not all environments could be made" in done.stderr
    assert ran.index("environments") < ran.index("test-page")
    assert "output of environments" in done.stderr


def test_a_run_that_ends_early_ends_what_makes_environments(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "held")
    with begin_ci(tmp_path) as running, (tmp_path / "held").open("wb", buffering=0) as held:
        running.terminate()
        readers = select.poll()
        readers.register(held, 0)
        assert readers.poll(10_000) == [(held.fileno(), select.POLLERR)], "nobody reads any more"


def test_targets_that_run_side_by_side_keep_apart_what_failed(tmp_path: Path) -> None:
    _, ran = run_ci(tmp_path)
    options = (line.split(" ", 1) for line in (tmp_path / "options").read_text().splitlines())
    assert {target: option.strip() for target, option in options if target.startswith("test")} == {
        target: f"-o cache_dir=.pytest_cache/{target}" for target in ran if target.startswith("test")
    }


def test_every_run_of_pytest_takes_the_options_of_ci() -> None:
    runs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pytest -n" in line]
    assert len(runs) >= 12
    assert [line for line in runs if "$(PYTEST_OPTIONS)" not in line] == []


def test_what_failed_is_found_again_by_another_number_of_processes(tmp_path: Path) -> None:
    """Processes of pytest-xdist get options of the command line, and none of the environment."""
    (tmp_path / "test_two.py").write_text("def test_one():\n    assert 0\n\n\ndef test_other():\n    pass\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for processes, result in ((2, "1 failed, 1 passed"), (1, "1 failed")):
        again = ["--last-failed"] if processes == 1 else []
        command = ["-m", "pytest", "-q", "-n", str(processes), "-o", "cache_dir=.kept", *again]
        done = subprocess.run(
            [sys.executable, *command], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.stdout.splitlines()[-1].startswith(f"{result} in")


def test_what_failed_is_run_once_more_alone_and_told(tmp_path: Path) -> None:
    done, ran = run_ci(tmp_path, test_stack=1)
    assert done.returncode == 0
    assert ran.count("test-stack") == 1
    assert ran[-1] == "test-stack --last-failed"
    assert "test-stack passed the second time" in done.stderr


def test_what_fails_twice_fails_the_run_and_the_rest_is_run_all_the_same(tmp_path: Path) -> None:
    done, ran = run_ci(tmp_path, test=2, test_page=1)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "failed: test"
    assert "test-scale" in ran
    assert ran[-2:] == ["test --last-failed", "test-page --last-failed"]
