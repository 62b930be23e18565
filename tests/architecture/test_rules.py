"""The source keeps its rules, layers and promises, and what is generated is not stale.

Each rule reports what it is there for: breaches are planted in made-up modules. The types of TypeScript name their
origin, so that nothing here needs Node.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest
from tests.architecture import rules
from tests.architecture.source import PACKAGES, ROOT, Module, modules, parsed
from tools.generate import stale
from tools.promises import evidence, marks, promises

Rule = Callable[[Module], list[str]]


def test_sql_lives_in_sql_files() -> None:
    assert [breach for module in modules() for breach in rules.sql(module)] == []


def test_pure_modules_import_what_computes_and_ask_no_clock() -> None:
    named = {module.name: module for module in modules()}
    assert [breach for name in rules.PURE for breach in rules.impure(named[name])] == []


def test_schemas_import_msgspec_and_do_no_input_or_output() -> None:
    assert [breach for module in modules("schemas") for breach in rules.input_output(module)] == []


PLANTED: list[tuple[Rule, str, str]] = [
    (rules.sql, "workers.links.writer", 'QUERY = f"delete from {table} where id = %s"'),
    (rules.sql, "workers.links.writer", 'QUERY = b"with one as (select 1) select * from one"'),
    (rules.impure, "workers.links.rules", "from engramq.workers.db.database import Store"),
    (rules.impure, "workers.links.rules", "from datetime import datetime\nNOW = datetime.now()"),
    (rules.impure, "workers.links.rules", "CUES = open('cues').read()"),
    (rules.input_output, "schemas.settings", "import redis"),
    (rules.input_output, "schemas.settings", "import os\nHOME = os.environ['HOME']"),
    (rules.input_output, "schemas.settings", "from pathlib import Path\nTEXT = Path('settings').read_text()"),
]


@pytest.mark.parametrize(("rule", "name", "source"), PLANTED, ids=[source for _, _, source in PLANTED])
def test_a_planted_breach_is_reported(rule: Rule, name: str, source: str) -> None:
    found = rule(parsed(f"engramq.{name}", source))
    assert len(found) >= 1
    assert all(breach.startswith(f"engramq.{name}:") for breach in found)


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


LINT_IMPORTS = str(Path(sys.executable).parent / "lint-imports")


def contracts() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {contract["id"] for contract in settings["tool"]["importlinter"]["contracts"]}


def test_the_contracts_hold() -> None:
    command = [LINT_IMPORTS, "--no-cache", "--no-logo"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in ended.stdout


def test_every_package_has_a_contract() -> None:
    packages = {path.parent.name for package in PACKAGES for path in ROOT.glob(f"{package}/__init__.py")} | {
        f"{half}.{path.parent.name}" for half in ("gateway", "workers") for path in ROOT.glob(f"{half}/*/__init__.py")
    }
    assert packages - contracts() == set()


ALL = {promise.number: promise for family in promises().values() for promise in family}


def test_every_promise_that_is_kept_has_a_test() -> None:
    named = evidence()
    assert [number for number, promise in ALL.items() if not promise.is_later and number not in named] == []


def test_every_named_promise_exists() -> None:
    assert sorted(set(evidence()) - set(ALL)) == []


def test_the_mark_of_a_whole_file_counts_for_each_of_its_tests(tmp_path: Path) -> None:
    mark = "pytest.mark.promise"
    (file := tmp_path / "test_it.py").write_text(
        f'pytestmark = [{mark}("A-1")]\n@{mark}("A-2")\ndef test_a(): ...\nasync def test_b(): ...\n'
    )
    assert list(marks(file)) == [("A-1", 2), ("A-2", 1)]


def test_each_number_and_each_sentence_stand_once() -> None:
    sentences = [promise.sentence for promise in ALL.values()]
    assert len(set(sentences)) == len(sentences) == sum(len(family) for family in promises().values())
    assert all(sentence.endswith(".") for sentence in sentences)


def test_files_of_tests_that_are_named_for_their_target_or_time_are_there() -> None:
    assert [name for name in (*conftest.TARGETS, *conftest.SLOW) if not (conftest.TESTS / name).exists()] == []


def test_what_takes_longest_begins_first() -> None:
    """A file of one slow test was the last of all, and two of three processes waited for it."""
    files = {"schemas/test_ids.py": 20, "bench/test_trace.py": 1, "schemas/test_codec.py": 30}
    items: list[Any] = [
        SimpleNamespace(path=conftest.TESTS / name) for name, size in files.items() for _ in range(size)
    ]
    conftest.pytest_collection_modifyitems(items)
    order = list(dict.fromkeys(item.path.name for item in items))
    assert order == ["test_trace.py", "test_codec.py", "test_ids.py"]
