"""Pages that are made from the program say what the program says; links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import readme, recall, scale
from bench.all import read
from bench.page import SECTION, section, svg
from tests.agents.test_days import RESUME
from tests.architecture.source import ROOT
from tools import support

README = ROOT / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "bench" / "LABBOOK.md"]
PLACE = re.compile(r"`((?:schemas|gateway|workers|deploy|tests)/[\w/.]+)`")


# Commands that fetch a package by its name: until engramq is released there, the name is anybody's to take.
FETCHED = re.compile(
    r"\b(?:uvx|bunx|npx|pip3? install|pipx (?:install|run)|uv (?:tool (?:install|run)|pip install|add|run --with)"
    r"|(?:npm|pnpm|yarn|bun) (?:install|i|add|dlx|exec|create)|brew install|conda install|docker (?:run|pull))"
    r"(?:[ \t]+(?:-\S+|[\w.-]+==\S+))*[ \t]+[\"'`]?(?:@engramq/\w|engramq\b(?![/.]\w))"
)


def test_no_page_gives_a_command_that_would_run_a_strangers_package() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    shown = (".md", ".txt", ".html", ".json", ".toml", ".yaml", ".yml", ".mdc")
    pages = [path for path in tracked.split("\0") if path.endswith(shown) and not path.startswith(("tests/", "tools/"))]
    found = {
        f"{path}: {command[0]}"
        for path in pages
        if (ROOT / path).stat().st_size < 2**20
        for command in FETCHED.finditer((ROOT / path).read_text(encoding="utf-8"))
    }
    assert found == set()
    for command in (
        "uvx engramq stdio",
        "pip install -U 'engramq[langgraph]'",
        "npx -y @engramq/client",
        "npm i engramq",
    ):
        assert FETCHED.search(command), command


def test_every_finding_stands_in_the_table_of_what_was_measured() -> None:
    page = (ROOT / "docs" / "clients-measured.md").read_text(encoding="utf-8")
    assert [path.name for path in (ROOT / "findings").iterdir() if f"(../findings/{path.name})" not in page] == []


def test_links_between_pages_lead_to_files_that_exist() -> None:
    dead = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert dead == []


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return {
        re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in re.findall(r"(?m)^#+ (.+)$", text)
    }


def test_links_to_headings_lead_to_some() -> None:
    dead = [
        f"{page.name}: {link}#{heading}"
        for page in PAGES
        for link, heading in re.findall(r"\]\(((?:[\w./-]+\.md)?)#([^)]+)\)", page.read_text(encoding="utf-8"))
        if heading not in headings(page.parent / link if link else page)
    ]
    assert dead == []


def test_the_benchmarks_section_and_picture_are_made_of_the_lines_beside_them() -> None:
    lines = read([ROOT / "docs" / "benchmarks.jsonl"])
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert (page.count(SECTION.begin), page.count(SECTION.end)) == (1, 1)
    assert SECTION.within(page) == section(lines, "benchmarks.svg")
    assert (ROOT / "docs" / "benchmarks.svg").read_text(encoding="utf-8") == svg(lines)


def test_the_tables_of_what_is_found_are_made_of_the_lines_beside_them() -> None:
    page = (ROOT / "docs" / "recall.md").read_text(encoding="utf-8")
    assert recall.SECTION.within(page) == recall.section(recall.read([ROOT / "docs" / "recall.jsonl"]))


@pytest.mark.promise("RC-19")
def test_the_tables_of_the_readme_are_what_their_commands_make() -> None:
    text = README.read_text(encoding="utf-8")
    assert readme.SECTION.within(text) == readme.section(), "run: python -m bench.readme --write"
    assert support.table() in text, "run: make generate"


@pytest.mark.promise("RC-19")
def test_the_clients_that_are_called_tested_are_those_that_a_day_is_played_with() -> None:
    assert set(support.tested_versions()) == set(RESUME)


@pytest.mark.promise("RC-13")
def test_the_readme_is_short_and_its_figures_are_those_of_the_tables() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    sums, found = readme.faults(), readme.recall_at()
    claim = f"of {sums.writes:,} acknowledged writes under {sums.kinds} kinds of fault none was lost"
    assert sums.lost == 0
    said = f"{sums.writes:,} acknowledged writes under {sums.kinds} kinds of fault; 0 lost"
    assert said in (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    assert claim in " ".join(text.split())
    assert f"{found.kept_apart:.2f}".removeprefix("0") in text.partition("![")[0]


@pytest.mark.promise("RC-13")
def test_the_readme_begins_with_what_works_in_a_checkout_and_says_what_needs_a_release(tmp_path: Path) -> None:
    text = README.read_text(encoding="utf-8")
    first = text.partition("```\n")[2].partition("```")[0].splitlines()
    assert [line.split()[0] for line in first] == ["make", ".venv/bin/engramq", ".venv/bin/engramq"]
    dry = subprocess.run(["make", "--dry-run", "setup"], cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert dry.returncode == 0
    for line in first[1:]:
        command = line.replace(".venv/bin/engramq", str(Path(sys.executable).with_name("engramq")))
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / ".claude.json").exists()
    is_released = "## Unreleased (0.1.0)" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert ("engramq is on no package index yet" in text) != is_released


def glossary() -> list[tuple[str, str]]:
    """Return (word, what the code calls it) of each row of the glossary."""
    rows = [line.split(" | ") for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()]
    return [
        (row[0].removeprefix("| "), row[2].removesuffix(" |")) for row in rows if len(row) == 3 and row[0] != "| word"
    ]


def test_the_glossary_names_files_that_exist_and_names_that_stand_in_them() -> None:
    wrong = []
    for word, code in glossary():
        places = [ROOT / place for place in PLACE.findall(code)]
        wrong += [f"{word}: {place}" for place in places if not place.exists()]
        name = re.match(r"`(?:\w+\.)?(\w+)`, `(\w+/[\w/]+\.py)`", code)
        if name and (ROOT / name[2]).exists() and not re.search(rf"\b{name[1]}\b", (ROOT / name[2]).read_text("utf-8")):
            wrong.append(f"{word}: {name[1]} in {name[2]}")
    assert wrong == []


def test_the_glossary_has_each_word_once() -> None:
    words = [word for word, _ in glossary()]
    assert len(words) > 70
    assert [word for word in words if words.count(word) > 1] == []


def test_the_readme_names_the_three_commands_that_the_makefile_has() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {"run", "test", "setup"} <= set(targets)
    assert re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M) == [
        "setup",
        "run",
        "test",
    ]


@pytest.mark.promise("SC-12")
def test_the_worked_example_of_scaling_follows_from_the_measured_figures() -> None:
    page = scale.SECTION.within((ROOT / "docs" / "scaling.md").read_text(encoding="utf-8"))
    figures = scale.read_figures(page)
    assert set(figures) == set(scale.FIGURES)
    assert all(figure > 0 for figure in figures.values()), figures
    assert scale.example_table(figures) in page, "run: python -m bench.scale --write"


MODULE = re.compile(r"\b[a-z_0-9]+(?:/[a-z_0-9]+)*\.(?:py|sql|lua)\b")
FOLDERS = (
    "schemas",
    "gateway",
    "workers",
    "deploy",
    "telemetry",
    "evidence",
    "client",
    "integrations",
    "bench",
    "tools",
    "tests",
)
PLACES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if MODULE.fullmatch(path.name)]


def is_there(module: str) -> bool:
    return any(f"/{path.relative_to(ROOT)}".endswith(f"/{module}") for path in PLACES)


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.stem)
def test_a_page_names_modules_that_exist(page: Path) -> None:
    named = {name for name in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")) if MODULE.fullmatch(name)}
    assert [name for name in named if "/" in name and not is_there(name)] == []


def test_the_page_of_the_architecture_names_modules_and_functions_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [module for module in set(MODULE.findall(page)) if not is_there(module)] == []
    sources = (path.read_text(encoding="utf-8") for path in PLACES if ROOT / "tests" not in path.parents)
    words = {word for source in sources for word in re.findall(r"\w+", source)}
    functions = set(re.findall(r"\.py (?:[A-Z]\w+\.)?([a-z_]+)\b", page)) | set(re.findall(r"`(\w+_\w+)`", page))
    assert functions - words == set()
