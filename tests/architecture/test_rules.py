"""The source keeps the rules, and each rule reports what it is there for: breaches are planted in made-up modules."""

from collections.abc import Callable

import pytest

from tests.architecture import rules
from tests.architecture.source import Module, modules, parsed

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
