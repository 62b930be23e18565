"""`engramq import` over real servers and workers: files that are edited, packed, killed and brought in again."""

import asyncio
import gzip
import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis

from engramq.deploy.importing import foreign, sending
from engramq.deploy.importing.exports import Entry
from engramq.deploy.importing.sending import ImportWorkers, NoWorker
from engramq.deploy.local.home import Home
from engramq.gateway.queue.look import SILENT_S
from engramq.schemas.command_line import ExitCode
from engramq.schemas.connection import lanes_of
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import WorkerKind
from tests.conftest import Database
from tests.scenarios.importing import bring_in, settings, stage
from tests.scenarios.stage import Agent, Stage, staged, until

__all__ = ["settings", "stage"]

pytestmark = pytest.mark.timeout(120)

ENGRAMQ = str(Path(sys.executable).with_name("engramq"))


def lines(contents: Sequence[str], **fields: Any) -> str:
    return "".join(json.dumps({"content": content, **fields}) + "\n" for content in contents)


def contents(database: Database) -> list[str]:
    return sorted(row["content"] for row in database.rows("select content from memories"))


def counted(capsys: pytest.CaptureFixture[str]) -> list[int]:
    """Return what the command counted last: stored, skipped, updated, rejected."""
    words = capsys.readouterr().out.splitlines()[-1].split()
    assert words[::2] == ["stored", "skipped", "updated", "rejected"]
    return [int(word) for word in words[1::2]]


@pytest.mark.promise("IM-3")
@pytest.mark.long
async def test_a_pipe_loses_nothing_of_its_beginning_and_an_export_in_one_is_refused(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of `engramq import <(program)`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = [f"row {number} " + "x" * 1_500 for number in range(200)]  # more than a pipe holds, or one reading takes
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, lines(told)))
    assert await bring_in(pipe) == ExitCode.DONE
    await writing
    assert counted(capsys) == [200, 0, 0, 0]
    assert contents(database) == sorted(told)

    writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, '{"type": "engramq.export", "version": 1}\n'))
    assert await bring_in(pipe) == ExitCode.FAILED
    await writing
    assert "This is an export. It is read twice: write it to a file" in capsys.readouterr().err
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_text, lines(told)))
    assert await bring_in(pipe, "--dry-run") == ExitCode.DONE
    await writing
    assert capsys.readouterr().out.startswith("memories 200  rejected 0")


@pytest.mark.promise("IM-3", "IM-8")
async def test_an_edited_file_doubles_nothing(
    stage: Stage,
    database: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [f"row {number}" for number in range(300)] + ["the same", "the same"]
    bad = {"content": "row 5", "confidence": 7}
    told = [json.dumps({"content": row}) for row in rows]

    file.write_text("\n".join([*told[:5], json.dumps(bad), *told[6:]]))
    assert await bring_in(file) == ExitCode.FAILED
    assert counted(capsys) == [301, 0, 0, 1]
    rejects = tmp_path / "rows.jsonl.rejects.jsonl"
    assert [(line["line"], line["field"]) for line in map(json.loads, rejects.read_text().splitlines())] == [
        (6, "confidence")
    ]

    file.write_text("\n".join(told))  # corrected
    assert await bring_in(file) == ExitCode.DONE
    assert counted(capsys) == [1, 301, 0, 0]
    assert not rejects.exists(), "of another run"

    monkeypatch.setenv("ENGRAMQ_PRINCIPAL", "somebody else")
    file.write_text("\n".join(["", *told[100:], *told[:40], json.dumps({"content": "row 7, edited"})]))
    assert await bring_in(file, "--batch", "64") == ExitCode.DONE
    assert counted(capsys) == [1, 242, 0, 0]
    database.rows("delete from ledger")  # as after seven days
    file.write_bytes(gzip.compress(b"content\n" + "\n".join(rows).encode()))
    assert await bring_in(file, "--format", "csv") == ExitCode.DONE
    assert counted(capsys) == [0, 302, 0, 0]
    assert contents(database) == sorted([*rows, "row 7, edited"])


async def test_a_row_that_changes_a_hidden_memory_is_reported(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"content": "The office is in Lyon", "external_id": "office"}')
    assert await bring_in(file) == ExitCode.DONE
    (old,) = (await agent.call("list_recent_memories"))["memories"]
    new = await agent.store("The office is in Nice")
    await agent.call("supersede_memory", old_memory_id=old["id"], new_memory_id=new["id"])
    capsys.readouterr()
    file.write_text('{"content": "The office is in Paris", "external_id": "office"}')
    assert await bring_in(file, "--on-duplicate", "update") == ExitCode.DONE
    said = capsys.readouterr()
    assert "updated 1" in said.out
    assert "1 updated row went in before, and the memory is hidden behind another" in said.err
    assert await agent.recent() == ["The office is in Nice"]


@pytest.mark.promise("IM-8")
async def test_what_was_forgotten_or_erased_stays_out_and_is_reported(
    agent: Agent, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(["stays", "forgotten", "erased", "erased too"]))
    assert await bring_in(file) == ExitCode.DONE
    ids = {row["content"]: str(row["node_id"]) for row in database.rows("select content, node_id from memories")}
    await agent.call("forget_memory", memory_id=ids["forgotten"])
    for content in ("erased", "erased too"):
        await agent.call("forget_memory", memory_id=ids[content], erase=True)
    capsys.readouterr()
    assert await bring_in(file, "--on-duplicate", "update") == ExitCode.DONE
    said = capsys.readouterr()
    assert said.out.split()[:4] == ["stored", "0", "skipped", "4"]
    assert "1 skipped row went in before, and the memory is archived" in said.err
    assert "2 skipped rows went in before, and the memory was erased" in said.err
    assert contents(database) == ["forgotten", "stays"]


@pytest.mark.long
@pytest.mark.promise("IM-4", "IM-8")
async def test_an_import_that_is_killed_and_whose_file_is_edited_brings_each_row_once(
    stage: Stage, database: Database, tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [f"row {number}" for number in range(900)]

    async def there(least: int) -> bool:
        return bool(database.rows("select count(*) >= %s as there from memories", least)[0]["there"])

    for kill in range(5):
        file.write_text(lines(rows))
        running = subprocess.Popen(
            [ENGRAMQ, "import", str(file), "--batch", str(16 + kill)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            await until(lambda least=90 * (kill + 1): there(least), 60.0)  # type: ignore[misc]
            assert running.poll() is None, "it was done before it could be killed"
        finally:
            running.send_signal(signal.SIGKILL)
            running.communicate()
        if kill in (1, 3):  # rows are added in front, and some that are in are taken out
            rows = [f"{kill} row {number}" for number in range(60)] + rows[:20] + rows[40:]
    file.write_text(lines(rows))
    assert await bring_in(file, "--batch", "200") == ExitCode.DONE
    found = contents(database)
    assert len(found) == len(set(found))
    assert set(rows) <= set(found)
    # What was taken out of the file after it had gone in is still there, no more.
    assert len(set(found) - set(rows)) <= 40


@pytest.mark.promise("IM-1")
async def test_a_table_comes_over_standard_input(stage: Stage, database: Database) -> None:
    given = "content;tags;external_id\nfirst;a,b;e1\nsecond;;\n;;\n".encode("utf-16")
    ran = await asyncio.to_thread(
        subprocess.run, [ENGRAMQ, "import", "-", "--namespace", "tables"], input=given, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout.split()[:2]) == (0, [b"stored", b"2"]), ran.stderr
    of_tables = "tenant = (select tenant from namespaces where namespace = 'tables')"
    kept = database.rows(f"select content, tags from memories where {of_tables} order by content")
    assert [(row["content"], row["tags"]) for row in kept] == [("first", ["a,b"]), ("second", None)]


async def test_a_long_text_is_split_on_request(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "book.jsonl"
    text = "\n\n".join(f"Chapter {number}. " + "word " * 3_000 for number in range(8))
    file.write_text(lines([text]))
    assert await bring_in(file) == ExitCode.FAILED
    assert counted(capsys) == [0, 0, 0, 1]
    for stored, skipped in ((4, 0), (0, 4)):
        assert await bring_in(file, "--split") == ExitCode.DONE
        assert counted(capsys) == [stored, skipped, 0, 0]
    kept = database.rows("select content, thread, position from memories order by position")
    assert [row["position"] for row in kept] == [0, 1, 2, 3]
    assert len({row["thread"] for row in kept}) == 1
    assert " ".join(row["content"] for row in kept).split() == text.split()


@pytest.mark.promise("IM-2")
async def test_what_a_cut_off_file_still_has_goes_in(stage: Stage, database: Database, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(lines([f"row {number} {os.urandom(160).hex()}" for number in range(100)]).encode())
    file.write_bytes(whole[: len(whole) // 2])
    assert await bring_in(file) == ExitCode.FAILED
    (told,) = map(json.loads, (tmp_path / "rows.jsonl.gz.rejects.jsonl").read_text().splitlines())
    found = contents(database)
    assert len(found) > 25
    assert (told["line"], told["field"]) == (len(found) + 1, "file")
    file.write_bytes(whole)
    assert await bring_in(file) == ExitCode.DONE
    assert len(contents(database)) == 100


async def test_an_export_that_is_written_anew_while_it_goes_in_is_not_said_to_have_left_nothing(
    stage: Stage,
    database: Database,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read twice: cut between the two, it said that nothing was imported."""
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps({"results": [{"id": str(at), "memory": f"Tea {at} {'x' * 9000}"} for at in range(64)]}))
    count = foreign._EntryCounts.count

    def cut_once_counted(self: foreign._EntryCounts, entries: Iterator[Entry]) -> None:
        count(self, entries)
        os.truncate(file, file.stat().st_size - 20)

    monkeypatch.setattr(foreign._EntryCounts, "count", cut_once_counted)
    assert await bring_in(file, "--batch", "8") == ExitCode.MIDWAY
    said = capsys.readouterr().err
    assert f"{file} has changed while it was read." in said
    assert ("Imported rows stay." in said, "Nothing was imported" in said) == (True, False)
    assert len(contents(database)) > 0


async def test_a_table_without_names_is_refused_before_anything_goes_in(
    stage: Stage, database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("text,author\nfirst,Ana\n")
    assert await bring_in(file) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert "no memory has a field 'text'" in said
    assert "Nothing was imported." in said
    assert contents(database) == []


@pytest.mark.promise("IM-10")
async def test_that_no_worker_runs_is_said_at_once(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(["first"]))
    monkeypatch.setattr(sending, "START_S", 0.5)
    monkeypatch.setattr(sending, "QUIET_S", 0.1)
    begun = time.monotonic()
    assert await bring_in(file) == ExitCode.MIDWAY
    assert time.monotonic() - begun < 10
    said = capsys.readouterr().err
    assert said.startswith("No worker takes imports. Start one: `engramq worker imports`")
    assert "Waiting for up to 0 s." in said
    assert "engramq import: No worker takes imports. Start one: `engramq worker imports`" in said


@pytest.mark.promise("IM-10")
async def test_a_stack_that_is_still_starting_is_waited_for_and_named(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gave up after 10 s, and said to start a worker by hand."""
    monkeypatch.setattr(sending, "QUIET_S", 0.1)
    with pytest.raises(sending.NoWorker, match="did not start"):
        await sending.ImportWorkers(settings).require(0.5, starting=True)
    assert "is still starting. Waiting" in capsys.readouterr().err


async def test_an_import_whose_stack_was_taken_down_says_so_and_does_not_wait(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for 300 s, for a stack that nobody was to start."""
    monkeypatch.setattr(sending, "QUIET_S", 0.1)
    with pytest.raises(sending.NoWorker, match="engramq down"):
        await sending.ImportWorkers(settings, Home(tmp_path)).require(60.0)


@pytest.mark.promise("IM-10")
async def test_that_redis_is_away_is_said_within_seconds_and_nothing_else(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took five minutes of silence, and came between lines of a log."""
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(["first"]))
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", "redis://127.0.0.1:1")
    wait = "import sys; from engramq.deploy.importing import sending; sending.START_S = 0.5"
    command = f"{wait}; from engramq.deploy.cli import main; sys.exit(main(['import', sys.argv[1]]))"
    with anyio.fail_after(60):
        ended = await anyio.run_process([sys.executable, "-c", command, str(file)], check=False)
    assert ended.returncode == ExitCode.MIDWAY
    said = ended.stderr.decode()
    assert said.startswith("engramq import: Redis cannot be reached. Is ENGRAMQ_REDIS_URL right")
    assert said.count("\n") == 1


@pytest.mark.promise("IM-10")
async def test_an_import_says_when_no_answer_comes_and_what_is_in_after_ctrl_c(
    settings: Settings, database: Database, redis_url: str, tmp_path: Path
) -> None:
    """Missing in findings D15: after Ctrl-C not a word of what is in; of a pipe it did not end at all."""
    alive = lanes_of(settings).first.of[WorkerKind.IMPORTS].alive
    wait = "import sys; from engramq.deploy.importing import sending; sending.LATE_S = 0.5; sending.ALIVE_S = 60"
    command = f"{wait}; from engramq.deploy.cli import main; sys.exit(main(['import', '-', '--batch', '2']))"
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", command, stdin=-1, stdout=-1, stderr=-1,
    )  # fmt: skip
    assert running.stdin is not None
    assert running.stderr is not None
    async with asyncio.timeout(60):
        async with staged(settings):
            running.stdin.write(lines(["first", "second"]).encode())

            async def both_are_in() -> bool:
                return contents(database) == ["first", "second"]

            await until(both_are_in)
        async with Redis.from_url(redis_url) as redis:  # a worker that hangs
            await redis.zadd(alive, {"w": time.time() + 60})
        running.stdin.write(lines(["third", "fourth", "fifth"]).encode())
        while b"Nothing has gone in for" not in (line := await running.stderr.readline()):
            assert line, "it ended"
        running.send_signal(signal.SIGINT)  # while it waits for more to read, too
        said = (await running.stderr.read()).decode()
        assert await running.wait() == ExitCode.INTERRUPTED
    assert "Stopped by Ctrl-C. So far: stored 2  skipped 0  updated 0  rejected 0" in said
    assert "Run the same command again" in said


@pytest.mark.promise("IM-10")
async def test_an_import_waits_a_while_for_workers_that_come_back_and_no_longer(
    settings: Settings, redis_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "ALIVE_S", 0.05)
    monkeypatch.setattr(sending, "QUIET_S", 0.0)
    alive, workers = lanes_of(settings).first.of[WorkerKind.IMPORTS].alive, ImportWorkers(settings)
    async with Redis.from_url(redis_url) as redis, asyncio.timeout(30):
        waiting = asyncio.create_task(workers.require(30.0))

        async def is_told() -> bool:
            return "Waiting for up to 30 s." in capsys.readouterr().err

        await until(is_told)
        assert not waiting.done()
        await redis.zadd(alive, {"w": time.time()})
        await waiting
        monkeypatch.setattr(sending, "RETURN_S", 0.2)
        watching = asyncio.create_task(workers.watch())
        await redis.zadd(alive, {"w": time.time() - SILENT_S - 1})
        with pytest.raises(NoWorker, match="engramq worker imports"):
            await watching


@pytest.mark.promise("IM-2")
async def test_a_reject_file_that_cannot_be_written_is_told_of_at_once(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(["first"]))
    assert await bring_in(file, "--rejects", "/proc/nowhere/x") == ExitCode.MISUSED
    assert "--rejects" in capsys.readouterr().err


@pytest.mark.promise("IM-2")
async def test_a_clean_import_leaves_what_is_no_file_alone(stage: Stage, tmp_path: Path) -> None:
    pipe = tmp_path / "rejects"
    os.mkfifo(pipe)
    file = tmp_path / "rows.jsonl"
    file.write_text(lines(["first"]))
    assert await bring_in(file, "--rejects", str(pipe)) == ExitCode.DONE
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
