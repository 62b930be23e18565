"""The commands for people, as a person runs them, over a real gateway with tokens and a whole pipeline."""

import contextlib
import io
import json
import os
import pty
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import anyio.to_thread
import click
import pytest

from engramq.deploy.cli import main
from engramq.deploy.cli.output import draw_list, refusal_text
from engramq.schemas.command_line import ExitCode
from engramq.schemas.faults import HINTS, HINTS_OF_IDS, FaultCode
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Scope
from engramq.workers.auth.tokens import NewToken
from tests.gateway.conftest import keys, redis_url
from tests.gateway.test_identity_end_to_end import Served, served, settings

__all__ = ["keys", "redis_url", "settings"]

pytestmark = [pytest.mark.timeout(120), pytest.mark.promise("RC-3")]

ESCAPES = "before\x1b]0;owned\x07\x1b[31m after \u202e\nsecond line"


class Shell:
    """Runs commands in this process, and returns what they printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.err = ""

    async def run(self, *words: str, code: int = ExitCode.DONE, given: bytes | None = None) -> str:
        if given is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        ended = await anyio.to_thread.run_sync(main, list(words))
        out, self.err = self._capsys.readouterr()
        assert ended == code, (words, out, self.err)
        return out

    async def json(self, *words: str, code: int = ExitCode.DONE) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(await self.run(*words, "--json", code=code))
        return reply


@pytest.fixture
async def here(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as here:
        await here.invite("ada", "people", NewToken(principal="ada", scopes=ALL_SCOPES))
        await here.invite("reader", "people", NewToken(principal="reader", scopes=(Scope.READ,)))
        yield here


@pytest.fixture
def shell(here: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{here.site.port}")
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["ada"])
    return Shell(capsys, monkeypatch)


async def test_a_memory_is_stored_found_listed_shown_forgotten_and_restored(shell: Shell) -> None:
    first = (await shell.run("store", "The", "office", "is", "in", "Lyon", "--tag", "office")).strip()
    second = (await shell.run("store", given="Der Schlüssel liegt\nim Schrank".encode())).strip()

    found = (await shell.run("search", "where", "is", "the", "office", "--tag", "office")).splitlines()
    assert [line.split("\t")[0] for line in found] == [first]
    assert found[0].split("\t")[2:4] == ["#office", "The office is in Lyon"]
    assert 0 <= float(found[0].split("\t")[4]) <= 1, "relevance"
    listed = (await shell.run("list", "--limit", "1")).splitlines()
    assert [line.split("\t")[0] for line in listed] == [second]
    assert listed[0].endswith("Der Schlüssel liegt\\u000aim Schrank"), "one line each"
    cursor = shell.err.split("--cursor ")[1].strip()
    assert (await shell.run("list", "--limit", "1", "--cursor", cursor)).startswith(first)
    assert len((await shell.run("recent")).splitlines()) == 2

    shown = await shell.run("show", second)
    assert f"id: {second}" in shown
    assert shown.endswith("\nDer Schlüssel liegt\nim Schrank\n")

    assert (await shell.run("forget", first, "--reason", "moved")).strip() == "archived"
    assert (await shell.run("search", "office", "--tag", "office")) == ""
    assert shell.err.startswith("Nothing that passes the filters was found among the trusted memories that are in no p")
    assert first in await shell.run("list", "--state", "archived")
    assert (await shell.run("restore", first)).strip() == "restored"
    assert (await shell.run("search", "office", "--tag", "office")).startswith(first)


@pytest.mark.promise("KN-9")
async def test_a_long_memory_is_shown_whole_and_in_parts(shell: Shell) -> None:
    content = "".join(f"The boat of number {number} is of wood and lies in the harbour.\n" for number in range(200))
    stored = (await shell.run("store", given=content.encode())).strip()
    assert (await shell.run("show", stored)).endswith(content.rstrip() + "\n")
    parts = [(await shell.json("show", stored, "--part", str(number))) for number in (1, 2)]
    assert "".join(part["memory"]["content"] for part in parts) == content.rstrip()
    assert [(part["part"], part["parts"]) for part in parts] == [(1, 2), (2, 2)]
    await shell.run("show", stored, "--part", "9", code=ExitCode.MISUSED)
    assert "part 9 does not exist: the content has 2 parts." in shell.err


async def test_what_waits_is_judged_corrected_and_replaced(shell: Shell) -> None:
    """The bridge from capture to use, which newcomers missed: without it only the page or an agent could promote."""
    bakery, library, museum = [
        (await shell.run("store", f"The {place} is open", "--source-type", "research")).strip()
        for place in ("bakery", "library", "museum")
    ]
    await shell.run("promote", bakery, "--yes", code=ExitCode.FAILED)
    assert "engramq verify" in shell.err
    assert "verify_memory" not in shell.err
    assert await shell.run("verify", bakery, library, "--yes", "--reason", "was there") == (
        f"{bakery}\tverified\n{library}\tverified\n"
    )
    assert await shell.run("verify", library, "--approved", "--yes") == f"{library}\tapproved\n"
    assert await shell.run("promote", bakery, library, "--yes") == f"{bakery}\tpromoted\n{library}\tpromoted\n"
    assert await shell.run("reject", museum, "--yes") == f"{museum}\trejected\n"
    listed = await shell.run("list")
    assert (bakery in listed, library in listed) == (True, True)
    assert museum not in await shell.run("list", "--partition", "untrusted")

    changes = ("--tag", "town", "--speaker", "Ada", "--occurred-at", "2024-05-01", "--metadata", '{"street": "Main"}')
    assert await shell.run("update", library, *changes) == "updated\n"
    memory = (await shell.json("show", library))["memory"]
    assert (memory["tags"], memory["speaker"], memory["metadata"]) == (["town"], "Ada", {"street": "Main"})
    await shell.run("update", library, "--remove-tag", "town", "--clear", "speaker")
    memory = (await shell.json("show", library))["memory"]
    assert (memory["tags"], memory["speaker"]) == ([], None)
    await shell.run("update", library, code=ExitCode.MISUSED)

    newer = (await shell.run("store", "The library is closed")).strip()
    assert await shell.run("supersede", library, newer) == "superseded\n"
    assert library not in await shell.run("list")
    nobody = "0199c1de-0000-7000-8000-000000000000"
    await shell.run("verify", nobody, "--yes", code=ExitCode.FAILED)
    assert shell.err == "There is no memory of this id. engramq search finds those that there are, with their ids.\n"


@pytest.mark.promise("PV-2")
async def test_what_is_private_is_shared_after_a_look_and_taken_back(shell: Shell) -> None:
    harbour = (await shell.run("store", "--private", "Ada would rather lead the harbour project")).strip()
    assert "private" in await shell.run("list")
    await shell.run("share", harbour, code=ExitCode.MISUSED)
    digest = (await shell.json("show", harbour))["memory"]["digest"]
    assert await shell.run("share", harbour, "--seen", digest, "--reason", "asked") == f"{harbour}\tshared\n"
    assert "private" not in await shell.run("list")
    assert await shell.run("unshare", harbour) == f"{harbour}\tprivate\n"
    nobody = "0199c1de-0000-7000-8000-000000000000"
    await shell.run("unshare", nobody, code=ExitCode.FAILED)
    digest = (await shell.json("show", harbour))["memory"]["digest"]
    await shell.run("update", harbour, "--shared", "--seen", digest)
    other = (await shell.run("store", "The harbour has two piers", "--shared")).strip()
    await shell.run("supersede", harbour, other)
    await shell.run("unshare", other, code=ExitCode.FAILED)
    assert f"Others have built on it: {harbour}." in shell.err


@pytest.mark.promise("TP-29")
async def test_what_a_command_showed_is_what_it_judges(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Security finding 3, as a person meets it who reads, is called away, and comes back to say that it is true."""
    stored = (await shell.run("store", "Monday is\x1b[7m sunny", "--source-type", "research")).strip()
    seen = next(
        line.removeprefix("digest: ")
        for line in (await shell.run("show", "--untrusted", stored)).splitlines()
        if line.startswith("digest: ")
    )
    assert await shell.run("verify", stored, "--seen", seen) == f"{stored}\tverified\n"
    assert "sunny" not in shell.err, "it was looked at before"
    await shell.run("update", stored, "--metadata", '{"follow": "me"}')
    for command in (("promote", stored), ("reject", stored), ("update", stored, "--tag", "x")):
        await shell.run(*command, "--seen", seen, code=ExitCode.FAILED)
        assert "metadata changed since. Nothing was changed." in shell.err
        assert "engramq show --untrusted shows all of it" in shell.err
    await shell.run("promote", stored, stored, "--seen", seen, code=ExitCode.MISUSED)

    def changed_meanwhile(*_words: Any, **_how: Any) -> bool:
        assert main(["update", stored, "--speaker", "Eve"]) == ExitCode.DONE
        return True

    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(click, "confirm", changed_meanwhile)
    assert "promoted" not in await shell.run("promote", stored, code=ExitCode.FAILED)
    assert "speaker changed since" in shell.err
    monkeypatch.setattr(click, "confirm", lambda *_words, **_how: False)
    assert await shell.run("promote", stored) == f"{stored}\tleft as it is\n"
    assert "Monday is\\u001b[7m sunny" in shell.err, "what is asked about is shown, and inert"
    assert await shell.run("promote", stored, "--yes") == f"{stored}\tpromoted\n"


@pytest.mark.promise("TP-29")
async def test_off_a_terminal_nothing_is_judged_that_nobody_saw(shell: Shell) -> None:
    """A script lists, reads, and verifies: an author who exchanges the text between the two is found out."""
    stored = (await shell.run("store", "Monday is sunny", "--source-type", "research")).strip()
    waiting = ("--partition", "untrusted", "--verification", "unverified")
    for command in ("verify", "reject", "promote"):
        await shell.run(command, stored, code=ExitCode.MISUSED, given=b"y\n")
        assert "--seen DIGEST" in shell.err
        assert "--yes" in shell.err
    (listed,) = (await shell.json("list", *waiting))["memories"]
    assert (listed["id"], listed["verification"]) == (stored, "unverified"), "nothing was judged"
    assert listed["digest"] == (await shell.json("show", "--untrusted", stored))["memory"]["digest"]

    await shell.run("update", stored, "--metadata", '{"follow": "me"}')
    await shell.run("verify", stored, "--seen", listed["digest"], code=ExitCode.FAILED)
    assert "metadata changed since. Nothing was changed." in shell.err
    (listed,) = (await shell.json("list", *waiting))["memories"]
    assert await shell.run("verify", stored, "--seen", listed["digest"]) == f"{stored}\tverified\n"
    assert await shell.run("promote", stored, "--seen", listed["digest"]) == f"{stored}\tpromoted\n"


async def test_projects_are_listed_with_what_they_hold(shell: Shell) -> None:
    assert await shell.run("projects") == ""
    assert "No memories." in shell.err
    await shell.run("store", "of the rover", "--project", "rover")
    await shell.run("store", "of the rover, too", "--project", "rover", "--source-type", "conversation")
    await shell.run("store", "of nobody you know", "--project", "odd \u200b", "--source-type", "conversation")
    assert await shell.run("search", "rover") == ""
    assert "--project '*'" in shell.err
    assert (await shell.run("search", "rover", "--project", "*")).count("of the rover") == 1
    assert "--project" not in shell.err
    listed = (await shell.run("projects")).splitlines()
    assert sorted(listed) == ["odd \\u200b\t1\t1", "rover\t2\t1"]
    reply = await shell.json("projects")
    assert {"project": "rover", "memories": 2, "untrusted_count": 1} in reply["projects"]
    assert reply["project"] is None


async def test_projects_are_renamed_and_merged_at_a_gateway_elsewhere(shell: Shell, here: Served) -> None:
    await shell.run("store", "six wheels", "--project", "rover")
    await shell.run("store", "a camera", "--project", "lander")
    assert await shell.run("projects", "rename", "rover", "acme/rover") == "1 memory now in acme/rover\n"
    assert await shell.run("projects", "rename", "lander", "acme/rover", code=ExitCode.FAILED) == ""
    assert "engramq projects merge puts these beside them" in shell.err
    merged = await shell.json("projects", "merge", "lander", "acme/rover")
    assert (merged["status"], merged["memory_count"]) == ("renamed", 1)
    assert (await shell.run("projects")).splitlines() == ["acme/rover\t2\t0"]
    for words in (("rename", "lander", "mars"), ("merge", "lander", "acme/rover")):
        await shell.run("projects", *words, code=ExitCode.FAILED)
        assert "Nothing that you see is in a project 'lander'" in shell.err
    for wrong in ("rename * mars", "merge mars mars", "rename mars", "--json merge a b"):
        await shell.run("projects", *wrong.split(), code=ExitCode.MISUSED)


@pytest.mark.promise("KN-12")
async def test_who_finds_nothing_is_told_of_other_projects(
    shell: Shell, here: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for commands in (("list", "--tag", "nosuch"), ("search", "zebras"), ("recent",)):
        assert await shell.run(*commands) == ""
        assert "in project" not in shell.err, "there are no others"
    await shell.run("store", "zebras have stripes", "--project", "zoo", "--tag", "striped")
    told: tuple[tuple[tuple[str, ...], str], ...] = (
        (("list", "--tag", "striped"), "1 memory in project zoo"),
        (("search", "zebras"), "1 hit in project zoo"),
        (("search", "zebras", "--project", "Zoo"), "There is no project Zoo; nearest: zoo. 1 hit in project zoo"),
        (("recent",), "1 memory in project zoo"),
    )
    for words, said in told:
        assert await shell.run(*words) == ""
        assert f"{said}; --project '*' shows " in shell.err
    await here.invite("all", "people", NewToken(principal="all", scopes=ALL_SCOPES, project="*"))
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["all"])
    assert "zebras have stripes" in await shell.run("search", "zebras")
    assert await shell.run("list", "--tag", "nosuch") == ""
    assert "memories of all projects." in shell.err


async def test_a_gateway_that_cannot_say_which_project_is_meant_still_answers(
    settings: Settings, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(settings, tools="core") as few:
        monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{few.site.port}")
        monkeypatch.setenv("ENGRAMQ_TOKEN", few.secrets["alice"])
        assert await shell.run("search", "nothing") == ""
        assert "Nothing was found" in shell.err


async def test_what_is_not_trusted_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    hit = {"id": "01a204c6-7469-7000-8000-000000000000", "created_at": "2026-11-20T10:00:00Z", "content": "Zebras."}
    draw_list({"memories": [hit, {**hit, "partition": "untrusted"}]})
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == ["", "untrusted"]


async def test_filters_are_those_of_the_tools(shell: Shell) -> None:
    for words in (
        ("apart", "--source-type", "research", "--thread", "t1"),
        ("of a project", "--project", "rover"),
        ("of a day", "--occurred-at", "2024-05-01", "--sector", "episodic", "--metadata", '{"a": 1}'),
        ("holds no more", "--valid-from", "2024-01-01", "--valid-until", "2024-02-01"),
    ):
        await shell.run("store", *words)

    async def contents(*words: str) -> set[str]:
        return {memory["content"] for memory in (await shell.json(*words))["memories"]}

    assert await contents("list") == {"of a day"}
    assert await contents("list", "--partition", "untrusted", "--thread", "t1") == {"apart"}
    assert await contents("list", "--project", "*") == {"of a day", "of a project"}
    assert await contents("search", "day", "--sector", "episodic", "--until", "2024-05-01") == {"of a day"}
    assert await contents("search", "holds", "--as-of", "2024-01-15") == {"holds no more"}
    assert await contents("recent", "1", "--project", "rover") == {"of a day"}
    for command in (("recent",), ("list",), ("search", "project")):
        assert await contents(*command, "--project", "rover", "--only") == {"of a project"}
    today, yesterday = datetime.now(UTC).date(), datetime.now(UTC).date() - timedelta(days=1)
    assert await contents("list", "--since", str(today)) == set(), "when it happened"
    assert await contents("list", "--stored-since", str(today)) == {"of a day"}
    assert await contents("list", "--since", "2024-05-01", "--until", str(yesterday)) == {"of a day"}
    assert "apart" in await contents("recent", "50"), "whatever its trust"


async def test_what_others_have_written_does_nothing_to_a_terminal(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = (await shell.run("store", ESCAPES, "--tag", "tag \u200b", "--speaker", "evil \u200b")).strip()
    for words in (("search", "before"), ("recent"), ("list",), ("show", stored)):
        told = await shell.run(*([words] if isinstance(words, str) else words))
        assert "before\\u001b]0;owned\\u0007\\u001b[31m after \\u202e" in told
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b"} & set(told)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is in a zone that is half an hour beside others."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "<+0530>-5:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
async def test_on_a_terminal_memories_are_a_table_that_fits_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("[bold]A long text[/] " + "word " * 60, "--tag", "x", "--occurred-at", "2024-05-01")
    stored = (await shell.run("store", *words)).strip()
    (stored_at,) = [memory["created_at"] for memory in (await shell.json("recent"))["memories"]]
    moment = datetime.fromisoformat(stored_at).astimezone(timezone(timedelta(hours=5.5)))

    async def drawn(columns: int, *words: str, **variables: str) -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        leader, follower = pty.openpty()
        with os.fdopen(follower, "w") as terminal:
            monkeypatch.setattr(sys, "stdout", terminal)
            assert await anyio.to_thread.run_sync(main, list(words or ("recent",))) == ExitCode.DONE
            terminal.flush()
        data = b""
        with contextlib.suppress(OSError):  # the end, once nobody has the other side
            while chunk := os.read(leader, 65_536):
                data += chunk
        os.close(leader)
        return data.decode()

    coloured = await drawn(100)
    assert "\x1b[36m" in coloured
    plain = await drawn(60, NO_COLOR="1")
    assert "\x1b[3" not in plain
    lines = plain.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert lines[0].split() == ["ID", "STORED", "(+0530)", "CONTENT"]
    assert f"{moment:%Y-%m-%d %H:%M}" in lines[1]
    searched = await drawn(60, "search", "text")
    assert "WHEN (+0530)" in searched
    assert "2024-05-01" in searched, "when it happened, a date as it was given"
    assert stored[:13] in lines[1]
    assert "[bold]A long text[/]" in " ".join(lines), "no markup of ours"
    narrow = (await drawn(20)).replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert narrow[:2] == [stored[:13], f"{moment:%Y-%m-%d %H:%M}"], "both whole (findings D15)"
    assert " ".join(line.strip() for line in narrow[2:]).startswith("[bold]A long text[/] word word")
    assert all(len(line) <= 20 for line in narrow)


async def test_the_beginning_of_an_id_is_enough_where_no_other_has_it(shell: Shell) -> None:
    first = (await shell.run("store", "one")).strip()
    second = (await shell.run("store", "two")).strip()
    await shell.run("forget", first)
    assert "\none\n" in await shell.run("show", first[:20]), "of the forgotten, too"
    while first[:8] != second[:8]:  # a minute, in which both have to fall
        first, second = second, (await shell.run("store", "three")).strip()
    for words in (("show", first[:8]), ("forget", first[:8])):
        await shell.run(*words, code=ExitCode.MISUSED)
        assert first in shell.err
        assert second in shell.err
    await shell.run("show", "00000000", code=ExitCode.FAILED)
    assert "No memory has an id that begins with" in shell.err
    for word in ("01", "not-an-id", "01900000-zzzz"):
        await shell.run("show", word, code=ExitCode.MISUSED)


async def test_json_is_the_reply_of_the_tool(shell: Shell) -> None:
    stored = await shell.json("store", "a fact")
    assert stored["status"] == "stored"
    assert (await shell.json("show", stored["stored"]["id"]))["memory"]["content"] == "a fact"
    refusal = await shell.json("search", "x", "--as-of", "some day", code=ExitCode.MISUSED)
    assert (refusal["status"], refusal["field"]) == ("invalid_parameter", "as_of")
    missing = await shell.json("forget", "01900000-0000-7000-8000-000000000000", code=ExitCode.FAILED)
    assert missing["status"] == "not_found"


async def test_erasing_asks_first(shell: Shell) -> None:
    stored = (await shell.run("store", "gone soon")).strip()
    await shell.run("forget", stored, "--erase", code=ExitCode.MISUSED, given=b"")
    assert "--erase takes --yes" in shell.err
    assert (await shell.run("forget", stored, "--erase", "--yes")).strip() == "erased"
    await shell.run("show", stored, code=ExitCode.FAILED)


async def test_restore_tells_a_memory_from_a_backup(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = (await shell.run("store", "back again")).strip()
    await shell.run("forget", stored)
    (tmp_path / stored).write_text("no backup")
    await shell.run("restore", stored, code=ExitCode.MISUSED)
    assert f"for the file write ./{stored}" in shell.err
    await shell.run("restore", f"./{stored}", "--check", code=ExitCode.FAILED)  # a file that is no backup
    (tmp_path / stored).unlink()
    await shell.run("restore", stored, "--force", code=ExitCode.MISUSED)
    assert "--force is for a backup" in shell.err
    await shell.run("restore", "backup.tar.gz", "--reason", "x", code=ExitCode.MISUSED)
    assert "--reason is for a memory" in shell.err
    assert (await shell.run("restore", stored)).strip() == "restored"


async def test_nobody_at_a_terminal_is_told_of_tools_and_parameters(shell: Shell) -> None:
    """A newcomer read "Correct the named parameter and call again"."""
    for words in (("list", "--cursor", "x"), ("audit", "--action", "explode"), ("store", "x", "--expires-at", "soon")):
        await shell.run(*words, code=ExitCode.MISUSED)
        assert "named parameter" not in shell.err
        assert "all again" not in shell.err
    advice = [code.recovery for code in FaultCode] + [*HINTS.values(), *HINTS_OF_IDS.values()]
    for text in (refusal_text("No.", text) for text in advice):
        assert re.findall(r"\w+_(?:memory|memories|trusted|edges?|name|proposals|key|untrusted|exists)\b", text) == []
        assert "named parameter" not in text


async def test_what_is_refused_is_said_in_a_line(
    shell: Shell, here: Served, monkeypatch: pytest.MonkeyPatch, unused: Callable[[], int]
) -> None:
    await shell.run("store", "x", "--namespace", "other", code=ExitCode.MISUSED)
    assert "the token says it" in shell.err
    await shell.run("store", given=b"\xff\xfe", code=ExitCode.MISUSED)
    assert "no text in UTF-8" in shell.err
    monkeypatch.setenv("ENGRAMQ_TOKEN", here.secrets["reader"])
    await shell.run("store", "x", code=ExitCode.FAILED)
    assert "'write'" in shell.err
    monkeypatch.setenv("ENGRAMQ_TOKEN", "nobody")
    await shell.run("recent", code=ExitCode.FAILED)
    assert "has answered 401" in shell.err
    assert "ENGRAMQ_TOKEN holds the token" in shell.err
    monkeypatch.setenv("ENGRAMQ_URL", f"http://127.0.0.1:{unused()}")
    await shell.run("recent", code=ExitCode.FAILED)
    assert "cannot be reached" in shell.err
    monkeypatch.setenv("ENGRAMQ_URL", "ftp://example.org")
    await shell.run("recent", code=ExitCode.MISUSED)


@pytest.mark.promise("PR-5")
async def test_a_topic_is_surveyed(shell: Shell) -> None:
    for place in ("Lyon", "Porto"):
        await shell.run("store", f"The office is in {place}", "--thread", "offices", "--occurred-at", "2026-01-05")
    lines = (await shell.run("survey", "where", "is", "the", "office", "--limit", "1")).splitlines()
    assert lines[0].split("\t")[1:] in (["2026-01-05", f"The office is in {place}"] for place in ("Lyon", "Porto"))
    cursor = shell.err.rpartition(" ")[2].strip()
    assert "Name it: 2 (2026-01: 2); others that may be about it: 0" in shell.err
    more = await shell.json("survey", "where is the office", "--limit", "1", "--cursor", cursor)
    assert {lines[0].split("\t")[0]}.isdisjoint({extract["id"] for extract in more["extracts"]})
    assert more["next_cursor"] is None
    await shell.run("survey", "office", "--since", "2026-02-01", "--until", "2026-01-01", code=ExitCode.MISUSED)


@pytest.mark.promise("EV-4")
async def test_a_card_says_why_a_memory_is_known(shell: Shell) -> None:
    stored = (await shell.run("store", "The oven is blue", "--thread", "kitchen")).strip()
    await shell.run("verify", stored, "--yes", "--reason", "looked")
    lines = (await shell.run("why", stored[:20])).splitlines()
    assert lines[0] == f"{stored}\tThe oven is blue"
    assert any(line.startswith("recorded\t") and "kitchen" in line for line in lines)
    assert any(line.startswith("trusted\t") and "looked" in line for line in lines)


async def test_a_private_memory_is_shown_as_such(shell: Shell) -> None:
    private = (await shell.run("store", "I look for another job", "--private")).strip()
    shown = await shell.run("show", private)
    assert any(line.split() == ["visibility:", "private"] for line in shown.splitlines()), shown
