"""The alert rules, by Prometheus' own promtool: they are rules, and fire when they should."""

import pytest

from tests.deploy.manifests.conftest import DEPLOY, of_system, run

pytestmark = pytest.mark.promise("OP-13")

RULES = DEPLOY / "observability"


def test_promtool_has_nothing_to_say_against_the_rules() -> None:
    done = run([of_system("promtool"), "check", "rules", RULES / "alerts.yaml"])
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_fire_when_they_should_and_not_before() -> None:
    done = run([of_system("promtool"), "test", "rules", RULES / "alerts.test.yaml"], cwd=RULES)
    assert done.returncode == 0, done.stdout + done.stderr
