"""The table of operations is complete, and the document says what they take and answer."""

import re
from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments, parameters_of
from engramq.gateway.rest.openapi import document
from engramq.gateway.rest.requests import match
from engramq.schemas.commands import TOOLS
from tests.architecture.source import ROOT

DOCS = ROOT / "docs"


@pytest.mark.promise("RC-7")
def test_each_tool_is_one_operation() -> None:
    places = [(tool.method, tool.path) for tool in TOOLS.values()]
    assert len(set(places)) == len(places)
    shapes = [(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in places]
    assert len(set(shapes)) == len(shapes)


def test_words_go_before_parameters() -> None:
    found = match(b"/v1/memories/search")
    assert found is not None
    assert (list(found.tools), found.values) == (["POST"], ())
    found = match(b"/v1/memories/a%2Fb%20c/restore")
    assert found is not None
    assert found.values == ("a/b c",)
    assert match(b"/v1/memories/") is None
    assert match(b"/v1/memories//restore") is None


@pytest.mark.promise("RC-7")
def test_the_document_names_every_parameter_where_it_is_taken() -> None:
    for name, tool in TOOLS.items():
        said = document()["paths"][tool.path][tool.method.lower()]
        assert said["operationId"] == name
        places: dict[str, str] = {item["name"]: item["in"] for item in said.get("parameters", ())}
        body: dict[str, Any] = said.get("requestBody", {}).get("content", {}).get("application/json", {})
        places |= dict.fromkeys(body.get("schema", {}).get("properties", ()), "body")
        if places.pop("Idempotency-Key", None):
            places["idempotency_key"] = "header"
        assert places.keys() == parameters_of(tool).keys(), name


def test_the_examples_of_the_document_are_taken() -> None:
    for tool in TOOLS.values():
        said = document()["paths"][tool.path][tool.method.lower()]
        example = {item["name"]: item["example"] for item in said.get("parameters", ()) if "example" in item}
        if tool.has_body:
            example |= said["requestBody"]["content"]["application/json"]["example"]
        check_arguments(tool, example)


def test_reads_alone_are_gets_and_what_stands_in_a_path_is_a_required_text() -> None:
    for name, tool in TOOLS.items():
        assert tool.method != "GET" or TOOLS[name].read_only, name
        parameters = parameters_of(tool)
        for part in tool.in_path:
            assert parameters[part].schema["type"] == "string"
            assert parameters[part].required or part == "session", name
