"""The official conformance suite, in both eras: what applies passes, and what fails is what the lists say."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT
from tests.clients.conftest import Stack
from tests.conformance.fixture.contents import PROMPTS
from tests.conformance.fixture.tools import RUNS
from tests.conformance.suite import EDITIONS, Edition, Findings, expected, run

PAGE = ROOT / "docs" / "conformance.md"

pytestmark = pytest.mark.promise("AG-22")
editions = pytest.mark.parametrize("edition", EDITIONS, ids=lambda edition: edition.name)


@editions
def test_the_transport_passes_all_that_applies(edition: Edition, fixtures_url: str, node: str, results: Path) -> None:
    found = run(edition, "fixtures", fixtures_url, node, results)
    assert_as_expected(found, edition, "fixtures")


@editions
def test_the_tools_pass_all_that_applies(edition: Edition, stack: Stack, node: str, results: Path) -> None:
    found = run(edition, "tools", stack.url, node, results)
    assert_as_expected(found, edition, "tools")


def assert_as_expected(found: Findings, edition: Edition, target: str) -> None:
    """Check that exactly what is listed fails, by the suite's word and by our own, and that the page has the counts."""
    listed = set(expected(edition, target))
    whole = {scenario for scenario, check in listed if check is None}
    failed = {(scenario, None if scenario in whole else check) for scenario, check in found.failed}
    assert failed == listed, found.said
    assert found.is_as_expected, found.said
    passed = found.scenarios - found.failed_scenarios()
    assert (len(found.scenarios), len(passed)) == counts_of_the_page(edition, target)


def counts_of_the_page(edition: Edition, target: str) -> tuple[int, int]:
    """Return how many scenarios docs/conformance.md says that there are, and how many pass."""
    row = re.search(
        rf"^\| {re.escape(edition.name)} .*\| {target} \| (\d+) \| (\d+) \|$", PAGE.read_text(), re.MULTILINE
    )
    assert row is not None, f"{PAGE} has no row of {edition.name} for {target}"
    return int(row[1]), int(row[2])


@editions
def test_only_what_needs_a_fixture_or_an_offer_fails_with_our_tools(edition: Edition) -> None:
    """A list for our tools could hide an answer that is wrong; so each entry names what is missing."""
    missing = {*RUNS, *PROMPTS, "test://", "completion", "logging", "subscriptions", "tasks", "sessions"}
    for check, reason in expected(edition, "tools").items():
        assert any(name in reason for name in missing), (check, reason)
