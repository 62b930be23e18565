"""Pages, docstrings and descriptions of tools are plain English: subject, verb, object, at most 40 words a sentence."""

import ast
from pathlib import Path
from typing import Final

import pytest

from engramq.schemas.commands import TOOLS
from tests.architecture.source import PACKAGES, ROOT, modules
from tests.docs.prose import hard_sentences, is_hard, sentences

PAGES: Final = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench" / "LABBOOK.md"]
BESIDE: Final = ("bench", "tools")
# Hard sentences that are left. Write them anew and lower the number; never raise one.
CEILINGS: Final = {
    "docs/tools.md": 5,
    "bench/LABBOOK.md": 30,
}
DOCSTRINGS: Final = 6  # tables and lists of fields
DESCRIPTIONS: Final = 0


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_no_sentence_that_is_read_twice(page: Path) -> None:
    hard = hard_sentences(page.read_text(encoding="utf-8"))
    assert len(hard) <= CEILINGS.get(name_of(page), 0), hard


@pytest.mark.parametrize(("folders", "ceiling"), [(PACKAGES, DOCSTRINGS), (BESIDE, 15)], ids=["product", "beside"])
def test_docstrings_have_no_more_hard_sentences_than_before(folders: tuple[str, ...], ceiling: int) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for module in modules(*folders) for node in module.nodes)
    texts = (ast.get_docstring(node) for node in nodes if isinstance(node, documented))
    parts = (" ".join(part.split()) for text in texts if text for part in text.split("\n\n"))
    hard = [sentence for part in parts for sentence in sentences(part) if is_hard(sentence)]
    assert len(hard) <= ceiling, hard


def test_descriptions_of_tools_have_no_more_hard_sentences_than_before() -> None:
    hard = [sentence for tool in TOOLS.values() for sentence in sentences(tool.summary) if is_hard(sentence)]
    assert len(hard) <= DESCRIPTIONS, hard


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("Of a list the first item counts.", True),
        ("What was said before, an import brings in.", True),
        ("What does it cost?", False),
        ("The hook is told a fact.", True),
        ("`Of code` the test knows nothing.", False),
        (f"It has{' many' * 39} words.", True),
        ("```\nWhat is code, is code.\n```", False),
        ("| a cell | Who reads it, knows. |", True),
    ],
)
def test_a_hard_sentence_is_found(text: str, is_found: bool) -> None:
    assert bool(hard_sentences(text)) is is_found
