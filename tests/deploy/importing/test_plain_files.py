"""Links, pipes, views and lengths in a folder of sessions: none of them is followed, waited for or held."""

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engramq.deploy.importing import plain_files
from engramq.deploy.importing.plain_files import ForeignDatabase
from engramq.deploy.importing.records import Rejection
from engramq.deploy.importing.sessions import UNUSABLE
from engramq.deploy.importing.transcript_files import StoredSession, client_of
from engramq.deploy.importing.transcripts import READERS
from engramq.deploy.local.hooks.transcripts import CLIENTS, LONGEST_LINE
from engramq.deploy.local.hooks.turns import Spoken
from engramq.schemas.packed_lines import UnusableFile
from engramq.schemas.vocabulary import TranscriptFormat
from tests.deploy.helpers import needs_root
from tests.deploy.importing.agent_homes import (
    WRITERS,
    claude_code,
    codex,
    cursor,
    gemini,
    gemini_object,
    opencode,
    opencode_files,
)
from tests.faults.disk import made_read_only

pytestmark = [pytest.mark.timeout(60), pytest.mark.promise("RC-14")]

SESSION = "5a1e0000-0000-4000-8000-000000000001"
FOLDERS = {
    TranscriptFormat.CLAUDE_CODE: ".claude", TranscriptFormat.CODEX: ".codex", TranscriptFormat.GEMINI: ".gemini",
    TranscriptFormat.CURSOR: ".config/Cursor/User", TranscriptFormat.OPENCODE: ".local/share/opencode",
    TranscriptFormat.COPILOT: ".copilot", TranscriptFormat.QWEN: ".qwen", TranscriptFormat.PI: ".pi",
    TranscriptFormat.CLINE: ".cline", TranscriptFormat.CONTINUE: ".continue",
}  # fmt: skip
Spoil = Callable[[Path], object]


def read(client: TranscriptFormat, folder: Path) -> tuple[list[str], list[str]]:
    """Return what is said in all sessions of a folder, heads looked at before, and why something was not read."""
    reader = READERS[client]
    said, problems = list[str](), list[str]()
    for session in reader.sessions(folder):
        if isinstance(session, Rejection):
            problems.append(session.reason)
        if not isinstance(session, StoredSession):
            continue
        try:
            reader.head(session)
            for each in reader.said(session):
                said += [each.turn.text] if isinstance(each, Spoken) else []
                problems += [each.reason] if isinstance(each, Rejection) else []
        except UNUSABLE as problem:
            problems.append(str(problem))
    return said, problems


def linked(path: Path) -> None:
    """Put a link to a file elsewhere, that is as this one, into its place."""
    other = path.with_name(f"{path.name}.elsewhere")
    path.rename(other)
    path.symlink_to(other)


def piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    os.truncate(path, 2**43)


@pytest.mark.parametrize("spoil", [linked, piped, device, sparse])
@pytest.mark.parametrize("write", [*WRITERS.values(), gemini_object, opencode_files])
def test_a_session_that_is_a_link_a_pipe_or_endless_is_named_and_not_read(
    tmp_path: Path, write: Callable[..., Path], spoil: Spoil
) -> None:
    path = write(tmp_path, "/work/rover", SESSION)
    client = next(client for client, folder in FOLDERS.items() if path.is_relative_to(tmp_path / folder))
    assert read(client, tmp_path / FOLDERS[client])[0]
    if spoil is sparse and path.suffix in (".db", ".vscdb"):
        return  # only as much of a database is read as it says to have
    spoil(path)
    said, problems = read(client, tmp_path / FOLDERS[client])
    assert said == []
    assert problems or write is opencode_files


@pytest.mark.parametrize("spoil", [linked, piped, device, sparse])
def test_what_lies_beside_sessions_is_opened_as_they_are(tmp_path: Path, spoil: Spoil) -> None:
    session = gemini(tmp_path, "/work/rover", SESSION)
    root = session.parents[1] / ".project_root"
    assert root.is_file()
    spoil(root)
    listed = list(READERS[TranscriptFormat.GEMINI].sessions(tmp_path / ".gemini"))
    heads = [READERS[TranscriptFormat.GEMINI].head(each) for each in listed if isinstance(each, StoredSession)]
    assert {head.folder for head in heads} == {""}
    opencode_files(tmp_path, "/work/rover", SESSION)
    storage = tmp_path / FOLDERS[TranscriptFormat.OPENCODE] / "storage"
    part = next(part for part in storage.glob("part/*/*.json") if "zebra" in part.read_text())
    whole, _ = read(TranscriptFormat.OPENCODE, storage.parent)
    spoil(part)
    said, _ = read(TranscriptFormat.OPENCODE, storage.parent)
    assert len(said) < len(whole)


@pytest.mark.parametrize("below", ["storage", "storage/session", "storage/message", "storage/part"])
def test_no_folder_below_the_one_that_is_named_is_a_link(tmp_path: Path, below: str) -> None:
    opencode_files(tmp_path, "/work/rover", SESSION)
    folder = tmp_path / FOLDERS[TranscriptFormat.OPENCODE]
    linked(folder / below)
    said, problems = read(TranscriptFormat.OPENCODE, folder)
    assert said == []
    assert problems == ["It is a symbolic link, and none is followed."]


def test_the_folder_of_all_sessions_is_no_link_unless_it_is_named(tmp_path: Path) -> None:
    claude_code(tmp_path, "/work/rover", SESSION)
    projects = tmp_path / ".claude" / "projects"
    linked(projects)
    assert read(TranscriptFormat.CLAUDE_CODE, projects.parent) == ([], ["It is a symbolic link, and none is followed."])
    assert read(TranscriptFormat.CLAUDE_CODE, projects)[0]


def test_whose_transcript_a_pipe_is_nobody_asks(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert client_of(tmp_path / "pipe.jsonl", tuple(CLIENTS.values())) == ""


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
def test_a_packed_session_is_read_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = codex(tmp_path, "/work/rover", SESSION)
    with path.open("ab") as file:
        file.truncate(2 * 10**6)
    subprocess.run(["zstd", "-q", "--rm", str(path)], check=True)
    monkeypatch.setattr(plain_files.BoundedStream.__init__, "__defaults__", (10**6,))
    _, problems = read(TranscriptFormat.CODEX, tmp_path / ".codex")
    assert problems == ["It unpacks to more than is read."]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return opencode(tmp_path, "/work/rover", SESSION)


ENDLESS = "with recursive r(n) as (select 1 union all select n + 1 from r) select n as id, n as time_created from r"
SPOILT = {
    "view": f"alter table session rename to other; create view session as {ENDLESS}",
    "virtual table": "drop table session; create virtual table session using fts5(id, time_created)",
    "long value": f"update message set data = zeroblob({LONGEST_LINE + 1})",
    "longer value": f"update message set data = zeroblob({plain_files.OBJECT_BYTES + 1})",
    "long id": f"update session set id = zeroblob({LONGEST_LINE + 1} + rowid)",
}


@pytest.mark.parametrize("change", SPOILT.values(), ids=SPOILT.keys())
def test_a_database_gives_only_rows_of_tables_and_of_a_bounded_length(
    tmp_path: Path, database: Path, change: str
) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.executescript(change)
    said, problems = read(TranscriptFormat.OPENCODE, tmp_path / FOLDERS[TranscriptFormat.OPENCODE])
    assert said == []
    assert not problems or problems == ["The database cannot be read, or has a new form: it has no table session."]


@needs_root
def test_a_database_on_a_read_only_disk_is_read_unless_changes_beside_it_would_be_missing(
    tmp_path: Path, database: Path
) -> None:
    """SQLite wants to make files beside a database in WAL mode, as clients leave them: it could not be opened."""
    folder = tmp_path / FOLDERS[TranscriptFormat.OPENCODE]
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("pragma journal_mode = wal")
    whole = read(TranscriptFormat.OPENCODE, folder)
    assert whole[0]
    with made_read_only(folder):
        assert read(TranscriptFormat.OPENCODE, folder) == whole
    log = Path(f"{database}-wal")
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("update message set data = data || ' '")
        opened.commit()
        changes = log.read_bytes()
    log.write_bytes(changes)
    with made_read_only(folder):
        said, problems = read(TranscriptFormat.OPENCODE, folder)
    assert (said, len(problems)) == ([], 1)


def test_a_view_in_cursors_database_is_no_table(tmp_path: Path) -> None:
    with closing(sqlite3.connect(cursor(tmp_path, "/work/rover", SESSION))) as opened:
        opened.executescript(f"alter table cursorDiskKV rename to other; create view cursorDiskKV as {ENDLESS}")
    _, problems = read(TranscriptFormat.CURSOR, tmp_path / FOLDERS[TranscriptFormat.CURSOR])
    assert problems == ["The database cannot be read, or has a new form: it has no table cursorDiskKV."]


def test_a_database_of_too_many_sessions_is_read_to_a_bound(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(database)) as opened, opened:
        opened.execute("insert into session (id, time_created, directory) values ('more', 1, '/')")
    monkeypatch.setattr(plain_files, "_ROWS", 20)  # the tables of the database are fewer
    with closing(sqlite3.connect(database)) as opened, opened:
        several = [(str(number), number) for number in range(20)]
        opened.executemany("insert into session (id, time_created, directory) values (?, ?, '/')", several)
    _, problems = read(TranscriptFormat.OPENCODE, tmp_path / FOLDERS[TranscriptFormat.OPENCODE])
    assert problems == ["The database has more than 20 rows, which are not read."]


COUNTED = "with recursive r(n) as (select 1 union all select n + 1 from r) select max(n) from r"


def count(database: Path) -> list[object]:
    with ForeignDatabase(str(database)) as opened:
        opened._tables = {"r"}
        return list(opened.rows("counted"))


def test_a_step_of_a_database_ends_in_time(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_files, "STEP_S", 0.05)
    monkeypatch.setitem(plain_files._QUERIES, "counted", COUNTED)
    with pytest.raises(UnusableFile, match="gave nothing for"):
        count(database)


@pytest.mark.parametrize("beside", ["-wal", "-shm", "-journal"])
def test_what_a_database_has_beside_it_is_no_pipe_and_no_link(tmp_path: Path, database: Path, beside: str) -> None:
    os.mkfifo(f"{database}{beside}")
    _, problems = read(TranscriptFormat.OPENCODE, tmp_path / FOLDERS[TranscriptFormat.OPENCODE])
    assert problems == ["The database cannot be read: It is no regular file."]


def test_a_folder_of_too_many_files_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        (tmp_path / f"{number}.json").touch()
    monkeypatch.setattr(plain_files, "FOLDER_FILES", 2)
    with pytest.raises(UnusableFile, match="more than 2 files"):
        plain_files.plain_files(tmp_path, suffix=".json")
