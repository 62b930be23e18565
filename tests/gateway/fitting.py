"""Arguments made up from the tools' own schemas, for tests that try whatever there is."""

from typing import Any

from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from gateway.mcp.schema import input_schema
from gateway.mcp.tools.tool import Tool

ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


def fitting(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that the tool's schema allows."""
    return _objects(input_schema(tool))


def _objects(schema: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = {name: _values(one) for name, one in schema["properties"].items()}
    required = schema.get("required", [])
    return st.fixed_dictionaries(
        {name: values[name] for name in required},
        optional={name: value for name, value in values.items() if name not in required},
    )


def _values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    # The package's own strategy for objects does not run with the present Hypothesis.
    if schema["type"] == "object":
        return _objects(schema) if "properties" in schema else st.dictionaries(ANY_TEXT, JSON)
    if schema["type"] == "array" and schema["items"]["type"] == "object":
        return st.lists(_objects(schema["items"]), max_size=5)
    return from_schema(schema)
