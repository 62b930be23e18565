"""`server.json`, our entry in the MCP registry, agrees with the package; `make test-package` reads it by the schema."""

import json
import re
from typing import Any

import pytest

from engramq.schemas.settings import SETTINGS
from tests.architecture.source import ROOT
from tools.release.version import VERSION

pytestmark = pytest.mark.promise("RC-12")


@pytest.fixture
def entry() -> Any:
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def test_it_is_of_this_package_and_version(entry: Any) -> None:
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == VERSION
    assert (package["registryType"], package["identifier"], package["runtimeHint"]) == ("pypi", "engramq", "uvx")
    assert [argument["value"] for argument in package["packageArguments"]] == ["stdio"]
    # By this line in the page of the package the registry knows whose it is.
    assert f"mcp-name: {entry['name']}" in (ROOT / "README.md").read_text(encoding="utf-8")
    # What comes from an account of GitHub is named by it.
    assert re.match(r"io\.github\.[\w-]+/", entry["name"])


def test_its_variables_are_settings_with_our_defaults(entry: Any) -> None:
    settings = {each.variable: each for each in SETTINGS}
    (package,) = entry["packages"]
    for variable in package["environmentVariables"]:
        setting = settings[variable["name"]]
        assert variable.get("default", setting.default) == setting.default
        assert variable.get("isSecret", False) == setting.secret
