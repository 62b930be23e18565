"""Notes that are made to be slow to read: each takes no longer than its length says."""

import time
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import FORMATS
from engramq.deploy.importing.records import UncheckedRow
from engramq.schemas.vocabulary import ForeignFormat

pytestmark = pytest.mark.promise("SN-3")


def read(folder: Path, kind: ForeignFormat) -> list[dict[str, Any]]:
    return [each.values for each in FORMATS[kind].read(folder, Choices()) if isinstance(each, UncheckedRow)]


@pytest.mark.parametrize("kind", [ForeignFormat.OBSIDIAN, ForeignFormat.BASIC_MEMORY, ForeignFormat.CLAUDE_CODE_MEMORY])
@pytest.mark.parametrize(
    "text",
    [
        " " * 200_000 + "x",
        "(a" * 100_000,
        "[[" * 100_000,
        "<!--\n" * 50_000,
        "](" * 100_000,
        "[[a]] " * 8_000,
        "\n- " + " " * 4_000 + "[[x",
        "\n- [a] b" + " " * 80_000 + "c",
        "\n- [a] b" + " #c" * 30_000 + " d",
    ],
)
def test_a_note_that_goes_on_and_on_takes_no_longer_than_its_text(
    tmp_path: Path, text: str, kind: ForeignFormat
) -> None:
    (tmp_path / "MEMORY.md").write_text(f"Tea {text}")
    begun = time.process_time()
    assert read(tmp_path, kind)
    assert time.process_time() - begun < 3, "twice as much would take four times as long"


def test_properties_with_many_open_brackets_take_no_longer_than_their_text(tmp_path: Path) -> None:
    (tmp_path / "Kettle.md").write_text(f"---\nup: {'[' * 8_000}\nkind: [a, [b]]\n---\nThe kettle is blue.")
    begun = time.process_time()
    (row,) = read(tmp_path, ForeignFormat.OBSIDIAN)
    assert row["content"] == "Kettle\n\nThe kettle is blue."
    assert row["metadata"]["kind"] == ["a", ["b"]]
    assert time.process_time() - begun < 2, "twice as many would take eight times as long"
