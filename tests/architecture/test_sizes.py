"""Modules and functions that a reader can hold in mind; errors caught where they belong; domain words written once."""

import ast

from engramq.schemas import vocabulary
from tests.architecture.source import BESIDE, PACKAGES, functions, modules

MODULE_LINES = 500
FUNCTION_LINES = 80
POSITIONAL_PARAMETERS = 6


def test_modules_are_short() -> None:
    everything = modules(*PACKAGES, *BESIDE)
    assert [f"{module.name}: {module.lines}" for module in everything if module.lines > MODULE_LINES] == []


def test_functions_are_short() -> None:
    too_long = [
        f"{module.name}:{line} {name}: {length} lines"
        for module in modules(*PACKAGES, *BESIDE)
        if module.longest_block > FUNCTION_LINES  # else none can be too long
        for name, line, length in functions(module)
        if length > FUNCTION_LINES
    ]
    assert too_long == []


def test_functions_take_few_positional_parameters() -> None:
    too_many = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in modules(*PACKAGES, "bench", "tools")  # tests ask for fixtures by parameters
        for node in module.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(
            [argument for argument in node.args.posonlyargs + node.args.args if argument.arg not in {"self", "cls"}]
        )
        > POSITIONAL_PARAMETERS
    ]
    assert too_many == []


# Where an unforeseen error must be recorded and must not end the process.
KEEPS_OTHERS_ALIVE = (
    "engramq.gateway.service",
    "engramq.gateway.stdio_sessions",
    "engramq.telemetry.listener",
    "engramq.telemetry.otlp",
    "engramq.workers.db.database",
    "engramq.workers.queue",
)


def test_broad_except_stands_only_where_it_keeps_others_alive() -> None:
    def is_broad(handler: ast.ExceptHandler) -> bool:
        caught = handler.type
        names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
        last = handler.body[-1]
        if isinstance(last, ast.Raise) and last.exc is None:
            return False  # it tidies up and passes the error on
        return any(name is None or getattr(name, "id", "") in {"Exception", "BaseException"} for name in names)

    found = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        if not module.name.startswith(KEEPS_OTHERS_ALIVE)
        for node in module.nodes
        if isinstance(node, ast.ExceptHandler) and is_broad(node)
    ]
    assert found == []


# Written from the vocabulary, by way of the OpenAPI document: a test compares them.
GENERATED = frozenset(f"engramq.client.{name}" for name in ("calls", "methods"))


def test_sectors_partitions_and_verifications_are_written_once() -> None:
    words = {
        str(word)
        for enum in (vocabulary.Sector, vocabulary.Partition, vocabulary.Verification)
        for word in enum
        if word not in {"semantic", "verified"}  # words of prose too
    }
    found = [
        f"{module.name}:{node.lineno} {node.value!r}"
        for module in modules()
        # Hooks may not import that: a test compares their words.
        if module.name not in {"engramq.schemas.vocabulary", "engramq.deploy.local.hooks.turns", *GENERATED}
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words
    ]
    assert found == []
