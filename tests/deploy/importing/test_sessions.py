"""`engramq import` of coding agents' past sessions, over real servers and workers."""

import asyncio
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.importing.transcript_files import StoredSession
from engramq.deploy.importing.transcripts import READERS, transcript_format
from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.hooks.transcripts import LONGEST_LINE
from engramq.deploy.local.hooks.turns import Spoken
from engramq.schemas.command_line import ExitCode
from engramq.schemas.vocabulary import TranscriptFormat
from tests.conftest import Database
from tests.deploy.importing.agent_homes import (
    BY_SUBAGENT,
    DAY,
    SAID,
    SUMMED_UP,
    TOOL_OUTPUT,
    WRITERS,
    claude_code,
    codex,
    cursor,
    gemini,
    gemini_object,
    lines_of,
    moment,
    opencode,
    opencode_files,
)
from tests.scenarios.importing import bring_in, settings, stage
from tests.scenarios.stage import Stage, agent_of

__all__ = ["settings", "stage"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("RC-14")]

SESSION = "5a1e0000-0000-4000-8000-00000000000"
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of somebody who has worked in the repository `work/rover`; their home of engramq is in it."""
    (tmp_path / "work" / "rover" / ".git").mkdir(parents=True)
    (tmp_path / "engramq").mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ENGRAMQ_HOME", str(tmp_path / "engramq"))
    for variable in (
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "GEMINI_CLI_HOME",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
        "COPILOT_HOME",
        "QWEN_HOME",
        "PI_CODING_AGENT_DIR",
    ):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def rover(person: Path) -> str:
    return str(person / "work" / "rover")


def kept(database: Database) -> list[dict[str, Any]]:
    """Return all turns that are kept, the oldest first."""
    return [
        dict(row)
        for row in database.rows(
            "select content, speaker, thread, project, partition::text, source_type, tags,"
            " occurred_at::text from memories order by occurred_at, position, content"
        )
    ]


@pytest.mark.parametrize("client", WRITERS)
async def test_a_session_comes_in_apart_with_speaker_thread_time_and_project_and_twice_is_once(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str], client: str
) -> None:
    path = WRITERS[client](person, f"{rover(person)}/src", SESSION)
    (person / "work" / "rover" / "src").mkdir()

    assert await bring_in("--format", client, str(path), "--dry-run") == ExitCode.DONE
    assert "memories 2  rejected 0" in capsys.readouterr().out
    assert kept(database) == []

    assert await bring_in("--format", client, str(path)) == ExitCode.DONE
    told = capsys.readouterr()
    assert told.out.startswith("stored 2  skipped 0  updated 0  rejected 0")
    assert " with 2 turns, " in told.out
    turns = kept(database)
    assert [(turn["speaker"], turn["content"]) for turn in turns] == list(SAID)
    assert {turn["thread"] for turn in turns} == {SESSION}
    assert TOOL_OUTPUT not in told.out
    assert {turn["project"] for turn in turns} == {"rover"}
    assert {turn["partition"] for turn in turns} == {"untrusted"}
    assert all({"captured", client} == set(turn["tags"]) for turn in turns)
    assert turns[0]["occurred_at"].startswith(DAY)

    assert await bring_in("--format", client, str(path)) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("stored 0  skipped 2  updated 0  rejected 0")
    assert kept(database) == turns
    if path.suffix == ".jsonl":
        assert await bring_in(str(path)) == ExitCode.DONE  # whose it is, its first lines tell
        assert capsys.readouterr().out.startswith("stored 0  skipped 2")


async def test_what_is_found_is_listed_and_comes_in_once_somebody_says_yes(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, write in enumerate(WRITERS.values()):
        write(person, rover(person), f"{SESSION}{number}")
    claude_code(person, rover(person), f"{SESSION}8")
    claude_code(person, "/gone/glider", f"{SESSION}9")
    codex(person, rover(person), f"{SESSION}7", source={"subagent": "review"})

    assert await bring_in("--found") == ExitCode.DONE
    told = capsys.readouterr()
    rows = [line.split() for line in told.out.splitlines()]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("claude-code", "rover", "2"), ("claude-code", "glider", "1"), ("cline", "rover", "1"), ("codex", "rover", "1"),
        ("continue", "rover", "1"), ("copilot", "rover", "1"), ("cursor", "rover", "2"), ("gemini", "rover", "1"),
        ("opencode", "rover", "1"), ("pi", "rover", "1"), ("qwen", "rover", "1"),
    ]  # fmt: skip
    assert "folder is gone" in told.out.splitlines()[1]
    assert "engramq import --found --yes" in told.err
    assert kept(database) == []
    assert not (person / "engramq" / "projects.json").exists(), "a list notes nothing"

    assert await bring_in("--found", "--format", "codex", "--yes") == ExitCode.DONE
    assert {turn["thread"] for turn in kept(database)} == {f"{SESSION}1"}
    capsys.readouterr()
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    told = capsys.readouterr()
    assert told.out.startswith("stored 22  skipped 2  updated 0  rejected 0")
    for why in ("sessions of subagents", "turns of subagents", "summaries of compactions", "Folders that are gone"):
        assert why in told.err
    turns = kept(database)
    assert {turn["project"] for turn in turns} == {"rover", "glider"}
    contents = " ".join(turn["content"] for turn in turns)
    assert not any(text in contents for text in (TOOL_OUTPUT, BY_SUBAGENT, SUMMED_UP, "/clear"))
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    assert capsys.readouterr().out.startswith("stored 0  skipped 24")


@pytest.mark.parametrize(("answer", "turns"), [("y\n", 2), ("n\n", 0)])
async def test_on_a_terminal_it_asks(
    stage: Stage, database: Database, person: Path, monkeypatch: pytest.MonkeyPatch, answer: str, turns: int
) -> None:
    codex(person, rover(person), SESSION)
    monkeypatch.setattr("engramq.deploy.cli.import_sessions.can_ask", lambda: True)
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda _: answer.strip())
    assert await bring_in("--found") == ExitCode.DONE
    assert len(kept(database)) == turns


async def test_secrets_stay_out_whatever_the_settings_say(
    stage: Stage, database: Database, person: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDACT", "off")
    path = claude_code(person, rover(person), SESSION, [("user", f"The token is {SECRET}, the password is hunter2x.")])
    assert await bring_in(str(path)) == ExitCode.DONE
    assert "secret" in capsys.readouterr().err
    (turn,) = kept(database)
    assert SECRET not in turn["content"]
    assert "redacted" in turn["content"]


async def test_what_is_damaged_is_named_and_the_rest_comes_in(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = rover(person)
    half = claude_code(person, folder, f"{SESSION}1")
    half.write_bytes(half.read_bytes() + half.read_bytes()[:300])
    broken = claude_code(person, folder, f"{SESSION}2")
    broken.write_bytes(b'{"type": "user", "message": \xff\xfe}\n{"type": "user", \n' + broken.read_bytes())
    long = claude_code(person, folder, f"{SESSION}3")
    long.write_bytes(b'{"type": "user", "x": "' + b"y" * (LONGEST_LINE + 9) + b'"}\n' + long.read_bytes())
    place = half.parent
    (place / "new.jsonl").write_text(lines_of([{"form": 9, "words": {"user": "Hello."}}]))
    elsewhere = claude_code(person / "elsewhere", folder, f"{SESSION}4")
    (place / "link.jsonl").symlink_to(elsewhere)
    (place / "linked").symlink_to(elsewhere.parent)
    (place / "gone.jsonl").symlink_to(person / "nothing")
    begun = gemini_object(person, folder, f"{SESSION}5")
    begun.write_text('{"sessionId": "x", "messages": [')
    damaged = begun.with_name("session-damaged.json")
    damaged.write_text('{"sessionId": "x",\n "messages": [tru]}')

    assert await bring_in("--found", "--yes") == ExitCode.FAILED
    told = capsys.readouterr()
    assert told.out.startswith("stored 6  skipped 0  updated 0  rejected 7")
    assert {turn["thread"][-1] for turn in kept(database)} == {"1", "2", "3"}
    for name, why in (
        (broken.name, "2 lines are no JSON object in UTF-8"),
        ("new.jsonl", "No line is as claude-code writes it"),
        ("link.jsonl", "symbolic link"),
        ("linked", "symbolic link"),
        ("gone.jsonl", "symbolic link"),
        (begun.name, "cut off"),
        (f"{damaged}: file: ", "The file is no JSON near line 2, character 15: "),
    ):
        assert any(name in line and why in line for line in told.err.splitlines()), (name, told.err)
    assert "1 last line that is half written" in told.err
    assert "1 line of more than 4 MiB" in told.err


async def test_a_session_whose_first_line_is_half_written_is_no_other_form(
    stage: Stage, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = claude_code(person, rover(person), SESSION)
    begun.write_bytes(begun.read_bytes()[:100])
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    assert "1 last line that is half written" in capsys.readouterr().err


async def test_a_window_of_cursor_in_another_form_rejects_no_session(
    stage: Stage, database: Database, person: Path
) -> None:
    path = cursor(person, rover(person), SESSION)
    with closing(sqlite3.connect(path.parents[1] / "workspaceStorage" / f"w{SESSION}" / "state.vscdb")) as odd, odd:
        odd.execute("update ItemTable set value = 7")
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    assert kept(database)


async def test_a_folder_that_nobody_may_read_is_named(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codex(person, rover(person), SESSION)
    locked = person / ".codex" / "sessions" / "2025"
    locked.mkdir()
    look = os.scandir

    def refused(folder: str) -> Any:
        if str(folder) == str(locked):
            raise PermissionError(13, "Permission denied", folder)
        return look(folder)

    monkeypatch.setattr(os, "scandir", refused)  # the tests may be run by root, who may read everything
    assert await bring_in("--format", "codex", str(person / ".codex")) == ExitCode.FAILED
    assert f"{locked}: file: It cannot be read: Permission denied." in capsys.readouterr().err
    assert len(kept(database)) == 2


async def test_a_session_that_two_programs_write_while_it_is_read_brings_each_whole_line_once(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def event(number: int, text: str) -> str:
        item = {"type": "UserMessage", "id": str(number), "content": [{"type": "text", "text": text}]}
        said = {"type": "event_msg", "timestamp": moment(number), "payload": {"type": "item_completed", "item": item}}
        return lines_of([said])

    path = codex(person, rover(person), SESSION)
    one, other = path.open("ab", buffering=0), path.open("ab", buffering=0)
    with one, other:
        reading = READERS[TranscriptFormat.CODEX].said(StoredSession(str(path), path.stat().st_size, 0.0))
        next(reading)
        half = event(70, "The kettle is blue.").encode()
        one.write(half[:40])
        assert await bring_in(str(path)) == ExitCode.DONE
        assert len(kept(database)) == 2
        other.write(event(80, "The tea is green.").encode())
        one.write(half[40:])
        other.write(event(90, "The cup is red.").encode())
        assert [each.turn.text for each in reading if isinstance(each, Spoken)][-1] == "The cup is red."
    assert await bring_in(str(path)) == ExitCode.FAILED
    assert "2 lines are no JSON object in UTF-8." in capsys.readouterr().err
    assert len(kept(database)) == 3
    assert await bring_in(str(path)) == ExitCode.FAILED
    assert capsys.readouterr().out.startswith("stored 0")


async def test_a_session_that_goes_on_brings_only_what_is_new(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = codex(person, rover(person), SESSION)
    assert await bring_in(str(path)) == ExitCode.DONE
    more = {"type": "item_completed", "item": {"type": "UserMessage", "id": "9", "content": [{"type": "text"}]}}
    more["item"]["content"][0]["text"] = "And the kettle is blue."  # type: ignore[index]
    with path.open("a") as file:
        file.write(lines_of([{"timestamp": moment(70), "type": "event_msg", "payload": more}]))
    capsys.readouterr()
    assert await bring_in(str(path)) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("stored 1  skipped 2")
    assert [turn["content"] for turn in kept(database)][-1] == "And the kettle is blue."


@pytest.mark.parametrize(("client", "write"), [("gemini", gemini_object), ("opencode", opencode_files)])
async def test_older_forms_are_read(
    stage: Stage, database: Database, person: Path, client: str, write: Callable[[Path, str, str], Path]
) -> None:
    write(person, rover(person), SESSION)
    assert await bring_in("--format", client, "--found", "--yes") == ExitCode.DONE
    assert {turn["project"] for turn in kept(database)} == {"rover"}
    assert [(turn["speaker"], turn["content"]) for turn in kept(database)] == list(SAID)


@pytest.mark.skipif(shutil.which("zstd") is None, reason="packs by the program zstd")
async def test_a_packed_session_is_read(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = codex(person, rover(person), SESSION)
    subprocess.run(["zstd", "-q", "--rm", str(path)], check=True)
    assert await bring_in("--found") == ExitCode.DONE
    assert capsys.readouterr().out.split()[1] == "rover"
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    assert [turn["content"] for turn in kept(database)] == [text for _, text in SAID]
    packed = path.with_suffix(".jsonl.zst")
    packed.write_bytes(packed.read_bytes()[:-20])
    assert await bring_in("--format", "codex", str(packed)) == ExitCode.FAILED
    assert "damaged" in capsys.readouterr().err


async def test_where_nobody_understands_a_word_it_says_so(person: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = codex(person, rover(person), SESSION, turns=())
    assert await bring_in("--format", "codex", str(path), "--dry-run") == ExitCode.DONE
    assert "1 session without a turn that is understood" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--found", "FILE"), "name no file"),
        (("--format", "codex"), "say --found"),
        (("--format", "codex", "--split", "FILE"), "--split is for files of rows"),
        (("FILE", "FILE"), "Only sessions come from several files"),
        (("--yes", "FILE"), "--yes is for --found"),
        (("--yes", "--format", "codex", "FILE"), "--yes is for --found"),
        ((), "Missing argument 'FILE_OR_FOLDER'"),
    ],
)
async def test_what_makes_no_sense_is_refused(
    person: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    file = person / "rows.jsonl"
    file.write_text(json.dumps({"content": "x"}) + "\n")
    assert await bring_in(*(str(file) if word == "FILE" else word for word in arguments)) == ExitCode.MISUSED
    assert told in capsys.readouterr().err


async def test_namesakes_are_two_projects_and_several_turns_are_one_thread(
    stage: Stage, database: Database, person: Path
) -> None:
    other = person / "spare" / "rover"
    (other / ".git").mkdir(parents=True)
    gemini(person, rover(person), f"{SESSION}1")
    claude_code(person, str(other), f"{SESSION}2")
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    assert {(turn["thread"][-1], turn["project"]) for turn in kept(database)} in (
        {("1", "rover"), ("2", "spare/rover")},
        {("1", "work/rover"), ("2", "rover")},
    )
    async with agent_of(await stage.gateway()) as agent:
        hits = await agent.search("zebra server", partitions=["untrusted"], project="*")
        assert {hit["thread"][-1] for hit in hits} == {"1", "2"}


async def test_databases_that_are_none_or_of_a_new_form_are_named(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codex(person, rover(person), SESSION)
    opencode(person, rover(person), SESSION).write_bytes(b"no database at all" * 99)
    with sqlite3.connect(cursor(person, rover(person), SESSION)) as opened:
        opened.execute("alter table cursorDiskKV rename to other")
    assert await bring_in("--found", "--yes") == ExitCode.FAILED
    told = capsys.readouterr()
    assert told.out.startswith("stored 2  skipped 0  updated 0  rejected 2")
    assert "opencode.db: file: The database cannot be read" in told.err
    assert "state.vscdb: file: The database cannot be read" in told.err


async def test_what_is_damaged_in_a_database_is_named_and_the_rest_comes_in(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for write, table, change in (
        (opencode, "part", "update part set data = cast(x'7b2274657874223a22ff' as text) where id like 'msg%0-0'"),
        (cursor, "cursorDiskKV", "update cursorDiskKV set value = '{' where key like '%:b0'"),
    ):
        with sqlite3.connect(write(person, rover(person), SESSION)) as opened:
            assert opened.execute(change).rowcount, table
    assert await bring_in("--found", "--yes") == ExitCode.FAILED
    told = capsys.readouterr()
    assert told.err.count("is no JSON object in UTF-8") >= 2
    assert "Then I shall wait for Friday." in {turn["content"] for turn in kept(database)}


HUGE = "1" + "0" * 400
BUBBLES = "update cursorDiskKV set value = {} where key like 'bubbleId:%'"
ODDITIES = [
    (opencode, f"update message set data = json_set(data, '$.time.created', json('{HUGE}'))"),
    (opencode, "update message set data = null"),
    (opencode, "update session set time_created = 9223372036854775807"),
    (opencode, "update session set directory = '/' || char(55296)"),
    (cursor, BUBBLES.format(f"json_set(value, '$.createdAt', json('{HUGE}'))")),
    (cursor, BUBBLES.format("json_set(value, '$.workspaceUris', json('[\"file://[x\"]'))")),
    (cursor, BUBBLES.format("'7'")),
]


@pytest.mark.parametrize(("write", "change"), ODDITIES, ids=lambda value: getattr(value, "__name__", "changed"))
async def test_an_odd_session_in_a_database_ends_no_other(
    stage: Stage,
    database: Database,
    person: Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[..., Path],
    change: str,
) -> None:
    codex(person, rover(person), SESSION)
    with sqlite3.connect(write(person, rover(person), SESSION)) as opened:
        opened.execute(change)
    assert await bring_in("--found") == ExitCode.DONE
    assert await bring_in("--found", "--yes") in (ExitCode.DONE, ExitCode.FAILED)
    assert "Traceback" not in capsys.readouterr().err
    assert {turn["content"] for turn in kept(database)} >= {text for _, text in SAID}


async def test_an_id_of_opencode_names_no_files_elsewhere(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = opencode_files(person, rover(person), SESSION)
    for odd in ("../..", "a**"):
        path.with_name(f"{odd[-2:]}.json").write_text(json.dumps({"id": odd, "directory": rover(person), "time": {}}))
    assert await bring_in("--found", "--yes") == ExitCode.FAILED
    assert capsys.readouterr().err.count("Its id is none of OpenCode's.") == 2
    assert len(kept(database)) == len(SAID)


async def test_a_folder_with_a_databases_name_is_named(
    stage: Stage, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (person / ".local" / "share" / "opencode" / "opencode.db").mkdir(parents=True)
    assert await bring_in("--found", "--yes") == ExitCode.FAILED
    assert "The database cannot be read" in capsys.readouterr().err


async def test_a_session_is_named_from_its_own_folder(
    stage: Stage, database: Database, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = codex(person, rover(person), SESSION)
    monkeypatch.chdir(path.parent)
    assert await bring_in(path.name) == ExitCode.DONE
    assert len(kept(database)) == len(SAID)


def test_a_session_that_begins_with_summaries_is_known(person: Path) -> None:
    path = claude_code(person, rover(person), SESSION)
    summaries = json.dumps({"type": "summary", "summary": "Charged the rover", "leafUuid": SESSION}) + "\n"
    path.write_text(summaries * 5 + path.read_text())
    assert transcript_format(path) == "claude-code"


@pytest.mark.timeout(300)
async def test_what_was_killed_midway_goes_on_with_the_rest(
    stage: Stage, database: Database, person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions = 20
    for number in range(sessions):
        codex(person, rover(person), f"{SESSION}-{number}")
    command = [sys.executable, "-m", "engramq", "import", "--found", "--yes", "--batch", "1"]
    begun = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert await asyncio.to_thread(wait_until, lambda: len(kept(database)) > 2, 60)
    finally:
        begun.kill()
        begun.wait(30)
    assert await bring_in("--found", "--yes") == ExitCode.DONE
    told = capsys.readouterr().out
    counts = dict(zip(told.split()[0::2], told.split()[1::2], strict=False))
    assert int(counts["stored"]) + int(counts["skipped"]) == 2 * sessions
    assert int(counts["skipped"]) > 2
    assert len(kept(database)) == 2 * sessions


async def test_of_several_files_the_one_that_is_no_session_is_named(
    person: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = codex(person, rover(person), SESSION), person / "notes.jsonl"
    other.write_text("")
    assert await bring_in(str(path), str(other)) == 2
    assert "notes.jsonl is no session" in capsys.readouterr().err
