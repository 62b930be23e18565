"""Pages that are made from the program say what the program says; links lead somewhere."""

import re
from pathlib import Path

from engramq.schemas.settings_reference import settings_page

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_settings_page_is_the_table_that_the_program_reads() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page()


def test_links_between_pages_lead_to_files_that_exist() -> None:
    dead = [
        f"{page.name}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert dead == []


def test_the_readme_names_the_two_commands_that_the_makefile_has() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {"run", "test", "setup"} <= set(targets)
    assert re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8"), re.M) == ["run", "test"]
