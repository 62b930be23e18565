"""A folder of Markdown, exported, edited and imported again: what is as it was is known, what is not corrects."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import DEFAULT_NAMESPACE
from tests.conftest import Database
from tests.scenarios.stage import Agent
from tests.scenarios.test_export_command import settings
from tests.terminal import run_command

__all__ = ["settings"]

pytestmark = [pytest.mark.timeout(300), pytest.mark.promise("SN-5")]

CURRENT = (
    "select content, partition, owner, project from memories where tenant = tenant_of(%s) and superseded_by is null "
    "and state <> 'archived' order by content"
)


def current(database: Database, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    return [row["content"] for row in database.rows(CURRENT, namespace)]


class Notes:
    """A folder that `engramq export` writes and `engramq import` reads."""

    def __init__(self, folder: Path, terminal: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._terminal = terminal

    async def export(self) -> None:
        assert await run_command("export", self.folder, "--format", "markdown") == ExitCode.DONE

    async def bring_in(self, *options: str) -> tuple[tuple[int, ...], str, int]:
        """Return how many notes were stored, skipped and rejected, what the import says besides, and its exit code."""
        self._terminal.readouterr()
        code = await run_command("import", self.folder, "--format", "markdown", *options)
        told = self._terminal.readouterr()
        stored, skipped, updated, rejected = map(int, re.findall(r"\d+", told.out.splitlines()[0]))
        assert not updated
        return (stored, skipped, rejected), told.err, code


@pytest.fixture
def notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Notes:
    return Notes(tmp_path / "notes", capsys)


def edit(note: Path, old: str, new: str) -> None:
    text = note.read_text()
    head, between, body = text.partition("\n---\n")
    assert old in body
    note.write_text(head + between + body.replace(old, new))


async def test_an_edited_note_corrects_its_memory_each_time_and_the_others_are_kept_already(
    agent: Agent, notes: Notes, database: Database
) -> None:
    tea = await agent.store("Ada likes mint tea", external_id="tea", project="shop")
    await agent.store("For me alone", visibility="private")
    await agent.store("The kettle is blue", tags=["kettle"])
    await agent.store("The shop opens at nine")
    await notes.export()
    assert (await notes.bring_in())[0] == (0, 4, 0)
    edit(notes.folder / "shop" / "Ada likes mint tea.md", "mint", "green")
    edit(notes.folder / "private" / "For me alone.md", "me alone", "my eyes alone")
    (notes.folder / "The shop opens at nine.md").unlink()
    counts, told, code = await notes.bring_in()
    assert (counts, code) == ((2, 1, 0), ExitCode.DONE)
    assert "2 edited notes correct their memories" in told
    assert (await notes.bring_in())[0] == (0, 3, 0)
    edit(notes.folder / "shop" / "Ada likes mint tea.md", "green", "black")
    assert (await notes.bring_in())[0] == (1, 2, 0)
    was = await agent.call("get_memory", memory_id=tea["id"])
    assert was["memory"]["superseded_by"]
    rows = {
        row["content"]: (row["owner"] is not None, row["project"]) for row in database.rows(CURRENT, DEFAULT_NAMESPACE)
    }
    assert rows == {
        "Ada likes black tea": (False, "shop"),
        "For my eyes alone": (True, None),
        "The kettle is blue": (False, None),
        "The shop opens at nine": (False, None),
    }


async def test_in_another_store_a_note_is_new_and_comes_in_once(agent: Agent, notes: Notes, database: Database) -> None:
    await agent.store("Ada likes mint tea")
    await agent.store("The kettle is blue")
    await notes.export()
    edit(notes.folder / "The kettle is blue.md", "blue", "red")
    for counts in ((2, 0, 0), (0, 2, 0)):
        assert (await notes.bring_in("--namespace", "other"))[0] == counts
    assert current(database, "other") == ["Ada likes mint tea", "The kettle is red"]
    assert current(database) == ["Ada likes mint tea", "The kettle is blue"]


def forge(note: str, **said: Any) -> str:
    """Return a note that says something else of the memory that it was."""
    match = re.search(r"^engramq: (.*)$", note, re.MULTILINE)
    assert match is not None
    own = json.loads(json.loads(match[1]))
    own["memory"] |= said
    return note.replace(match[1], json.dumps(json.dumps(own)))


async def test_a_note_that_names_a_memory_whose_text_it_does_not_know_replaces_nothing(
    agent: Agent, notes: Notes, database: Database
) -> None:
    await agent.store("Ada likes mint tea", external_id="tea")
    await notes.export()
    note = notes.folder / "Ada likes mint tea.md"
    edit(note, "mint", "no")
    note.write_text(forge(note.read_text(), sha256="0" * 64))
    for counts in ((1, 0, 0), (0, 1, 0)):
        assert (await notes.bring_in())[0] == counts
    note.write_text(forge(note.read_text(), memory_id="nobody", sha256="x"))
    assert (await notes.bring_in())[2] == ExitCode.DONE, "what names no memory is a note as any other"
    assert current(database) == ["Ada likes mint tea", "Ada likes no tea"]


async def test_what_is_to_be_looked_through_first_corrects_nothing_that_was(
    agent: Agent, notes: Notes, database: Database
) -> None:
    heard = await agent.store("Tea is red", source_type="web")
    await agent.call("verify_memory", memory_id=heard["id"], verification="verified")
    await agent.call("memory_promote_to_trusted", record_id=heard["id"])
    await notes.export()
    assert (await notes.bring_in())[0] == (0, 1, 0)
    edit(notes.folder / "Tea is red.md", "red", "blue")
    for counts in ((1, 0, 0), (0, 1, 0)):
        assert (await notes.bring_in())[0] == counts
    found = {row["content"]: row["partition"] for row in database.rows(CURRENT, DEFAULT_NAMESPACE)}
    assert found == {"Tea is red": "trusted", "Tea is blue": "untrusted"}


async def test_a_copy_that_is_edited_is_a_note_of_its_own(agent: Agent, notes: Notes, database: Database) -> None:
    await agent.store("Ada likes mint tea", external_id="tea")
    await notes.export()
    note = notes.folder / "Ada likes mint tea.md"
    for name, person in (("A.md", "Bea"), ("Z.md", "Cy")):
        (notes.folder / name).write_text(note.read_text())
        edit(notes.folder / name, "Ada", person)
    for counts in ((2, 1, 0), (0, 3, 0)):
        assert (await notes.bring_in())[0] == counts
    assert current(database) == ["Ada likes mint tea", "Bea likes mint tea", "Cy likes mint tea"]


@pytest.mark.parametrize(
    ("hide", "told"),
    [("supersede_memory", "Another memory has replaced"), ("forget_memory", "which is archived")],
)
async def test_a_note_whose_memory_holds_no_more_is_rejected_and_says_why(
    agent: Agent, notes: Notes, database: Database, tmp_path: Path, hide: str, told: str
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    tea = await agent.store("Ada likes mint tea")
    await notes.export()
    if hide == "forget_memory":
        await agent.call(hide, memory_id=tea["id"])
    else:
        newer = await agent.store("Ada likes no tea")
        await agent.call(hide, old_memory_id=tea["id"], new_memory_id=newer["id"])
    before = current(database)
    assert (await notes.bring_in())[0] == (0, 1, 0)
    edit(notes.folder / "Ada likes mint tea.md", "mint", "green")
    counts, _, code = await notes.bring_in("--rejects", str(rejects))
    assert (counts, code) == ((0, 0, 1), ExitCode.FAILED)
    assert told in rejects.read_text()
    assert current(database) == before


async def test_what_an_editor_does_to_the_ends_of_lines_is_no_edit(
    agent: Agent, notes: Notes, database: Database
) -> None:
    await agent.store("Tea:\n- mint\n- green")
    await notes.export()
    (note,) = notes.folder.rglob("*.md")
    note.write_bytes(note.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert (await notes.bring_in())[0] == (0, 1, 0)
    assert current(database) == ["Tea:\n- mint\n- green"]
