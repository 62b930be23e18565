"""Arguments made up from the tools' own schemas, for tests that try whatever there is."""

import functools
from typing import Any

from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from engramq.gateway.mcp.schema import input_schema, object_schema
from engramq.schemas.commands import TOOLS, Tool

ANY_TEXT = st.text(st.characters(exclude_categories=()))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner),
    max_leaves=8,
)


REFERENCES = st.sampled_from(["@stored", "@recalled[0]", "@recalled[1]", "@recalled[2]"])


def fitting(tool: Tool) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that the tool's schema allows; ids are often references."""
    return _fitting(tool.name)


@functools.cache
def _fitting(name: str) -> st.SearchStrategy[dict[str, Any]]:
    tool = TOOLS[name]
    batches = {
        name: st.lists(_objects(object_schema(items.taken), items.ids), max_size=5)
        for name, items in tool.batches.items()
    }
    return _objects(input_schema(tool), tool.ids, batches)


def _objects(
    schema: dict[str, Any], ids: tuple[str, ...], known: dict[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[dict[str, Any]]:
    values = {name: _values(item, name in ids) for name, item in schema["properties"].items()} | (known or {})
    required = schema.get("required", [])
    return st.fixed_dictionaries(
        {name: values[name] for name in required},
        optional={name: value for name, value in values.items() if name not in required},
    )


def _values(schema: dict[str, Any], is_id: bool) -> st.SearchStrategy[Any]:
    if schema["type"] == "object":  # the package's own strategy for objects does not run with the present Hypothesis
        return st.dictionaries(ANY_TEXT, JSON)
    if schema["type"] == "array" and schema["items"]["type"] == "object":
        return st.nothing()  # a batch, which says itself what its items are
    if is_id:
        return st.lists(REFERENCES, min_size=1) if schema["type"] == "array" else REFERENCES | from_schema(schema)
    return from_schema(schema)


@st.composite
def tried(draw: st.DrawFn, tool: Tool) -> Any:
    """Arguments that fit, or that fitted before something in them was changed, or anything at all."""
    given: Any = draw(fitting(tool))
    match draw(st.sampled_from(["as they fit", "something else", "left out", "added", "an item", "anything"])):
        case "something else" if given:
            given[draw(st.sampled_from(sorted(given)))] = draw(JSON | st.sampled_from(ODD))
        case "left out" if given:
            del given[draw(st.sampled_from(sorted(given)))]
        case "added":
            given[draw(st.sampled_from([*input_schema(tool)["properties"], *tool.aliases, "bogus"]) | ANY_TEXT)] = draw(
                JSON | st.sampled_from(ODD)
            )
        case "an item":
            for name in tool.batches:
                given[name] = [*given[name], draw(JSON | st.dictionaries(st.sampled_from(["source", "target"]), JSON))]
        case "anything":
            return draw(JSON)
    return given


@st.composite
def calls(draw: st.DrawFn) -> tuple[Tool, Any]:
    """A tool, and arguments to try on it."""
    tool = TOOLS[draw(st.sampled_from(sorted(TOOLS)))]
    return tool, draw(tried(tool))


# What programs trip over.
ODD = [
    "@stored", "@recalled[0]", "@recalled[999999]", "0190b6a1-8c1e-7d2a-9f00-3c5b7e9d1a42",
    "{curly}: %s \\ ' \" ; drop table nodes -- \r\n*", "a:b{c}d", "x" * 40_000, "\u202e\u200b\ufeff", "supersedes",
    -0.0, 5e-324, 1e308, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, float("nan"), float("-inf"), [[[[]]]], [None] * 201,
    {"": {"": {"": []}}},
]  # fmt: skip
