"""Who may import which library, and how imports are written.

Which of our packages may import which other is said by the contracts in pyproject.toml, which test_layers runs.
"""

import graphlib
import re
from collections.abc import Callable

import pytest

from tests.architecture.source import BESIDE, PACKAGES, Import, imports, modules, within

# Libraries with one importer each: (library, where it may be imported, why).
OWNERS = [
    ("psycopg", ("engramq.workers.db", "tools"), "only one package talks to PostgreSQL"),
    ("psycopg_pool", ("engramq.workers.db", "tools"), "only one package talks to PostgreSQL"),
    ("pgvector", ("engramq.workers.db", "tools"), "only one package talks to PostgreSQL"),
    ("arq", ("engramq.workers.queue",), "only one package overrides arq"),
    ("mcp", ("engramq.gateway.mcp",), "only one package touches the MCP SDK"),
    ("mcp.server", ("engramq.gateway.mcp.server",), "one module serves the SDK"),
    ("mcp_types", ("engramq.gateway.mcp",), "only one package touches the MCP SDK"),
    ("jwt", ("engramq.gateway.identity",), "only one package says who a caller is"),
    (
        "cryptography",
        (
            "engramq.gateway.identity",
            "engramq.gateway.ui.sign_in",
            "engramq.workers.receipts",
            "engramq.deploy.cli.receipt",
        ),
        "one package says who a caller is; receipts are signed and checked by one module each",
    ),
    ("onnxruntime", ("engramq.workers.embedders", "tools"), "only the embedders load models"),
    ("tokenizers", ("engramq.workers.embedders", "tools"), "only the embedders load models"),
]


def offenders(package: str, is_bad: Callable[[Import], bool]) -> list[str]:
    return [
        f"{found.importer}:{found.line} imports {found.imported}"
        for module in modules(package)
        for found in imports(module)
        if is_bad(found)
    ]


@pytest.mark.parametrize(("library", "owners", "why"), OWNERS)
def test_a_library_with_one_owner_is_imported_there_alone(library: str, owners: tuple[str, ...], why: str) -> None:
    found = [
        line
        for package in (*PACKAGES, "tools")
        for line in offenders(
            package, lambda found: within(found.imported, library) and not within(found.importer, *owners)
        )
    ]
    assert found == [], why


def test_the_wheel_holds_no_import_of_what_it_leaves_out() -> None:
    assert [
        line for package in PACKAGES for line in offenders(package, lambda found: within(found.imported, *BESIDE))
    ] == []


def test_a_name_that_begins_with_an_underscore_is_used_in_its_module_alone() -> None:
    taken = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for module in modules(*PACKAGES, "tools", "bench")
        for found in imports(module)
        if any(part.startswith("_") and not part.startswith("__") for part in found.imported.split("."))
    ]
    assert taken == []


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
