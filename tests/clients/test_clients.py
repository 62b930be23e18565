"""The SDKs and frameworks of others: each converts the live listing, lists, stores, finds, and shows what is refused.

They run without a model: what a model would say is told to them, and what they make of it goes to a real stack.
"""

from typing import Any

import pytest

from tests.clients.conftest import Client, Connection, Stack

SDKS = (
    Client("python-1.9", "with_mcp_session", "mcp-1.9"),
    Client("python-1.30", "with_mcp_session", "mcp-1.30"),
    Client("python-2.3", "with_mcp_session"),
    Client("python-2.3-newest", "with_mcp_client"),
    Client("typescript-1.11", "mcp_sdk.mjs", package="@modelcontextprotocol/sdk-1.11"),
    Client("typescript-1.32", "mcp_sdk.mjs", package="@modelcontextprotocol/sdk"),
    Client("typescript-2.4", "mcp_sdk.mjs", package="@modelcontextprotocol/client", era="legacy"),
    Client("typescript-2.4-newest", "mcp_sdk.mjs", package="@modelcontextprotocol/client", era="auto"),
)
NEWEST = {"python-2.3-newest", "typescript-2.4-newest"}
GEMINI = Client("google-genai", "with_google_genai")
OPENAI = Client("openai-agents", "with_openai_agents")
HOSTS = (
    GEMINI,
    OPENAI,
    Client("anthropic", "with_anthropic"),
    Client("langchain", "with_langchain", "mcp-1.30"),
    Client("llama-index", "with_llama_index"),
    Client("pydantic-ai", "with_pydantic_ai"),
    Client("ai-sdk", "ai_sdk.mjs"),
)
# What the models behind these send for parameters that they have no use for, if not nothing.
FILLING = {
    "google-genai": ("defaults",),
    "openai-agents": ("null", "blank"),
    "llama-index": ("null",),
    "ai-sdk": ("null",),
}
DOORS = ("http", "core")


def named(client: Client) -> str:
    return client.name


class Runs:
    """Starts each client once, when the first test asks for it: some take seconds to start."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._reports: dict[tuple[str, str, str], dict[str, Any]] = {}

    def report(self, client: Client, door: str, fill: str = "omitted") -> dict[str, Any]:
        """Return what the client reports of everyday calls, and over HTTP of some more."""
        if (client.name, door, fill) not in self._reports:
            connections = [
                connection(client, entry, how) for entry in DOORS for how in ("omitted", *FILLING.get(client.name, ()))
            ]
            for made, report in zip(connections, client.run(self._stack, connections), strict=True):
                self._reports[client.name, made.door, made.fill] = report
        return self._reports[client.name, door, fill]


def connection(client: Client, door: str, fill: str) -> Connection:
    subject = subject_of(client.name, door, fill)
    return Connection(door, fill, [*everyday(subject), *(further(subject) if door == "http" else ())])


@pytest.fixture(scope="module")
def runs(stack: Stack) -> Runs:
    return Runs(stack)


@pytest.fixture(scope="module")
def listings(stack: Stack) -> dict[str, dict[str, Any]]:
    """The schemas of the tools by door, as the newest Python SDK gets them, which leaves them as they are."""
    doors = (*DOORS, "full")
    reports = SDKS[3].run(stack, [Connection(door) for door in doors])
    listed = {door: report["tools"] for door, report in zip(doors, reports, strict=True)}
    assert listed["http"] == listed["full"]
    assert len(listed["core"]) < len(listed["full"])
    return listed


def subject_of(client: str, door: str, fill: str) -> str:
    return f"{client} by {door} with the rest {fill}"


def everyday(subject: str) -> list[dict[str, Any]]:
    """Return calls that every profile has: a store, a search that finds it, and two refusals of different kinds."""
    return [
        {"tool": "store_memory", "arguments": {"content": f"The spare key of {subject} hangs behind the clock"}},
        {"tool": "search_memories", "arguments": {"query": f"where is the spare key of {subject}?"}},
        {"tool": "store_memory", "arguments": {"content": " "}},
        {"tool": "connect", "arguments": {"source": "same", "target": "same"}},
    ]


def check_everyday(answers: list[dict[str, Any]], subject: str) -> None:
    """Check the answers to these."""
    stored, found, blank, self_loop = answers[:4]
    assert (stored["refused"], stored["body"]["status"]) == (False, "stored"), stored
    assert (found["refused"], found["body"]["status"]) == (False, "success"), found
    assert any(subject in memory["content"] for memory in found["body"]["memories"])
    assert (blank["refused"], blank["body"]["status"], blank["body"]["field"]) == (True, "invalid_parameter", "content")
    assert (self_loop["refused"], self_loop["body"]["code"]) == (True, "self_loop")


def further(subject: str) -> list[dict[str, Any]]:
    """Return calls of tools with other kinds of parameters; none is refused."""
    edge = {"source_name": subject, "target_name": "Rust", "relation": "KNOWS"}
    return [
        {"tool": "get_memory", "arguments": {"memory_id": "unknown"}},
        {"tool": "list_recent_memories", "arguments": {"limit": 1}},
        {"tool": "graph_add_edge", "arguments": edge},
        {"tool": "get_edge", "arguments": edge},
        {"tool": "graph_query_neighbors", "arguments": {"node_name": subject}},
        {"tool": "graph_find_path", "arguments": {"start_node": subject, "end_node": "Rust"}},
        {"tool": "memory_stats", "arguments": {}},
    ]


def check_further(answers: list[dict[str, Any]]) -> None:
    """Check the answers to these."""
    assert [answer for answer in answers[4:] if answer["refused"]] == []
    missing, listed, added, edge, neighbors, path, _ = (answer["body"] for answer in answers[4:])
    assert missing["status"] == "not_found"
    assert listed["count"] == 1
    assert added["created"] is True
    assert edge["edge_id"] == added["edge_id"]
    assert [neighbor["name"] for neighbor in neighbors["neighbors"]] == ["Rust"]
    assert path["path_length"] == 1


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Return what tells a model what to give: names, types, choices, what is wanted. Google's types are in capitals."""
    told = {key: schema[key] for key in ("enum", "required") if schema.get(key)}
    if "type" in schema:
        told["type"] = schema["type"].lower()
    if schema.get("properties"):
        told["properties"] = {name: plain(value) for name, value in schema["properties"].items()}
    if "items" in schema:
        told["items"] = plain(schema["items"])
    return told


def is_closed(schema: dict[str, Any]) -> bool:
    """Tell whether every object within names its keys."""
    within = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    return (schema.get("type") != "object" or bool(schema.get("properties"))) and all(map(is_closed, within))


@pytest.mark.promise("AG-23")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("client", SDKS, ids=named)
def test_an_sdk_lists_calls_and_shows_refusals(
    client: Client, door: str, runs: Runs, listings: dict[str, dict[str, Any]]
) -> None:
    report = runs.report(client, door)
    assert {name: plain(schema) for name, schema in report["tools"].items()} == {
        name: plain(schema) for name, schema in listings[door].items()
    }
    check_everyday(report["answers"], subject_of(client.name, door, "omitted"))
    if client.name in NEWEST:
        assert report["protocol"] == "2026-07-28"


@pytest.mark.promise("AG-13", "AG-23")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("client", HOSTS, ids=named)
def test_a_host_converts_every_tool_and_calls_it(
    client: Client, door: str, runs: Runs, listings: dict[str, dict[str, Any]]
) -> None:
    report = runs.report(client, door)
    assert report["failed"] == {}
    assert {name: set(schema.get("properties") or ()) for name, schema in report["tools"].items()} == {
        name: set(schema["properties"]) for name, schema in listings[door].items()
    }
    check_everyday(report["answers"], subject_of(client.name, door, "omitted"))


@pytest.mark.promise("AG-13")
@pytest.mark.parametrize("door", DOORS)
def test_gemini_is_told_types_choices_and_what_is_wanted(
    door: str, runs: Runs, listings: dict[str, dict[str, Any]]
) -> None:
    told = runs.report(GEMINI, door)["tools"]
    for name, schema in listings[door].items():
        assert plain(told[name]) == plain(schema), name


@pytest.mark.promise("AG-13")
@pytest.mark.parametrize("door", DOORS)
def test_openai_makes_every_schema_strict_that_can_be(
    door: str, runs: Runs, listings: dict[str, dict[str, Any]]
) -> None:
    """An object of anybody's own keys cannot be strict; the package then leaves that tool's schema as it is."""
    report = runs.report(OPENAI, door)
    assert set(report["strict"]) == {name for name, schema in listings[door].items() if is_closed(schema)}
    for name in report["strict"]:
        assert report["tools"][name]["required"] == list(listings[door][name]["properties"])


@pytest.mark.promise("AG-7", "AG-13")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("client", "fill"),
    [pytest.param(host, how, id=f"{host.name}-{how}") for host in HOSTS for how in FILLING.get(host.name, ())],
)
def test_what_a_host_sends_for_parameters_it_has_no_use_for_counts_as_absent(
    client: Client, fill: str, door: str, runs: Runs
) -> None:
    answers = runs.report(client, door, fill)["answers"]
    check_everyday(answers, subject_of(client.name, door, fill))
    if door == "http":
        check_further(answers)
