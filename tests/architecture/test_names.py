"""A name means one thing: no two modules of the product define a class or a type under one name."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.architecture.source import PACKAGES, Module, modules, parsed

# Names that several modules may define, and why.
SHARED: Final = {
    "Memory": "the contract's record, and the client, which is named for what it gives",
    "Connection": "psycopg's connection with rows as dicts, written out where `transaction` is not imported",
    "Column": "numpy's type for one number a row: pure modules of a search write it out",
    "Mask": "numpy's type for one truth a row, likewise",
    "Matrix": "numpy's type for a table of numbers, likewise",
    "Rows": "numpy's type for places of rows, likewise",
}


def _definitions_in(module: Module) -> Iterator[str]:
    """Yield the names of classes and type aliases; an underscore before a name makes it no other name."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            yield node.name.lstrip("_")
    for node in module.tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for name in (target.id.lstrip("_") for target in targets if isinstance(target, ast.Name)):
            if name[:1].isupper() and not name.isupper():
                yield name


def shared_names(*read: Module) -> dict[str, list[str]]:
    """Return the names that more than one of these modules define, with the modules."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in read:
        for name in _definitions_in(module):
            found[name].add(module.name)
    return {name: sorted(where) for name, where in sorted(found.items()) if len(where) > 1}


def test_a_class_has_its_name_alone() -> None:
    shared = shared_names(*modules(*PACKAGES, "integrations"))
    assert {name: where for name, where in shared.items() if name not in SHARED} == {}, "say by the name what it is"
    assert sorted(SHARED) == sorted(shared), "an exception that nothing needs any more goes"


def test_two_types_of_one_name_are_found() -> None:
    one = parsed("one", "class Part: ...\nclass _Row: ...\nLINES = 3\nKind: TypeAlias = str\n")
    other = parsed("other", "Part = tuple[int, int]\nclass Row: ...\nLINES = 4\nclass Kinds: ...\n")
    assert shared_names(one, other) == {"Part": ["one", "other"], "Row": ["one", "other"]}
