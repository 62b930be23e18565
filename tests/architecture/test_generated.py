"""What is generated is what its declarations make of it. Needs no Node: the types of TypeScript name their origin."""

import re

import pytest

from tests.architecture.source import ROOT
from tools.generate import stale


@pytest.mark.promise("MT-16")
@pytest.mark.promise("RC-7")
@pytest.mark.promise("RC-8")
def test_nothing_generated_is_stale() -> None:
    assert stale() == [], "run: make generate"


def test_the_locks_of_clients_have_the_extras_that_are_asked_for() -> None:
    """Without them the lock is not what `make lock-clients` makes."""
    folder = ROOT / "tests/clients"
    asked = {
        (path.stem, wanted)
        for path in folder.glob("requirements*.in")
        for wanted in re.findall(r"^[\w.-]+\[\w+\](?===)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert asked
    locks = {lock: (folder / f"{lock}.lock").read_text(encoding="utf-8").splitlines() for lock, _ in asked}
    missing = [wanted for lock, wanted in asked if not any(line.startswith(f"{wanted}==") for line in locks[lock])]
    assert missing == []
