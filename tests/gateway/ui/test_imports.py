"""Files that are imported on the page: what becomes of their rows, and who may do it."""

import json
import tempfile
from pathlib import Path

import pytest

from engramq.schemas.limits import BODY_BYTES
from tests.gateway.ui.browsing import Browser, Shown
from tests.gateway.ui.conftest import Served
from tests.scenarios.stage import Agent

pytestmark = pytest.mark.promise("OP-12")

IMPORTS = "/ui/imports"
ROWS = b"""{"content": "Ada drinks tea", "external_id": "tea"}
{"content": "Grace drinks coffee"}
{"content": "", "external_id": "nothing"}
{"content": "Alan runs", "colour": "blue"}
"""


def tiles(shown: Shown) -> dict[str, str]:
    """Return the last counts that the page shows."""
    words = shown.text.rpartition("Read ")[2].split()
    return dict(zip(("read", "stored", "updated", "skipped", "rejected"), words[:9:2], strict=True))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def test_rows_are_imported_with_their_counts_and_first_rejections(agent: Agent, browser: Browser) -> None:
    page = await browser.get(IMPORTS)
    done = await browser.upload(page, IMPORTS, "notes.jsonl", ROWS, project="kitchen")
    assert (done.status, "notes.jsonl" in done.text, "The import has ended." in done.text) == (200, True, True)
    assert tiles(done) == {"read": "4", "stored": "2", "updated": "0", "skipped": "0", "rejected": "2"}
    for line, field in (("3", "content"), ("4", "colour")):
        assert f"{line} {field}" in done.text
    listed = await agent.call("list_recent_memories", project="kitchen")
    assert {memory["content"] for memory in listed["memories"]} == {"Ada drinks tea", "Grace drinks coffee"}
    again = await browser.upload(page, IMPORTS, "notes.jsonl", ROWS, project="kitchen")
    assert tiles(again) == {"read": "4", "stored": "0", "updated": "0", "skipped": "2", "rejected": "2"}


async def test_what_another_program_exports_is_known_and_what_it_lacks_is_counted(browser: Browser) -> None:
    page = await browser.get(IMPORTS)
    graph = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["drinks tea"]},
        {"type": "entity", "name": "Oslo", "entityType": "city", "observations": []},
        {"type": "relation", "from": "Ada", "to": "Oslo", "relationType": "lives_in"},
    ]
    content = "\n".join(map(json.dumps, graph)).encode()
    done = await browser.upload(page, IMPORTS, "memory.json", content)
    for word in ("The import has ended.", "nodes 2 (new: 2)", "edges 1 (new: 1)"):
        assert word in done.text, done.text
    assert tiles(done)["stored"] == "1"
    chosen = await browser.upload(page, IMPORTS, "words.txt", b"content\nAlan runs\n", format="csv")
    assert tiles(chosen)["stored"] == "1"


async def test_a_german_reader_sees_why_rows_were_rejected_and_what_was_left_out(browser: Browser) -> None:
    browser.client.headers["accept-language"] = "de"
    page = await browser.get(IMPORTS)
    done = await browser.upload(page, IMPORTS, "notes.jsonl", ROWS)
    for said in ("Zeichen, nicht ein leerer Text.", "store_memory hat keinen Parameter 'colour'."):
        assert said in done.text, done.text
    graph = b'{"type": "entity", "name": "Ada", "entityType": "person", "observations": ["drinks tea", " "]}'
    blank = await browser.upload(page, IMPORTS, "memory.json", graph)
    assert "1 leere Beobachtung" in blank.text, blank.text
    whole = await browser.upload(page, IMPORTS, "list.json", b'[{"a": 1}]')
    assert "Die Datei ist eine JSON-Liste, und ihr Format ist nicht sicher. Das Feld Format sagt" in whole.text, (
        whole.text
    )


async def test_a_file_that_cannot_be_imported_says_why(browser: Browser) -> None:
    page = await browser.get(IMPORTS)
    own = b'{"type": "engramq.export", "version": 1}\n'
    for name, content, said in (
        ("own.jsonl", own, "Only the command brings it back"),
        ("list.json", b'[{"a": 1}]', "its format is not certain"),
        ("empty.jsonl", b"", "There is nothing to import"),
        ("bad.csv", b"colour,shape\nred,round\n", "content"),
    ):
        refused = await browser.upload(page, IMPORTS, name, content)
        assert (name, said in refused.text) == (name, True), refused.text
        assert "The import has ended." not in refused.text
    strange = await browser.upload(page, IMPORTS, "../../etc/<b>x</b>.jsonl", ROWS)
    assert ("<b>x</b>" in strange.response.text, tiles(strange)["stored"]) == (False, "2")


async def test_only_administrators_import_by_a_form_that_they_were_shown(here: Served) -> None:
    admin, reader = await here.browser("ada"), await here.browser("reader")
    page = await admin.get(IMPORTS)
    assert not (await reader.get(IMPORTS)).has_form(IMPORTS)
    stolen = await reader.upload(page, IMPORTS, "notes.jsonl", ROWS)
    assert stolen.status in (400, 403)
    forged = await admin.upload(page, IMPORTS, "notes.jsonl", ROWS, form_token="x")
    assert (forged.status, "not from a page" in forged.text) == (403, True)
    for values, status in (({"format": "xml"}, 400), ({"project": "p" * 256}, 400)):
        assert (await admin.upload(page, IMPORTS, "notes.jsonl", ROWS, **values)).status == status
    large = await admin.upload(page, IMPORTS, "notes.jsonl", b"x" * BODY_BYTES)
    assert large.status == 413


async def test_nothing_of_a_file_is_left_on_the_disk(
    here: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    browser = await here.browser("ada")
    for content in (ROWS, b'[{"a": 1}]'):
        await browser.upload(await browser.get(IMPORTS), IMPORTS, "notes.json", content)
        assert names_in(tmp_path) == []
