"""The contracts of pyproject.toml hold, guard every package, and break when an edge is planted they do not name."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.architecture.source import PACKAGES, ROOT

LINT_IMPORTS = str(Path(sys.executable).parent / "lint-imports")
RUFF = str(Path(sys.executable).parent / "ruff")

LANGGRAPH = "langgraph"  # integrations/langgraph: a folder of that name at the root would hide the library
# (package that gets a module, what that module imports, the contract that must break)
PLANTED = [
    ("workers.db", "engramq.workers.queue.pipeline", "workers.queue"),
    ("workers.queue", "engramq.workers.db", "workers.db"),
    ("workers.graph", "engramq.workers.memories", "workers.memories"),
    ("workers.links", "engramq.workers.search", "workers.search"),
    ("workers.sectors", "engramq.workers.links", "workers.links"),
    ("workers.links", "engramq.workers.graph", "workers.graph"),
    ("workers.db", "engramq.workers.sectors", "workers.sectors"),
    ("workers.auth", "engramq.workers.embedders", "workers.embedders"),
    ("workers.memories", "engramq.workers.auth", "workers.auth"),
    ("workers.memories", "engramq.workers.upkeep", "workers.upkeep"),
    ("workers.links", "engramq.workers.app", "workers.app"),
    ("workers.memories", "engramq.workers.webhooks.sending", "workers.webhooks"),
    ("workers.search", "engramq.workers.admin", "workers.admin"),
    ("gateway.identity", "engramq.gateway.queue", "gateway.queue"),
    ("gateway.queue", "engramq.gateway.identity", "gateway.identity"),
    ("gateway.queue", "engramq.gateway.mcp", "gateway.mcp"),
    ("gateway.mcp", "engramq.gateway.rest.app", "gateway.rest"),
    ("gateway", "engramq.workers.db", "halves"),
    ("workers", "engramq.gateway.queue", "halves"),
    ("deploy", "engramq.schemas.commands", "schemas"),
    ("deploy", "engramq.schemas.keys", "schemas"),
    ("deploy", "engramq.gateway.run", "gateway"),
    ("deploy", "engramq.workers.app", "workers"),
    ("schemas", "engramq.gateway.queue", "schemas-below"),
    ("schemas", "engramq.telemetry.spans", "schemas-below"),
    ("telemetry", "engramq.workers.queue.contract", "telemetry-below"),
    ("deploy", "engramq.telemetry.spans", "telemetry"),
    ("workers", "engramq.deploy", "deploy"),
    ("client", "engramq.gateway.run", "gateway"),
    ("client", "engramq.schemas.keys", "schemas"),
    (LANGGRAPH, "engramq.schemas.keys", "schemas"),
    (LANGGRAPH, "engramq.gateway.run", "gateway"),
    ("client", "engramq.langgraph.store", "langgraph"),
    ("gateway", "engramq.client.memory", "client"),
]


def contracts() -> dict[str, str]:
    """Return the id of each contract and the name under which it is reported."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {one["id"]: one["name"] for one in settings["tool"]["importlinter"]["contracts"]}


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    command = [LINT_IMPORTS, "--no-cache", "--no-logo"]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is reported of a copy of the source in which every edge of PLANTED stands."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    (tree / "engramq").mkdir()
    for file in (ROOT / "engramq").glob("*.py"):
        shutil.copy(file, tree / "engramq")
    for package in (*PACKAGES, LANGGRAPH):
        for module in (ROOT / "engramq" / package).rglob("*.py"):
            copy = tree / module.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(module, copy)
    for package, imported, _ in PLANTED:
        planted = tree / "engramq" / package.replace(".", "/") / "planted.py"
        with planted.open("a", encoding="utf-8") as source:
            source.write(f"import {imported}\n")
    ended = lint(tree)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return ended.stdout


def test_the_contracts_hold() -> None:
    ended = lint(ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"Contracts: {len(contracts())} kept, 0 broken." in ended.stdout


def test_every_package_has_a_contract() -> None:
    packages = {path.parent.name for package in PACKAGES for path in ROOT.glob(f"{package}/__init__.py")} | {
        f"{half}.{path.parent.name}" for half in ("gateway", "workers") for path in ROOT.glob(f"{half}/*/__init__.py")
    }
    assert packages - set(contracts()) == set()


@pytest.mark.parametrize(("package", "imported", "contract"), PLANTED)
def test_a_planted_edge_breaks_its_contract(report: str, package: str, imported: str, contract: str) -> None:
    sections = re.split(r"\n-{3,}\n", report[report.index("Broken contracts") :])
    name = contracts()[contract]
    at = next(number for number, section in enumerate(sections) if section.endswith(name))
    assert re.search(rf"engramq\.{re.escape(package)}\.planted -> {re.escape(imported)}\s", sections[at + 1])


@pytest.mark.parametrize("package", PACKAGES)
def test_a_bare_import_is_refused_by_the_linter(package: str) -> None:
    check = [RUFF, "check", "--no-cache", "--select", "TID251", "--output-format", "concise"]
    ended = subprocess.run(
        [*check, "--stdin-filename", "tests/planted.py", "-"],
        cwd=ROOT,
        input=f"from {package}.settings import Settings\nimport {package}\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout.count("TID251") == 2
