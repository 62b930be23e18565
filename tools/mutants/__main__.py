"""Run mutants by cosmic-ray: `make mutants`; `make mutants MUTANTS="privacy workers/db/ledger.py"` for some.

It works in a copy of HEAD, so the checkout stays as it is, and a run that was ended goes on where it was. It prints the
survivors, and ends with 1 if there are any. Each mutant costs a start of pytest: a part takes hours, so run it weekly.
"""

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ENVIRONMENT: Final = ROOT / ".environments" / "mutants"
TIMEOUT_S: Final = 300.0  # a part's tests take up to two minutes on a busy machine; longer is a mutant that hangs
# Unions in annotations are computed at import, where no test can tell `|` from another operator that fails as well.
LEFT_OUT: Final = "core/ReplaceBinaryOperator_BitOr_.*"
SURVIVORS: Final = (
    "select result.diff from mutation_specs as spec join work_results as result using (job_id) "
    "where result.test_outcome = 'SURVIVED' order by spec.module_path, spec.start_pos_row"
)
STATES: Final = "select coalesce(test_outcome, worker_outcome), count(*) from work_results group by 1"


@dataclass(frozen=True, slots=True)
class Part:
    """Modules that are changed, and the tests that should notice it, the quickest first."""

    modules: Sequence[str]
    tests: Sequence[str]


PARTS: Final[Mapping[str, Part]] = {
    "queue": Part(
        ("workers/queue/dead_letters.py", "workers/queue/job.py", "workers/queue/settlement.py"),
        (
            "tests/queue/test_round_trip.py",
            "tests/queue/test_failures.py",
            "tests/queue/test_follow_ups.py",
            "tests/queue/test_pending.py",
            "tests/queue/test_takeover.py",
            "tests/queue/test_inspection.py",
        ),
    ),
    "ledger": Part(
        ("workers/db/ledger.py", "workers/runner.py"),
        (
            "tests/workers/db/test_ledger.py",
            "tests/workers/test_once.py",
            "tests/workers/test_references.py",
            "tests/workers/db/test_faults.py",
        ),
    ),
    "trust": Part(
        ("workers/memories/preconditions.py", "workers/memories/review.py", "gateway/identity/authorization.py"),
        (
            "tests/workers/memories/test_router.py",
            "tests/gateway/test_auth.py",
            "tests/workers/memories/trust/test_promotion.py",
            "tests/workers/memories/trust/test_seen.py",
            "tests/workers/memories/trust/test_undoing.py",
        ),
    ),
    "privacy": Part(
        ("workers/db/viewers.py", "workers/db/privacy.py", "workers/memories/sharing.py"),
        (
            "tests/workers/tenants/test_viewers.py",
            "tests/workers/tenants/test_privacy.py",
            "tests/workers/tenants/test_private.py",
            "tests/workers/memories/trust/test_sharing.py",
        ),
    ),
}


def configuration(part: Part) -> str:
    """Return what cosmic-ray reads, as TOML."""
    test = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *part.tests]
    return (
        f"[cosmic-ray]\nmodule-path = {json.dumps(part.modules)}\ntimeout = {TIMEOUT_S}\nexcluded-modules = []\n"
        f"test-command = {json.dumps(' '.join(test))}\n\n[cosmic-ray.distributor]\nname = 'local'\n\n"
        f"[cosmic-ray.filters.operators-filter]\nexclude-operators = [{json.dumps(LEFT_OUT)}]\n"
    )


def copied(folder: Path) -> Path:
    """Return a copy of HEAD, made anew unless it is of this commit already."""
    head = _git("rev-parse", "HEAD").decode().strip()
    tree = folder / head
    if not tree.exists():
        for old in folder.iterdir() if folder.exists() else ():
            shutil.rmtree(old)
        tree.mkdir(parents=True)
        archive = folder.with_suffix(".tar")
        archive.write_bytes(_git("archive", "HEAD"))
        with tarfile.open(archive) as packed:
            packed.extractall(tree, filter="tar")
        archive.unlink()
    return tree


def survivors(name: str, part: Part, tree: Path) -> Iterator[str]:
    """Run a part's mutants, those that a broken-off run left, and yield the survivors as diffs."""
    settings, session = (tree / f"{name.replace('/', '.')}{suffix}" for suffix in (".toml", ".sqlite"))
    settings.write_text(configuration(part), encoding="utf-8")
    if not session.exists():
        _run(tree, "cosmic-ray", "init", settings.name, session.name)
        _run(tree, "cr-filter-operators", session.name, settings.name)
    _run(tree, "cosmic-ray", "exec", settings.name, session.name)
    with sqlite3.connect(session) as results:
        counts = ", ".join(f"{state.lower()} {count}" for state, count in results.execute(STATES))
        sys.stdout.write(f"{name}: {counts}\n")
        yield from (diff for (diff,) in results.execute(SURVIVORS))


def _run(tree: Path, program: str, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    subprocess.run([ENVIRONMENT / "bin" / program, *arguments], cwd=tree, env=environment, check=True)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout  # noqa: S607 - the PATH's own


def main(arguments: Sequence[str]) -> int:
    """Run the parts or modules that are named, or all; return 1 if a mutant survived."""
    modules = {module: Part((module,), part.tests) for part in PARTS.values() for module in part.modules}
    known = {**PARTS, **modules}
    parser = argparse.ArgumentParser(prog="python -m tools.mutants")
    parser.add_argument("names", nargs="*", help=f"{', '.join(PARTS)}, or modules of these; default: all")
    names = parser.parse_args(arguments).names or list(PARTS)
    if unknown := set(names) - known.keys():
        parser.error(f"no such part or module: {', '.join(sorted(unknown))}")
    tree = copied(ROOT / ".environments" / "mutants-tree")
    alive = [diff for name in names for diff in survivors(name, known[name], tree)]
    sys.stdout.writelines(f"{diff}\n" for diff in alive)
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
