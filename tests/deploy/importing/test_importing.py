"""`engramq import` of other systems' exports over real servers and workers."""

import json
import re
from pathlib import Path

import pytest

from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import ForeignFormat
from tests.conftest import Database
from tests.deploy.importing import exports
from tests.scenarios.importing import bring_in, settings, stage
from tests.scenarios.stage import Stage, agent_of

__all__ = ["settings", "stage"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("RC-11")]


def kept(database: Database) -> tuple[int, int, int]:
    """Return how many memories, nodes and edges there are."""
    (row,) = database.rows(
        "select (select count(*) from memories) m, (select count(*) from nodes where name is not null) n,"
        " (select count(*) from edges where layer = 'knowledge') e"
    )
    return row["m"], row["n"], row["e"]


@pytest.mark.promise("SN-4")
@pytest.mark.parametrize("kind", ForeignFormat)
async def test_the_same_twice_gives_the_same_count(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: ForeignFormat
) -> None:
    path = exports.EXPORTS[kind](tmp_path)
    how = ("--format", str(kind)) if kind in exports.NAMED else ()
    memories, nodes, edges = exports.BROUGHT[kind]

    assert await bring_in(path, "--dry-run", *how) == ExitCode.DONE
    told = capsys.readouterr()
    assert told.out.startswith(f"memories {memories}  ")
    assert "Nothing was written" in told.err
    assert kept(database) == (0, 0, 0)

    assert await bring_in(path, *how) == ExitCode.DONE
    told = capsys.readouterr()
    assert told.out.startswith(f"stored {memories}  skipped 0  updated 0  rejected 0")
    assert (f"nodes {nodes} ({nodes} new)" in told.out) is bool(nodes)
    first = kept(database)
    assert first[0] == memories
    assert first[2] == edges
    more = re.search(r"Edges name (\d+) more nodes", told.out)  # what the export has no node for: counted too
    assert first[1] == nodes + (int(more[1]) if more else 0)

    assert await bring_in(path, *how) == ExitCode.DONE
    told = capsys.readouterr()
    assert told.out.startswith(f"stored 0  skipped {memories}  updated 0  rejected 0")
    assert (f"edges {edges} (0 new)" in told.out) is bool(edges)
    assert kept(database) == first


async def test_a_mem0_export_is_found_by_a_search(stage: Stage, tmp_path: Path) -> None:
    assert await bring_in(exports.mem0(tmp_path)) == ExitCode.DONE
    async with agent_of(await stage.gateway()) as agent:
        found = await agent.search("which allergy to walnuts", tags=[])
        assert "Is allergic to walnuts" in [item["content"] for item in found]


async def test_conversations_are_kept_apart_unless_they_were_looked_through(
    stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = exports.claude(tmp_path)
    async with agent_of(await stage.gateway()) as agent, agent_of(await stage.gateway(), "other") as other:
        assert await bring_in(path) == ExitCode.DONE
        told = capsys.readouterr().err
        assert "kept apart" in told
        (search,) = re.findall("(?m)^engramq search --partition untrusted (.+)$", told)
        found = await agent.search(search, partitions=["untrusted"])
        assert any(all(word in turn["content"] for word in search.split()) for turn in found), (
            "it finds what it is made of"
        )
        assert await agent.found("garlic") == []
        turns = await agent.search("garlic", partitions=["untrusted"])
        assert {(turn["speaker"], turn["thread"]) for turn in turns} == {
            ("user", "claude:c0000000-0000-4000-8000-000000000001"),
            ("assistant", "claude:c0000000-0000-4000-8000-000000000001"),
        }
        assert await bring_in(path, "--trusted", "--all-messages", "--namespace", "other") == ExitCode.DONE
        assert "kept apart" not in capsys.readouterr().err
        assert sorted(await other.found("garlic")) == [
            "In autumn, some weeks before the frost.",
            "When do I plant garlic?",
        ]
        assert await other.found("garlic", partitions=["untrusted"]) == ["A page about garlic"]


async def test_a_graph_can_be_walked(stage: Stage, tmp_path: Path) -> None:
    assert await bring_in(exports.mcp_memory(tmp_path)) == ExitCode.DONE
    async with agent_of(await stage.gateway()) as agent:
        around = await agent.call("graph_query_neighbors", node_name="Ana Silva")
        assert [(neighbor["label"], neighbor["name"], neighbor["relation"]) for neighbor in around["neighbors"]] == [
            ("place", "Lisbon office", "works_at")
        ]


@pytest.mark.promise("SE-19")
async def test_a_secret_in_the_name_of_a_thing_is_left_out_and_its_edges_still_find_it(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
    lines = [
        {"type": "entity", "name": f"key {secret}", "entityType": "credential", "observations": []},
        {"type": "entity", "name": "Ana", "entityType": "person", "observations": []},
        {"type": "relation", "from": "Ana", "to": f"key {secret}", "relationType": "owns"},
    ]
    file = tmp_path / "memory.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert await bring_in(file) == ExitCode.DONE
    assert "2 secrets were left out" in capsys.readouterr().err
    async with agent_of(await stage.gateway()) as agent:
        (only,) = (await agent.call("graph_query_neighbors", node_name="Ana"))["neighbors"]
    assert (only["label"], only["name"].startswith("key [redacted: ")) == ("credential", True)
    assert database.rows("select from nodes where name like %s", f"%{secret}%") == []


@pytest.mark.parametrize("kind", [ForeignFormat.MEM0, ForeignFormat.OPENMEMORY, ForeignFormat.CHATGPT])
async def test_of_an_export_that_is_cut_nothing_is_written(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: ForeignFormat
) -> None:
    path = exports.EXPORTS[kind](tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    for options in ((), ("--dry-run",)):
        assert await bring_in(path, "--format", str(kind), *options) == ExitCode.FAILED
        told = capsys.readouterr().err
        assert "Nothing was imported." in told
        assert "cut off" in told
    assert kept(database) == (0, 0, 0)


async def test_what_is_wrong_is_rejected_with_file_line_and_field_and_the_rest_goes_in(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vault = exports.obsidian(tmp_path)
    (vault / "Projects" / "Late.md").write_bytes(b"\xff\xfe\x00")
    (vault / "Projects" / "Once.md").write_text("---\ncreated: some day\n---\nWhen was this?")
    assert await bring_in(vault, "--dry-run") == ExitCode.FAILED
    told = capsys.readouterr().err
    assert "Projects/Late.md, line 1: file: " in told
    assert "1 date that cannot be read (its row is in)" in told
    assert await bring_in(vault) == ExitCode.FAILED
    rejects = tmp_path / "vault.rejects.jsonl"
    told = capsys.readouterr().err
    assert str(rejects) in told
    assert "1 date that cannot be read (its row is in)" in told
    (line,) = map(json.loads, rejects.read_text().splitlines())
    assert (line["file"], line["line"], line["field"]) == ("Projects/Late.md", 1, "file")
    assert kept(database)[0] == exports.BROUGHT[ForeignFormat.OBSIDIAN][0] + 1


async def test_a_chat_that_cannot_be_read_is_rejected_and_the_rest_of_its_folder_goes_in(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chats = tmp_path / "chatSessions"
    chats.mkdir()
    exports.EXPORTS[ForeignFormat.COPILOT_CHAT](chats)
    (chats / "empty.jsonl").touch()
    assert await bring_in(chats, "--format", "copilot-chat", "--dry-run") == ExitCode.FAILED
    assert "empty.jsonl: file: The file is empty." in capsys.readouterr().err
    assert await bring_in(chats, "--format", "copilot-chat") == ExitCode.FAILED
    assert kept(database) == exports.BROUGHT[ForeignFormat.COPILOT_CHAT]


async def test_nothing_found_is_an_exit_code(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = tmp_path / "conversations.json"
    empty.write_text("[]")
    (tmp_path / "storage").mkdir()
    blank = tmp_path / "rows.jsonl"
    blank.write_text("\n")
    for options in ((), ("--dry-run",)):
        assert await bring_in(blank, *options) == ExitCode.FAILED
        assert "There is nothing to import in" in capsys.readouterr().err
        assert await bring_in(empty, "--format", "claude", *options) == ExitCode.FAILED
        assert "There is nothing to import in" in capsys.readouterr().err
        assert await bring_in(tmp_path / "storage", "--format", "opencode", *options) == ExitCode.FAILED
        assert "No sessions of opencode were found" in capsys.readouterr().err


async def test_a_dry_run_of_rows_tells_what_would_be_rejected_and_shows_samples(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"content": "a \\u001b[31mred fox"}\n{"content": ""}\n{"content": "b", "confidence": 7}\n')
    assert await bring_in(file, "--dry-run") == ExitCode.FAILED
    told = capsys.readouterr()
    assert told.out.splitlines() == ["memories 1  rejected 2", "line 1: a \\u001b[31mred fox"]
    assert "line 2: content: " in told.err
    assert "line 3: confidence: " in told.err
    assert not (tmp_path / "rows.jsonl.rejects.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "content", "options", "told"),
    [
        ("x.json", "[1, 2]", (), "its format is not certain"),
        ("x.jsonl", '{"content": "x"}', ("--trusted",), "--trusted is for conversations"),
        ("x.zip", "PK\x03\x04", (), "damaged"),
        ("x.json", "{}", ("--format", "claude"), "no JSON list"),
    ],
)
async def test_nothing_is_guessed(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    options: tuple[str, ...],
    told: str,
) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode("latin-1"))
    assert await bring_in(file, *options, "--dry-run") != ExitCode.DONE
    assert told in capsys.readouterr().err


async def test_a_device_is_no_file_of_rows(capsys: pytest.CaptureFixture[str]) -> None:
    for options in ((), ("--dry-run",), ("--format", "csv"), ("--format", "jsonl", "--dry-run")):
        assert await bring_in(Path("/dev/zero"), *options) == ExitCode.MISUSED
        assert "/dev/zero is a device" in capsys.readouterr().err


async def test_a_folder_and_a_pipe_are_no_files_of_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path, how, told in (
        (tmp_path, (), "The format of this folder is not certain"),
        (tmp_path, (), "Plain notes (.md) are markdown."),
        (tmp_path, ("--format", "csv"), "is a folder"),
        (Path("-"), ("--format", "mem0"), "write it to a file"),
    ):
        assert await bring_in(path, *how) in (ExitCode.MISUSED, ExitCode.FAILED)
        assert told in capsys.readouterr().err
