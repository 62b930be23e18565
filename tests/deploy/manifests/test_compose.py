"""compose.yaml by the schema of the Compose specification, the alert rules by Prometheus' own promtool.

What only this project knows of compose.yaml is in tests/deploy/test_shipped_files.py.
"""

import pytest

from tests.deploy.manifests.conftest import DEPLOY, of_system, run, tool

RULES = DEPLOY / "observability"


@pytest.mark.promise("OP-8")
def test_compose_is_as_the_specification_says() -> None:
    compose = DEPLOY / "docker" / "compose.yaml"
    done = run([tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", compose])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.promise("OP-13")
@pytest.mark.parametrize(("check", "file"), [("check", "alerts.yaml"), ("test", "alerts.test.yaml")])
def test_the_alert_rules_are_rules_and_fire_when_they_should(check: str, file: str) -> None:
    done = run([of_system("promtool"), check, "rules", RULES / file], cwd=RULES)
    assert done.returncode == 0, done.stdout + done.stderr
