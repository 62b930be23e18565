"""compose.yaml, by the schema of the Compose specification.

What only this project knows of it is in tests/deploy/test_shipped_files.py.
"""

from pathlib import Path

import pytest

from tests.deploy.manifests.conftest import DEPLOY, run, tool

pytestmark = pytest.mark.promise("OP-8")

COMPOSE = DEPLOY / "docker" / "compose.yaml"


def check(path: Path) -> str:
    """Return what the schema has to say against a file, "" if nothing."""
    done = run([tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", path])
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_compose_is_as_the_specification_says() -> None:
    assert check(COMPOSE) == ""


def test_a_word_that_compose_does_not_know_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "compose.yaml"
    broken.write_text(COMPOSE.read_text().replace("depends_on", "depend_on"))
    assert "depend_on" in check(broken)
