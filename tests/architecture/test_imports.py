"""Who may import whom."""

import graphlib
import re
from collections.abc import Callable

import pytest

from tests.architecture.source import PACKAGES, STANDARD_LIBRARY, Import, imports, modules

# Libraries with one importer each: (library, where it may be imported, why).
OWNERS = [
    ("psycopg", ("engramq.workers.db",), "only the store talks to PostgreSQL"),
    ("psycopg_pool", ("engramq.workers.db",), "only the store talks to PostgreSQL"),
    ("pgvector", ("engramq.workers.db",), "only the store talks to PostgreSQL"),
    ("arq", ("engramq.workers.queue",), "only one package overrides arq"),
    ("mcp", ("engramq.gateway.mcp",), "only one package touches the MCP SDK"),
    ("mcp_types", ("engramq.gateway.mcp",), "only one package touches the MCP SDK"),
    ("jwt", ("engramq.gateway.identity",), "only one package says who a caller is"),
    ("cryptography", ("engramq.gateway.identity",), "only one package says who a caller is"),
    ("onnxruntime", ("engramq.workers.embedders",), "only the embedders load models"),
    ("tokenizers", ("engramq.workers.embedders",), "only the embedders load models"),
]


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def offenders(package: str, is_bad: Callable[[Import], bool]) -> list[str]:
    return [
        f"{found.importer}:{found.line} imports {found.imported}"
        for module in modules(package)
        for found in imports(module)
        if is_bad(found)
    ]


CONNECTION = "engramq.schemas.connection"  # the one module of the contract that does I/O


def test_schemas_import_msgspec_and_the_standard_library_only() -> None:
    allowed = STANDARD_LIBRARY | {"msgspec"}
    allowed_there = allowed | {"redis", "hiredis"}
    assert (
        offenders(
            "schemas",
            lambda found: (
                not within(found.imported, "engramq.schemas")
                and found.imported.split(".")[0] not in (allowed_there if found.importer == CONNECTION else allowed)
            ),
        )
        == []
    )


@pytest.mark.parametrize("package", ["schemas"])
def test_schemas_do_no_input_or_output(package: str) -> None:
    doing = {"socket", "subprocess", "asyncio", "sqlite3", "http", "shutil", "tempfile"}
    assert (
        offenders(
            package,
            lambda found: (
                found.importer != CONNECTION
                and (found.imported.split(".")[0] in doing or within(found.imported, "urllib.request"))
            ),
        )
        == []
    )


def test_gateway_and_workers_meet_only_in_redis() -> None:
    assert offenders("gateway", lambda found: within(found.imported, "engramq.workers", "engramq.deploy")) == []
    assert offenders("workers", lambda found: within(found.imported, "engramq.gateway", "engramq.deploy")) == []


def test_deploy_knows_of_gateway_and_workers_only_their_command_lines() -> None:
    doors = ("engramq.gateway.cli", "engramq.workers.cli")
    assert (
        offenders(
            "deploy",
            lambda found: (
                within(found.imported, "engramq.gateway", "engramq.workers") and not within(found.imported, *doors)
            ),
        )
        == []
    )


@pytest.mark.parametrize(("library", "owners", "why"), OWNERS)
def test_a_library_with_one_owner_is_imported_there_alone(library: str, owners: tuple[str, ...], why: str) -> None:
    found = [
        line
        for package in PACKAGES
        for line in offenders(package, lambda one: within(one.imported, library) and not within(one.importer, *owners))
    ]
    assert found == [], why


def test_the_server_of_the_mcp_sdk_has_one_importer() -> None:
    importers = {
        found.importer
        for module in modules("gateway")
        for found in imports(module)
        if within(found.imported, "mcp.server")
    }
    assert importers <= {"engramq.gateway.mcp.server", "engramq.gateway.mcp.transport"}


def test_no_module_imports_itself_through_others() -> None:
    everything = modules()
    names = {module.name for module in everything}

    def target(imported: str) -> str | None:
        """The module that an import loads: the name itself, or the module that the name is taken from."""
        parent = imported.rpartition(".")[0]
        return imported if imported in names else parent if parent in names else None

    graph = {
        module.name: {
            loaded
            for found in imports(module)
            if (loaded := target(found.imported)) is not None and loaded != module.name and not found.in_function
        }
        for module in everything
    }
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_an_import_inside_a_function_states_its_reason() -> None:
    silent = [
        f"{found.importer}:{found.line}"
        for module in modules()
        for found in imports(module)
        if found.in_function and not re.search(r"PLC0415 - \w", found.text)
    ]
    assert silent == []
