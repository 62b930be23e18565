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


def test_no_module_is_loaded_by_a_computed_name() -> None:
    assert [breach for module in modules() for breach in rules.loading_by_name(module)] == []


def test_schemas_import_msgspec_and_do_no_input_or_output() -> None:
    assert [breach for module in modules("schemas") for breach in rules.input_output(module)] == []


PLANTED: list[tuple[Rule, str, str]] = [
    (rules.sql, "workers.links.writer", 'QUERY = b"select id from memories where id = %s"'),
    (rules.sql, "workers.links.writer", 'QUERY = "select id,\\n  content\\nfrom memories"'),
    (rules.sql, "workers.links.writer", 'QUERY = f"delete from {table} where id = %s"'),
    (rules.sql, "workers.links.writer", 'QUERY = "update memories set state = 1"'),
    (rules.sql, "workers.links.writer", 'QUERY = b"with one as (select 1) select * from one"'),
    (rules.sql, "workers.links.writer", 'QUERY = "drop table memories"'),
    (rules.impure, "workers.links.rules", "from engramq.workers.db.database import Store"),
    (rules.impure, "workers.links.rules", "import psycopg"),
    (rules.impure, "workers.links.rules", "from engramq.workers.queue.contract import Handler"),
    (rules.impure, "workers.links.rules", "from engramq.schemas.connection import Connection"),
    (rules.impure, "workers.links.rules", "import time"),
    (rules.impure, "workers.links.rules", "from time import monotonic"),
    (rules.impure, "workers.links.rules", "from datetime import datetime\nNOW = datetime.now()"),
    (rules.impure, "workers.links.rules", "import datetime as d\nTODAY = d.date.today()"),
    (rules.impure, "workers.links.rules", "import numpy\nCHANCE = numpy.random.default_rng()"),
    (rules.impure, "workers.links.rules", "CUES = open('cues').read()"),
    (rules.loading_by_name, "gateway.service", "import importlib\nimportlib.import_module('engramq.workers.db')"),
    (rules.loading_by_name, "gateway.service", "import importlib\nload = importlib.import_module"),
    (rules.loading_by_name, "gateway.service", "from importlib import import_module as load"),
    (rules.loading_by_name, "gateway.service", "store = __import__('engramq.' + 'workers.db')"),
    (rules.loading_by_name, "gateway.service", "from runpy import run_module"),
    (rules.loading_by_name, "deploy.cli.root", "NAME = 'engramq.workers.db.database'"),
    (rules.loading_by_name, "workers.app", "NAME = 'engramq.gateway.service'"),
    (rules.input_output, "schemas.settings", "import os\nos.system('true')"),
    (rules.input_output, "schemas.settings", "import os\nrun = os.system"),
    (rules.input_output, "schemas.settings", "from os import system"),
    (rules.input_output, "schemas.settings", "import os\nHOME = os.environ['HOME']"),
    (rules.input_output, "schemas.settings", "TEXT = open('settings').read()"),
    (rules.input_output, "schemas.settings", "from pathlib import Path\nTEXT = Path('settings').read_text()"),
    (rules.input_output, "schemas.settings", "import subprocess"),
    (rules.input_output, "schemas.settings", "import redis"),
    (rules.input_output, "schemas.settings", "from urllib.request import urlopen"),
    (rules.input_output, "schemas.connection", "import numpy"),
]


@pytest.mark.parametrize(("rule", "name", "source"), PLANTED, ids=[source for _, _, source in PLANTED])
def test_a_planted_breach_is_reported(rule: Rule, name: str, source: str) -> None:
    found = rule(parsed(f"engramq.{name}", source))
    assert len(found) >= 1
    assert all(breach.startswith(f"engramq.{name}:") for breach in found)


BLAMELESS: list[tuple[Rule, str, str]] = [
    (
        rules.sql,
        "workers.links.writer",
        '"""Select what is read from it."""\nWORD = "select"\nTEXT = "update it"',
    ),
    (
        rules.impure,
        "workers.links.rules",
        "from datetime import datetime\ndef f(at: datetime): return at.year",
    ),
    (rules.impure, "workers.links.rules", "import re\nCUE = re.compile('cue')"),
    (rules.loading_by_name, "gateway.service", "from importlib.metadata import version"),
    (
        rules.loading_by_name,
        "deploy.cli.root",
        "import importlib\nimportlib.import_module('engramq.deploy.cli.up')",
    ),
    (rules.input_output, "schemas.ids", "import os\nBYTES = os.urandom(8)"),
    (rules.input_output, "schemas.connection", "import asyncio\nimport redis"),
]


@pytest.mark.parametrize(("rule", "name", "source"), BLAMELESS, ids=[source for _, _, source in BLAMELESS])
def test_what_a_rule_does_not_mean_is_not_reported(rule: Rule, name: str, source: str) -> None:
    assert rule(parsed(f"engramq.{name}", source)) == []
