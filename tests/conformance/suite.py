"""One run of the suite, what it found, and what it was expected to find."""

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conformance.conftest import INSTALLED

EXPECTED: Final = Path(__file__).with_name("expected")
BOUND_S: Final = 100.0
FAILED: Final = frozenset({"FAILURE", "WARNING"})  # as the suite itself compares with what was expected

# A scenario or one of its checks, and the reason why it fails.
_ENTRY: Final = re.compile(r"  - ([a-z0-9-]+)(?::([a-z0-9-]+))? # (\S.{10,})")
_RESULT: Final = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True, slots=True)
class Edition:
    """One version of the suite, run for one revision of the protocol."""

    name: str
    package: str
    options: tuple[str, ...]


EDITIONS: Final = (
    Edition("0.1.16", "conformance-stable", ("--suite", "all")),
    Edition("2025-11-25", "conformance-alpha", ("--suite", "all", "--spec-version", "2025-11-25")),
    Edition("2026-07-28", "conformance-alpha", ("--requirements", "2026-07-28")),
)

Check = tuple[str, str | None]  # a scenario and one of its checks; None stands for all


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run found."""

    scenarios: frozenset[str]
    failed: frozenset[tuple[str, str]]
    is_as_expected: bool  # as the suite says
    said: str

    def failed_scenarios(self) -> set[str]:
        return {scenario for scenario, _ in self.failed}


def expected(edition: Edition, target: str) -> dict[Check, str]:
    """Return what is expected to fail, with the reasons."""
    found: dict[Check, str] = {}
    for line in _expected_file(edition, target).read_text().splitlines():
        if line.startswith("  "):
            entry = _ENTRY.fullmatch(line)
            assert entry is not None, f"no entry with a reason: {line}"
            found[entry[1], entry[2]] = entry[3]
    return found


def run(edition: Edition, target: str, url: str, node: str, results: Path) -> Findings:
    """Run all scenarios of an edition against a server."""
    program = INSTALLED / "node_modules" / edition.package / "dist" / "index.js"
    options = ["--url", url, "--expected-failures", str(_expected_file(edition, target)), "-o", str(results)]
    ended = subprocess.run(
        [node, str(program), "server", *options, *edition.options],
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    scenarios, failed = set(), set()
    for folder in results.iterdir():
        named = _RESULT.fullmatch(folder.name)
        assert named is not None, folder.name
        scenarios.add(named[1])
        checks = json.loads((folder / "checks.json").read_text())
        failed |= {(named[1], check["id"]) for check in checks if check["status"] in FAILED}
    return Findings(
        frozenset(scenarios), frozenset(failed), ended.returncode == 0, ended.stdout[-4_000:] + ended.stderr
    )


def _expected_file(edition: Edition, target: str) -> Path:
    return EXPECTED / f"{target}-{edition.name}.yml"
