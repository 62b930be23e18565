"""What source may not say, where an import alone would not show it: each rule returns the breaches of one module."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from tests.architecture.source import Module, imports, within


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Rules and formulas that a reader can check on paper: no database, no queue, no clock, no chance.
PURE: Final = (
    "engramq.gateway.brief",
    "engramq.gateway.budget",
    "engramq.workers.embedders.calibration",
    "engramq.workers.graph.edge_rules",
    "engramq.workers.graph.traversal",
    "engramq.workers.links.rules",
    "engramq.workers.memories.disagreement",
    "engramq.workers.memories.disagreement_lists",
    "engramq.workers.memories.exact_forms",
    "engramq.workers.memories.stated_changes",
    "engramq.workers.one_form",
    "engramq.workers.search.boosts",
    "engramq.workers.search.neighbours",
    "engramq.workers.search.number_words",
    "engramq.workers.search.question",
    "engramq.workers.search.ranking",
    "engramq.workers.search.spans",
    "engramq.workers.search.spellings",
    "engramq.workers.search.seasons",
    "engramq.workers.search.time_parts",
    "engramq.workers.search.time_rules",
    "engramq.workers.search.foreign_times",
    "engramq.workers.search.time_words",
    "engramq.workers.search.times",
    "engramq.workers.search.times_of_day",
    "engramq.workers.search.writings",
    "engramq.workers.sectors.decay",
    "engramq.workers.trust",
)
# All that these may import, besides each other.
PURE_LIBRARIES: Final = _words(
    "calendar collections dataclasses datetime enum functools heapq itertools math msgspec numpy re typing uuid"
)
PURE_SCHEMAS: Final = (
    "engramq.schemas.codec",
    "engramq.schemas.commands",
    "engramq.schemas.common_words",
    "engramq.schemas.contents",
    "engramq.schemas.digests",
    "engramq.schemas.envelope",
    "engramq.schemas.faults",
    "engramq.schemas.ids.Pair",
    "engramq.schemas.ids.pair_of",
    "engramq.schemas.limits",
    "engramq.schemas.passages",
    "engramq.schemas.pastes",
    "engramq.schemas.patterns",
    "engramq.schemas.records",
    "engramq.schemas.sentences",
    "engramq.schemas.vocabulary",
)

CONNECTION: Final = "engramq.schemas.connection"  # all that speaks to a server
SCRIPTS: Final = "engramq.schemas.scripts"  # reads the .lua files beside it
HOME_SECRETS: Final = "engramq.schemas.home_secrets"  # for the secrets that both halves keep in a home
# What single modules of the contract may import besides: `packed_lines` unpacks what others have opened.
BESIDES: Final = {
    CONNECTION: frozenset({"asyncio", "redis", "hiredis"}),
    HOME_SECRETS: frozenset({"contextlib", "os", "secrets", "stat"}),
    "engramq.schemas.fields": frozenset({"unicodedata"}),  # tables in memory: one normal form of letters
    "engramq.schemas.keys": frozenset({"binascii"}),  # CRC16 for the slots of a cluster
    "engramq.schemas.redis_problems": frozenset({"ssl"}),  # reads its errors
    "engramq.schemas.packed_lines": _words("bz2 codecs gzip io lzma zlib"),
    "engramq.schemas.setting_values": frozenset({"zoneinfo"}),  # knows the names of zones
}
SCHEMAS_LIBRARIES: Final = _words(
    "array bisect collections dataclasses datetime difflib enum functools hashlib ipaddress itertools json logging "
    "math msgspec os pathlib re secrets sys threading time traceback types typing urllib uuid"
)
# What is used of modules that could do more: `ids` asks for random bytes.
SCHEMAS_SYSTEM_CALLS: Final = frozenset({"os.urandom"})

_CHANGING_CALLS: Final = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "uuid7", "default_rng"})
_BUILT_IN_CALLS: Final = frozenset({"open", "input", "print", "exec", "eval", "compile", "__import__", "breakpoint"})
_PATH_CALLS: Final = _words(
    "read_text read_bytes write_text write_bytes open touch unlink mkdir rmdir rename chmod symlink_to iterdir"
    " glob rglob walk stat lstat exists is_file is_dir resolve readlink"
)

_NAME: Final = r"[\w.\"{}]+"
_STATEMENT: Final = re.compile(
    rf"""\s*(?:
        select\s+(?:.+\sfrom\s|{_NAME}\s*\(|\d)
        | insert\s+into\s | update\s+(?:only\s+)?{_NAME}\s+set\s | delete\s+from\s | merge\s+into\s
        | with\s+(?:recursive\s+)?{_NAME}\s+(?:\([^)]*\)\s*)?as\s+(?:(?:not\s+)?materialized\s+)?\(
        | (?:create|alter|drop)\s+(?:or\s+replace\s+|unique\s+|unlogged\s+)*
          (?:table|index|view|schema|role|function|extension|policy|type|sequence|database|trigger)\s
        | truncate\s+(?:table\s+)?{_NAME}\s*$ | copy\s+{_NAME}\s*(?:\(|from|to) | (?:grant|revoke)\s.+\s(?:on|to|from)\s
    )""",
    re.I | re.S | re.X,
)


def _at(module: Module, node: ast.expr | ast.stmt, what: str) -> str:
    return f"{module.name}:{node.lineno} {what}"


def _documentation(module: Module) -> set[int]:
    """Return the ids of the constants that are docstrings."""
    return {
        id(node.body[0].value)
        for node in module.nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }


def _names(module: Module) -> Iterator[tuple[ast.Name | ast.Attribute, str]]:
    """Yield each name that is read, called or not, with its dots; of `a().b` that is `.b`."""
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute):
            parts: list[str] = []
            read: ast.expr = node
            while isinstance(read, ast.Attribute):
                parts.append(read.attr)
                read = read.value
            parts.append(read.id if isinstance(read, ast.Name) else "")
            yield node, ".".join(reversed(parts))


def _uses(module: Module, is_bad: Callable[[str], bool]) -> list[str]:
    return [_at(module, node, f"uses {name}") for node, name in _names(module) if is_bad(name)]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def sql(module: Module) -> list[str]:
    """SQL stands in .sql files: no text and no bytes that begin like a statement."""
    documentation = _documentation(module)
    found = []
    for node in module.nodes:
        if not isinstance(node, ast.Constant) or id(node) in documentation:
            continue
        text = node.value.decode("utf-8", "replace") if isinstance(node.value, bytes) else node.value
        if isinstance(text, str) and _STATEMENT.match(text):
            found.append(_at(module, node, f"SQL: {text.strip()[:40]!r}"))
    return found


def impure(module: Module) -> list[str]:
    """A pure module imports what computes, and asks neither clock nor chance nor files."""
    foreign = [
        f"{found.importer}:{found.line} imports {found.imported}"
        for found in imports(module)
        if found.imported.partition(".")[0] not in PURE_LIBRARIES and not within(found.imported, *PURE, *PURE_SCHEMAS)
    ]
    return foreign + _uses(
        module, lambda name: name in _BUILT_IN_CALLS or ("." in name and _last(name) in _CHANGING_CALLS)
    )


def input_output(module: Module) -> list[str]:
    """The contract computes: it starts no process, and of its modules three have a connection or files."""
    is_let = module.name in {CONNECTION, SCRIPTS, HOME_SECRETS}
    allowed = SCHEMAS_LIBRARIES | BESIDES.get(module.name, frozenset())
    found = []
    for wanted in imports(module):
        root, _, rest = wanted.imported.partition(".")
        hidden = root in {"os", "sys"} and rest != ""  # `from os import system` would hide where it is used
        if root != "engramq" and (root not in allowed or hidden or within(wanted.imported, "urllib.request")):
            found.append(f"{wanted.importer}:{wanted.line} imports {wanted.imported}")

    def does(name: str) -> bool:
        system = name.startswith(("os.", "sys.")) and name not in SCHEMAS_SYSTEM_CALLS
        return name in _BUILT_IN_CALLS or system or ("." in name and _last(name) in _PATH_CALLS)

    return found if is_let else found + _uses(module, does)
