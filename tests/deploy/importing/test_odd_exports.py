"""Exports in which one value is another than their makers write: it is told or left out, and ends no reader."""

import gzip
import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.formats import FORMATS, format_of
from engramq.deploy.importing.records import UncheckedRow
from engramq.deploy.importing.rows import check_rows
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import ForeignFormat
from tests.deploy.importing import exports

pytestmark = pytest.mark.promise("RC-11")

ODD: Final[tuple[Any, ...]] = (None, True, 7, -1e308, "", "\x00 odd", [], [[]], [{}], {}, {"odd": [None]})


def lines(several: Any) -> bytes:
    return "".join(json.dumps(item) + "\n" for item in several).encode()


def plain(name: str) -> Callable[[Path, Any], Path]:
    def write(folder: Path, document: Any) -> Path:
        file = folder / name
        file.write_bytes(lines(document) if name.endswith("l") else json.dumps(document).encode())
        return file

    return write


def archive(**form: Callable[[Any], bytes]) -> Callable[[Path, Any], Path]:
    def write(folder: Path, document: Any) -> Path:
        file = folder / "export.zip"
        with zipfile.ZipFile(file, "w") as packed:
            for name, encoded in form.items():
                packed.writestr(name, encoded(document[name] if len(form) > 1 else document))
        return file

    return write


def encoded(document: Any) -> bytes:
    return json.dumps(document).encode()


def packed_lines(several: Any) -> bytes:
    return gzip.compress(lines(several))


WRITTEN: Final[dict[ForeignFormat, tuple[Any, Callable[[Path, Any], Path]]]] = {
    ForeignFormat.MCP_MEMORY: (exports.MCP_MEMORY, plain("memory.jsonl")),
    ForeignFormat.MEM0: (exports.MEM0, plain("mem0.json")),
    ForeignFormat.OPENMEMORY: (
        {"memories.json": exports.OPENMEMORY_DOCUMENT, "memories.jsonl.gz": exports.OPENMEMORY_LINES},
        archive(**{"memories.json": encoded, "memories.jsonl.gz": packed_lines}),
    ),
    ForeignFormat.CLAUDE: (exports.CLAUDE, archive(**{"conversations.json": encoded})),
    ForeignFormat.CHATGPT: (exports.CHATGPT, plain("conversations.json")),
    ForeignFormat.LETTA: (exports.LETTA, plain("tea.af")),
    ForeignFormat.MCP_MEMORY_SERVICE: (exports.SERVICE, plain("backup.json")),
}
FILES: Final = (ForeignFormat.OPENMEMORY,)  # whose first keys are the names of files


def places(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in inner:
        yield (*above, key)
        yield from places(value, (*above, key))


@contextmanager
def odd_at(document: Any, place: tuple[Any, ...], odd: Any) -> Iterator[None]:
    """Put an odd value into the document, for as long as the block lasts."""
    node = document
    for key in place[:-1]:
        node = node[key]
    usual, node[place[-1]] = node[place[-1]], odd
    yield
    node[place[-1]] = usual


def read(path: Path, kind: ForeignFormat, known: set[str]) -> list[Any]:
    """Return the checked rows that are not known yet, or what is told of the file as a whole."""
    try:
        format_of(path)
        rows = FORMATS[kind].read(path, Choices(all_messages=True))
        given = {repr(item): item for item in rows if isinstance(item, UncheckedRow)}
    except UnusableFile as told:
        return [str(told)]
    new = [given[text] for text in given.keys() - known]
    known.update(given)
    return list(check_rows(new, "odd", one_namespace=True, split=True))


@pytest.mark.parametrize("kind", WRITTEN)
def test_no_odd_value_ends_a_reader(kind: ForeignFormat, tmp_path: Path) -> None:
    document, write = WRITTEN[kind]
    known: set[str] = set()
    tried = 0
    for place in list(places(document)):
        for odd in ODD if len(place) > (kind in FILES) else ():
            with odd_at(document, place, odd):
                path = write(tmp_path, document)
            assert all(read(path, kind, known)), (place, odd)
            tried += 1
    assert tried > len(ODD) * 5
