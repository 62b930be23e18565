"""`server.json`, our entry in the MCP registry: what its schema of 2025-12-11 asks, and the registry beside.

The rules are written here by ourselves, for the fields that we use: another field is refused until it has some.
`make test-package` reads the entry by the released schema itself.
"""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from engramq.schemas.settings import SETTINGS
from tests.architecture.source import ROOT
from tools.release.version import VERSION

pytestmark = pytest.mark.promise("RC-12")

Text = Annotated[str, Meta(min_length=1)]
Short = Annotated[str, Meta(min_length=1, max_length=100)]
Name = Annotated[str, Meta(min_length=3, max_length=200, pattern=r"^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$")]
# One version: no range, and not `latest`, which the registry refuses as well.
Exact = Annotated[str, Meta(max_length=255, pattern=r"^\d+\.\d+\.\d+([-.+][0-9A-Za-z.+-]+)?$")]


class Rule(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """What an object may have."""


class Stdio(Rule):
    type: Literal["stdio"]


class Positional(Rule):
    """An argument; the schema asks for `value` or `valueHint`, and ours are fixed."""

    type: Literal["positional"]
    value: Text


class Variable(Rule):
    name: Text
    description: Text
    format: Literal["string", "number", "boolean", "filepath"] = "string"
    default: str = ""
    is_required: bool = False
    is_secret: bool = False


class Package(Rule):
    registry_type: Literal["pypi"]
    identifier: Text
    version: Exact
    runtime_hint: Literal["uvx"]
    transport: Stdio
    package_arguments: list[Positional]
    environment_variables: list[Variable]


class Server(Rule):
    schema: Literal["https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"] = msgspec.field(
        name="$schema"
    )
    name: Name
    title: Short
    description: Short
    version: Exact
    packages: Annotated[list[Package], Meta(min_length=1)]


@pytest.fixture
def entry() -> Any:
    return json.loads((ROOT / "server.json").read_text(encoding="utf-8"))


def test_it_has_the_form_of_its_schema(entry: Any) -> None:
    msgspec.convert(entry, Server)


Break = Callable[[Any], object]
WRONG: dict[str, Break] = {
    "no name": lambda entry: entry.pop("name"),
    "a name of two slashes": lambda entry: entry.update(name="io.github.a/b/c"),
    "a name of none": lambda entry: entry.update(name="engramq"),
    "a long description": lambda entry: entry.update(description="x" * 101),
    "no description": lambda entry: entry.update(description=""),
    "no version": lambda entry: entry.pop("version"),
    "a range": lambda entry: entry.update(version=">=0.1"),
    "the latest": lambda entry: entry["packages"][0].update(version="latest"),
    "another schema": lambda entry: entry.update({"$schema": "https://example.org/server.schema.json"}),
    "a field in snake case": lambda entry: entry["packages"][0].update(registry_type="pypi"),
    "no transport": lambda entry: entry["packages"][0].pop("transport"),
    "a transport without an address": lambda entry: entry["packages"][0].update(transport={"type": "streamable-http"}),
    "an argument without a value": lambda entry: entry["packages"][0]["packageArguments"][0].pop("value"),
    "an argument without a type": lambda entry: entry["packages"][0]["packageArguments"][0].pop("type"),
    "a variable without a name": lambda entry: entry["packages"][0]["environmentVariables"][0].pop("name"),
    "another format": lambda entry: entry["packages"][0]["environmentVariables"][0].update(format="path"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_entry_that_the_registry_would_refuse_is_found(entry: Any, wrong: str) -> None:
    broken = deepcopy(entry)
    WRONG[wrong](broken)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(broken, Server)


def test_it_is_of_this_package_and_version(entry: Any) -> None:
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == VERSION
    assert (package["registryType"], package["identifier"], package["runtimeHint"]) == ("pypi", "engramq", "uvx")
    assert [one["value"] for one in package["packageArguments"]] == ["stdio"]
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
