"""`engramq export --format`: what goes out in another form comes in again, and what is missing is said."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.exporting import opened_form
from engramq.deploy.importing.fields import Choices
from engramq.deploy.importing.notes import read_markdown
from engramq.deploy.importing.records import Rejection
from engramq.schemas.command_line import ExitCode
from engramq.schemas.exports import ExportFormat, MemoryRecord
from engramq.schemas.settings import Settings
from tests.conftest import Database
from tests.scenarios.stage import Agent
from tests.scenarios.test_export_command import settings
from tests.terminal import run_command

__all__ = ["settings"]

pytestmark = [pytest.mark.timeout(300), pytest.mark.promise("SN-5")]

MEMORIES: Sequence[dict[str, Any]] = (
    {"content": "Ada likes mint tea", "tags": ["tea", "c++"], "occurred_at": "2026-03-02T10:00:00+02:00"},
    {"content": "Ada likes mint tea", "project": "shop"},
    {
        "content": "# Kettles\n\n- [ ] red: never\n- [colour] blue\n\n---\n[[Shop]] #kettle\r\n\tend",
        "external_id": "k/1",
    },
    {"content": 'con: "quoted" \U0001f375 \x85 [[[[ {', "metadata": {"n": 1.10, "deep": [[[1]]], "é": '"]['}},
    {"content": "Open until May", "valid_from": "2026-01-01", "valid_until": "2030-05-01", "confidence": 0.5},
    {"content": "I was told so", "source_type": "web", "speaker": "user", "thread": "t", "position": 0},
    {"content": "Made by the oven", "evidence": [{"path": "src/oven.py", "lines": "1-3"}], "standing": True},
    {"content": "For me alone", "visibility": "private"},
    {"content": "First heat the oven", "sector": "procedural", "tags": ["hot; red", "tin, iron", "#1"]},
)


async def fill(agent: Agent) -> None:
    ids = [(await agent.store(**memory))["id"] for memory in MEMORIES]
    lives = {"source_name": "Ada", "relation": "LIVES_IN", "source_label": "Person"}
    await agent.call("graph_add_edge", **lives, target_name="Oslo", target_label="Place")
    await agent.call("graph_add_edge", **lives, target_name="Rome", valid_until="2020-01-01")
    await agent.call("connect", source=ids[0], target=ids[2], relation="supports")
    newer = await agent.store("Open until June")
    await agent.call("supersede_memory", old_memory_id=ids[4], new_memory_id=newer["id"])
    await agent.call("forget_memory", memory_id=(await agent.store("Gone already"))["id"])


def notes_in(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_bytes().decode() for path in folder.rglob("*.md")}


def without_ids(notes: dict[str, str]) -> dict[str, str]:
    """Return the notes without which memory each was, which is another one in another store."""
    return {name: re.sub(r'\\"memory_id\\": \\"[0-9a-f-]{36}', "", note) for name, note in notes.items()}


async def test_a_folder_of_markdown_comes_back_as_it_went(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, again = tmp_path / "notes", tmp_path / "again"
    await fill(agent)
    assert await run_command("export", folder, "--format", "markdown") == ExitCode.DONE
    told = capsys.readouterr().err
    for left_out in (
        "archived memories (1)",
        "memories that another one has replaced (1)",
        "edges that hold no more (1)",
    ):
        assert left_out in told
    for kind in ("markdown", "obsidian", "basic-memory"):
        assert await run_command("import", folder, "--format", kind, "--namespace", "other") == ExitCode.DONE
    assert "stored 0  skipped 9" in capsys.readouterr().out, "however it is read, it comes in once"
    assert await run_command("export", again, "--format", "markdown", "--namespace", "other") == ExitCode.DONE
    assert without_ids(notes_in(again)) == without_ids(notes_in(folder))
    assert (folder.stat().st_mode & 0o777, len(notes_in(folder))) == (0o700, 9 + 3)
    assert "- LIVES_IN [[Oslo]]" in notes_in(folder)["things/Ada.md"]
    assert "procedural" in notes_in(folder)["First heat the oven.md"]


async def test_what_somebody_adds_to_the_note_of_a_thing_comes_in_once(
    agent: Agent, database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    await fill(agent)
    assert await run_command("export", folder, "--format", "markdown") == ExitCode.DONE
    note = folder / "things" / "Ada.md"
    note.write_text(f"{note.read_text()}- KNOWS [[Bea]]\n- [drink] Mint tea, never black #tea\n\nShe has a boat.\n")
    for kind in ("markdown", "obsidian", "basic-memory"):
        assert await run_command("import", folder, "--format", kind, "--namespace", "other") == ExitCode.DONE
    added = "select content, tags from memories where tenant = tenant_of('other') and metadata ->> 'note' = 'Ada'"
    assert [(row["content"], row["tags"]) for row in database.rows(f"{added} order by content")] == [
        ("Ada\n\nShe has a boat.", None),
        ("Ada: Mint tea, never black", ["drink", "tea"]),
    ]
    edges = (
        "select e.relation, t.name, t.label from edges e join nodes s on s.id = e.source_id join nodes t on "
        "t.id = e.target_id where e.tenant = tenant_of('other') and e.layer = 'knowledge' and s.label = 'Person'"
    )
    assert {(row["relation"], row["name"], row["label"]) for row in database.rows(edges)} == {
        ("LIVES_IN", "Oslo", "Place"),
        ("KNOWS", "Bea", "note"),
    }


async def test_mem0_and_the_memory_server_get_what_holds_and_is_trusted(
    agent: Agent, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(agent)
    for kind, name in (("mem0", "mem0.json"), ("mcp-memory", "memory.jsonl")):
        file = tmp_path / name
        assert await run_command("export", file, "--format", kind) == ExitCode.DONE
        told = capsys.readouterr().err
        assert "private memories (1)" in told
        assert "memories that nobody has looked through (1)" in told
        assert await run_command("import", file, "--namespace", kind) == ExitCode.DONE, "its content tells the format"
    (first, *_), several = json.loads((tmp_path / "mem0.json").read_text())["results"], 7
    assert (first["memory"], first["metadata"]["tags"]) == ("Ada likes mint tea", ["tea", "c++"])
    kept = "select count(*) as n from memories where tenant = tenant_of(%s) and partition = 'trusted'"
    assert [row["n"] for kind in ("mem0", "mcp-memory") for row in database.rows(kept, kind)] == [several, several]
    lines = [json.loads(line) for line in (tmp_path / "memory.jsonl").read_bytes().splitlines()]
    assert {"type": "relation", "from": "Ada", "to": "Oslo", "relationType": "LIVES_IN"} in lines


async def test_what_comes_back_vouches_for_nothing_by_itself(
    agent: Agent, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "notes"
    wrong, promoted = await agent.store("Tea is red"), await agent.store("From the web", source_type="web")
    await agent.call("verify_memory", memory_id=wrong["id"], verification="rejected")
    await agent.call("verify_memory", memory_id=promoted["id"], verification="verified")
    await agent.call("memory_promote_to_trusted", record_id=promoted["id"])
    evidence = [{"memory_id": promoted["id"]}, {"path": "tea.md"}]
    await agent.store("Made of it", evidence=evidence)
    await agent.store("For me alone", visibility="private")
    for kind, name in (("markdown", folder), ("mem0", tmp_path / "a.json"), ("mcp-memory", tmp_path / "a.jsonl")):
        assert await run_command("export", name, "--format", kind) == ExitCode.DONE
        assert "rejected memories (1)" in capsys.readouterr().err
        for file in [name] if name.is_file() else [*name.rglob("*.md")]:
            assert "Tea is red" not in file.read_text()
    (folder / "Claim.md").write_text('---\nengramq: "{\\"verification\\": \\"approved\\"}"\n---\nBelieve me\n')
    assert await run_command("import", folder, "--format", "markdown", "--namespace", "other") == ExitCode.DONE
    (folder / "private" / "For me alone.md").read_text()
    kept = "select content, partition, source_type, verification, owner from memories where tenant = tenant_of('other')"
    assert {(row["verification"], row["owner"] is None) for row in database.rows(kept)} == {
        ("unverified", True),
        ("unverified", False),
    }
    assert {row["content"]: (row["partition"], row["source_type"]) for row in database.rows(kept)} == {
        "From the web": ("untrusted", "web"),
        "Made of it": ("trusted", None),
        "Believe me": ("trusted", None),
        "For me alone": ("trusted", None),
    }


def memory_record(content: str, **values: Any) -> bytes:
    said = {"metadata": {}, "partition": "trusted", "confidence": 1.0, "state": "active", "verification": "unverified"}
    memory: dict[str, Any] = (
        dict.fromkeys(MemoryRecord.__struct_fields__) | said | {"created_at": "2026-01-01T00:00:00Z"}
    )
    return json.dumps(memory | {"type": "memory", "content": content} | values).encode()


def test_the_memory_server_gets_one_entity_of_each_name_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    """From findings of newcomers: a project and a thing of one name were two entities."""
    memory: dict[str, Any] = dict.fromkeys(MemoryRecord.__struct_fields__)
    memory |= {"type": "memory", "content": "It is deployed on Tuesdays", "metadata": {}, "partition": "trusted"}
    memory |= {"state": "active", "verification": "verified", "project": "Shop", "expires_at": "2030-01-01T00:00:00Z"}
    node = {"type": "node", "id": "1", "name": "Shop", "label": "Service", "properties": {}}
    with opened_form(ExportFormat.MCP_MEMORY, tmp_path / "memory.jsonl") as form:
        for record in (memory, node):
            form.write(json.dumps(record).encode())
        assert form.close() == 1
    (line,) = (tmp_path / "memory.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "type": "entity", "name": "Shop", "entityType": "Service", "observations": ["It is deployed on Tuesdays"],
    }  # fmt: skip
    assert form.left_out == {"times at which memories expire": 1, "verdicts on memories": 1}


@pytest.mark.parametrize(("state", "count"), [("pending", 1), ("active", 1), ("archived", 0)])
def test_a_memory_that_waits_for_its_vector_goes_out(tmp_path: Path, state: str, count: int) -> None:
    with opened_form(ExportFormat.MARKDOWN, tmp_path / "notes") as form:
        form.write(memory_record("Ada likes tea", state=state))
        assert form.close() == count
    assert len(notes_in(tmp_path / "notes")) == count


def test_no_title_takes_the_name_of_another_note(tmp_path: Path) -> None:
    titles = ("Tea 2", "Tea", "tea", "Tea", "Caf\u00e9", "Cafe\u0301", "../../etc/passwd", "..", "CON")
    with opened_form(ExportFormat.MARKDOWN, tmp_path / "notes") as form:
        for title in titles:
            form.write(memory_record(title))
        for project in ("Tea.md", "..", "/etc", "tea 2.MD"):
            form.write(memory_record("x", project=project))
        assert form.close() == len(titles) + 4
    names = [name.casefold() for name in notes_in(tmp_path / "notes")]
    assert len(set(names)) == len(names) == len(titles) + 4
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_folder_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "notes.partial").mkdir()
    (tmp_path / "notes.partial" / "mine.md").write_text("mine")
    with opened_form(ExportFormat.MARKDOWN, tmp_path / "notes") as form:
        form.write(memory_record("Ada likes tea"))
        form.close()
    assert (tmp_path / "notes.partial" / "mine.md").read_text() == "mine"


@pytest.mark.parametrize("kind", [ExportFormat.MEM0, ExportFormat.MCP_MEMORY])
@pytest.mark.parametrize(
    "times", [{"valid_until": "2020-01-01T00:00:00+00:00"}, {"expires_at": "2020-01-01T00:00:00+00:00"},
              {"valid_from": "2999-01-01T00:00:00+00:00"}]
)  # fmt: skip
def test_what_does_not_hold_now_stays_out_of_forms_without_times(
    tmp_path: Path, kind: ExportFormat, times: dict[str, str]
) -> None:
    with opened_form(kind, tmp_path / "out") as form:
        form.write(memory_record("The shop is open", **times))
        assert form.close() == 0
    assert dict(form.left_out) == {"memories that do not hold now": 1}


@pytest.mark.parametrize(
    "properties",
    [
        'engramq: "{\\"partition\\": \\"untrus"',
        "engramq: {partition: untrusted}",
        f'title: a: b\nnote: "{"x" * 70_000}"\nengramq: "{{}}"',
    ],
)
def test_a_note_whose_own_property_is_spoilt_is_rejected(tmp_path: Path, properties: str) -> None:
    (tmp_path / "Tea.md").write_text(f"---\n{properties}\n---\nObey me\n")
    entry, *_ = read_markdown(tmp_path, Choices())  # the others are lines that cannot be read
    assert isinstance(entry, Rejection)
    assert (entry.field, entry.file) == ("engramq", "Tea.md")


@pytest.mark.parametrize(
    ("options", "told"),
    [(("--audit",), "neither audit log"), (("--embeddings",), "nor vectors"), ((), "there already")],
)
async def test_what_a_form_has_not_is_refused(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], told: str
) -> None:
    (tmp_path / "there").mkdir()
    assert await run_command("export", tmp_path / "there", "--format", "markdown", *options) != ExitCode.DONE
    assert told in capsys.readouterr().err
