"""The weekly run of mutants names modules and tests that exist."""

from tests.architecture.source import ROOT
from tools.mutants.__main__ import PARTS


def test_each_part_names_modules_and_tests_that_exist() -> None:
    named = [path for part in PARTS.values() for path in (*part.modules, *part.tests)]
    assert [path for path in named if not (ROOT / path).is_file()] == []
