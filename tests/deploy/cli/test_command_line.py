"""Every command's help, the answer to wrong options (at once, exit code 2, nothing started), and lists as they come."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest

from engramq.deploy.cli import main, review
from engramq.deploy.cli.root import COMMANDS, OTHER_WORDS, engramq
from engramq.deploy.local import stdio
from engramq.schemas.command_line import ExitCode
from tests.architecture.source import ROOT
from tests.deploy.helpers import BOUND_S

GROUPS = {"token": ("create", "list", "revoke"), "tenant": ("list", "config", "hand-over", "delete")}
PLACES = [(), *((name,) for name in COMMANDS), *((group, name) for group, names in GROUPS.items() for name in names)]
ID = "0199c1de-0000-7000-8000-000000000000"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home that is not there; nothing else is set, so every command would have to start the embedded servers."""
    for name in [name for name in os.environ if name.startswith("ENGRAMQ_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "home"
    monkeypatch.setenv("ENGRAMQ_HOME", str(path))
    return path


@pytest.mark.parametrize("place", PLACES, ids=" ".join)
def test_every_command_has_help_of_one_style_and_starts_nothing_for_it(
    place: tuple[str, ...], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*place, "-h"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith(f"Usage: {' '.join(['engramq', *place])} [OPTIONS]")
    assert "  -h, --help " in shown.out
    assert shown.err == ""
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        # Not hook: a client would take 2 for a word against the prompt.
        *(([*place, "--nonsense"], "No such option '--nonsense'") for place in PLACES if place != ("hook",)),
        (["fly"], "No such command 'fly'"),
        (["up", "now"], "unexpected extra argument (now)"),
        (["up", "--port", "65536"], "'--port': must be a whole number from 0 to 65535"),
        (["up", "--port", "http"], "'--port': must be a whole number"),
        (["up", "--port"], "'--port' requires an argument"),
        (["up", "--host", " "], "'--host': must be a text"),
        (["up", "--host", "0.0.0.0"], "engramq up: --host: '0.0.0.0' is not a loopback address"),
        (["down", "now"], "unexpected extra argument (now)"),
        (["status", "--json=1"], "'--json' does not take a value"),
        (["stdio", "now"], "unexpected extra argument (now)"),
        (["stdio", "--namespace"], "'--namespace' requires an argument"),
        (["stdio", "--namespace", ""], "'--namespace': must be a text"),
        (["stdio", "--namespace=engramq:system"], "'--namespace': must be another one"),
        (["stdio", "--principal", "engramq"], "'--principal': must be another one"),
        (["stdio", "--tools", " "], "'--tools': must be a text"),
        (["gateway", "--port", "-1"], "'--port': must be a whole number"),
        (["gateway", "--host", "::"], "engramq gateway: --host: '::' is not a loopback address"),
        (["gateway", "--socket", "x", "--port", "1"], "add --http"),
        (["worker"], "give --all"),
        (["worker", "nokind"], "'nokind' is not one of 'embedding'"),
        (["worker", "--all", "recall"], "give --all"),
        (["migrate", "--wait", "nan"], "'--wait': must be a number from 0 to 86400"),
        (["migrate", "--wait", "-1"], "'--wait': must be a number from 0 to 86400"),
        (["migrate", "twice"], "unexpected extra argument (twice)"),
        (["migrate", "--wait", "soon"], "'--wait': could not convert string to float: 'soon'"),
        (["import"], "Missing argument 'FILE_OR_FOLDER'"),
        (["import", "/no/such/file"], "'/no/such/file' does not exist"),
        (["import", "/", "--format", "csv"], "csv is the format of a file, and / is a folder"),
        (["import", "-", "--format", "mem0"], "write it to a file, and import that"),
        (["import", "-", "--batch", "0"], "'--batch': 0 is not in the range"),
        (["import", "-", "--on-duplicate", "hope"], "'hope' is not one of 'skip', 'update'"),
        (["import", "-", "--rejects", "/"], "'/' is a directory"),
        (["import", "-", "--rejects", "/no/such/folder/x"], "'/no/such/folder' is no folder that can be written to"),
        (["import", __file__, "--rejects", __file__], "is the file that is to be imported"),
        (["backup"], "Missing argument 'FILE'"),
        (["backup", "/"], "'/' is a directory"),
        (["backup", "/no/such/folder/x"], "'/no/such/folder' is no folder that can be written to"),
        (["restore"], "Missing argument 'ID_OR_FILE'"),
        (["restore", "/no/such/file"], "'/no/such/file' does not exist"),
        (["restore", "01900000", "--check"], "--check is for a backup"),
        (["show"], "Missing argument 'ID'"),
        (["search"], "Missing argument 'QUERY"),
        (["recent", "0"], "must be a whole number from 1 to 100"),
        (["list", "--partition", "hidden"], "'hidden' is not one of 'trusted', 'untrusted'"),
        (["store", "x", "--metadata", "[]"], "'[]' is no JSON object"),
        (["restore", __file__, "--check", "--force"], "--check touches nothing"),
        (["purge", "--rewrite", "--yes"], "--rewrite goes alone"),
        (["purge", "--rewrite", "--created-by", "crawler"], "--rewrite goes alone"),
        (["purge"], "Give at least one filter."),
        (["duplicates", "--yes"], "--yes goes with --merge"),
        (["duplicates", "--similarity", "0.2"], "0.2 is not from 0.5 to 1"),
        (["purge", "--thread", "t", "--reason", ""], "'--reason': must be a text"),
        (["purge", "--since", "yesterday"], "2026-01-31"),
        (["audit", "--action", "explode"], "must be one of supersede"),
        (["audit", "--actor", ""], "'--actor': must be a text"),
        (["audit", "--limit", "0"], "'--limit': must be a whole number from 1 to 100000"),
        (["tenant"], "list|config|hand-over|delete"),
        (["tenant", "export", "acme", "-"], "No such command 'export'"),
        (["export"], "Missing argument 'FILE'"),
        (["export", "-", "--namespace", " "], "'--namespace': must be a text"),
        (["export", "/"], "'/' is a directory"),
        (["export", "/no/such/folder/x"], "'/no/such/folder' is no folder that can be written to"),
        (["tenant", "delete"], "Missing argument 'NAMESPACE'"),
        (["tenant", "delete", "engramq:system"], "'NAMESPACE': must be another one"),
        (["tenant", "delete", "acme", "--reason", ""], "'--reason': must be a text"),
        (["token"], "create|list|revoke"),
        (["token", "lend"], "No such command 'lend'"),
        (["token", "create"], "Missing option '--principal'"),
        (["token", "create", "--principal", "a", "--expires", "0d"], "90d"),
        (["token", "revoke"], "Missing argument 'ID'"),
        (["token", "revoke", "x"], "'x' is no id"),
        (["token", "revoke", ID, ID], f"unexpected extra argument ({ID})"),
        (["token", "create", "--principal", " "], "1 to 255 characters"),
        (["token", "create", "--principal", "engramq"], "engramq's own"),
        (["token", "create", "--principal", "a", "--namespace", "engramq:system"], "engramq's own"),
        (
            ["token", "create", "--principal", "a", "--scopes", "read,fly"],
            "no scope 'fly'; there are read, write, verify",
        ),
        (["token", "create", "--principal", "a", "--scopes", ""], "no scope ''"),
        (["token", "create", "--principal", "a", "--expires", "soon"], "90d"),
        (["token", "create", "--principal", "a", "--expires", "2020-01-01"], "has passed"),
        (["token", "create", "--principal", "a", "--expires", "999999w"], "too far away"),
        (["token", "create", "--principal", "a", "--label", "\0"], "--label"),
        (["token", "list", "--namespace", ""], "--namespace"),
        (["purge", "--yes"], "Give at least one filter."),
        (["purge", "--partition", "trust"], "untrusted"),
        (["purge", "--created-by", " "], "'--created-by': must be a text of 1 to 255 characters"),
        (["purge", "--source-type", "x" * 256], "'--source-type': must be a text of 1 to 255 characters"),
        (["purge", "--thread", ""], "'--thread': must be a text of 1 to 255 characters"),
        (["purge", "--created-by", "crawler", "--namespace", ""], "--namespace"),
        (["purge", "--created-by", "crawler", "--namespace", "engramq:system"], "--namespace"),
        (["audit", "--target", "nonsense"], "no id"),
        (["audit", "--since", "yesterday"], "2026-01-31"),
        (["audit", "--namespace", ""], "--namespace"),
        (["graph", "restore"], "Missing argument 'ID'"),
        *((["graph", "restore", word], "whole number") for word in ("twelve", "0", "9" * 19)),
        (["graph", "restore", "1", "--reason", " "], "text of 1 to 2000 characters"),
        (["graph", "restore", "1", "--namespace", "engramq:system"], "--namespace"),
        (["graph", "deleted", "--limit", "0"], "whole number"),
        (["graph", "forget"], "No such command"),
        (["duplicates", "--similarity", "nan"], "nan is not from"),
        (["duplicates", "--similarity", "near"], "near"),
        (["duplicates", "--partition", "both"], "untrusted"),
        (["duplicates", "--limit", "-1"], "from 0 to 10000"),
        (["duplicates", "--namespace", ""], "--namespace"),
        (["receipt"], "Give the id of a command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_is_called_wrongly_says_so_and_starts_nothing(
    arguments: list[str], told: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert told in shown.err
    assert shown.out == ""
    assert not home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["up"], ["gateway"], ["worker", "--all"], ["migrate"], ["import", "-"], ["purge", "--thread", "t"]),
        *(["duplicates"], ["duplicates", "--merge", "--yes"]),
        *(["tenant", "list"], ["export", "-"], ["tenant", "delete", "a"]),
        *(["audit"], ["token", "list"], ["token", "create", "--principal", "a"], ["token", "revoke", ID]),
    ],
    ids=" ".join,
)
def test_what_is_set_wrongly_is_named_before_anything_is_started(
    arguments: list[str], home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_DEGREE_CAP", "many")
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"engramq {arguments[0]}: ENGRAMQ_DEGREE_CAP: 'many' cannot be used")
    assert not home.exists()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://h/0?ssl_ca_certs=/etc/hostname", "must begin with rediss:// for ssl_ca_certs to count"),
        ("rediss://h/0?ssl_certfile=/etc/hostname", "must name ssl_certfile and ssl_keyfile, both or neither"),
    ],
)
def test_a_gateway_refuses_parameters_of_tls_that_do_not_fit(
    url: str, told: str, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAMQ_REDIS_URL", url)
    assert main(["gateway"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("engramq gateway: ENGRAMQ_REDIS_URL: ")
    assert told in shown
    assert not home.exists()


def test_the_name_alone_shows_the_help(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert main([]) == 0
    bare = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert bare == capsys.readouterr().out
    assert not home.exists()


def test_the_list_says_of_each_command_what_its_own_help_says_first() -> None:
    with click.Context(engramq) as context:
        for name, lazy in COMMANDS.items():
            command = engramq.get_command(context, name)
            assert command is not None
            assert (command.name, command.get_short_help_str(1_000)) == (name, lazy.help)


def test_the_list_and_commands_of_tools_load_neither_gateway_nor_workers() -> None:
    program = (
        "import sys; from engramq.deploy.cli import main\n"
        "for line in sys.argv[1:]:\n"
        "    main(line.split())\n"
        "    heavy = [name for name in sys.modules if name.startswith(('engramq.gateway', 'engramq.workers'))]\n"
        "    assert not heavy, (line, heavy)"
    )
    command = [sys.executable, "-c", program, "-h", "search -h", "store --nope", "status -h", "up -h"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"Usage: engramq (\w+)", done.stdout + done.stderr) == ["search", "status", "up", "store"]


def test_what_few_processes_use_is_loaded_by_its_first_use() -> None:
    program = (
        "import sys; from engramq.deploy.cli import main; main(sys.argv[1:])\n"
        "early = {'jwt.api_jwt', 'httpx', 'rich', 'cryptography.hazmat'} & sys.modules.keys()\n"
        "import jwt; from jwt.exceptions import DecodeError\n"
        "token = jwt.encode({'sub': 'ada'}, 'k' * 32, algorithm='HS256')\n"
        "assert jwt.decode(token, 'k' * 32, algorithms=['HS256']) == {'sub': 'ada'}\n"
        "assert jwt.DecodeError is DecodeError\n"
        "sys.exit(f'loaded {early}' if early else 0)"
    )
    command = [sys.executable, "-c", program, "worker", "-h"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert done.returncode == 0, done.stderr


def test_stdio_reads_its_options_itself_as_click_would(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[dict[str, str]] = []

    def serve(environment: dict[str, str], _folder: str) -> int:
        served.append({name: value for name, value in environment.items() if name != "ENGRAMQ_HOME"})
        return 0

    arguments = ["--namespace", "acme", "--principal=ada", "--tools", "core"]
    monkeypatch.setattr(stdio, "serve", serve)
    monkeypatch.setattr("engramq.deploy.cli.up.serve", serve)
    assert stdio.main(arguments) == 0
    assert main(["stdio", *arguments, "--principal", "Ada Lovelac\N{LATIN SMALL LETTER E WITH ACUTE}"]) == 0
    by_itself, by_click = served
    assert by_itself["ENGRAMQ_PRINCIPAL"] == "ada"
    assert by_click == by_itself | {"ENGRAMQ_PRINCIPAL": "Ada Lovelac\N{LATIN SMALL LETTER E WITH ACUTE}"}


@pytest.mark.promise("RC-13")
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["up"], 1), (["stdio"], 1), (["connect", "cursor"], 1), (["-h"], 1), ([], 1), (["hook", "claude-code"], 0)],
)
def test_on_windows_itself_every_command_ends_at_once_with_what_works(
    arguments: list[str], code: int, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert main(arguments) == code, "a hook never stops its client"
    told = (
        "engramq: engramq does not run on Windows itself. Install it within WSL 2, or use Docker: docs/windows.md says"
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(told)
    assert not home.exists()
    assert (ROOT / "docs" / "windows.md").exists()


def test_a_command_that_is_misspelt_is_told_the_one_that_is_meant(capsys: pytest.CaptureFixture[str]) -> None:
    """Missing in the newcomer's findings: `serch` suggested nothing."""
    assert main(["serch", "keys"]) == ExitCode.MISUSED
    assert "No such command 'serch'. Did you mean 'search'?" in capsys.readouterr().err
    assert main(["quux"]) == ExitCode.MISUSED
    assert "Did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("start", "up"), ("stop", "down"), ("add", "store"), ("find", "search"), ("delete", "forget"),
        ("edit", "supersede"), ("help", "--help"), ("version", "--version"), ("dump", "export"), ("load", "import"),
        ("upgrade", "migrate"), ("rename", "projects rename"), ("memories", "list"), ("count", "projects"),
    ],
)  # fmt: skip
def test_what_people_type_first_is_answered_with_the_right_command(
    typed: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed, "x"]) == ExitCode.MISUSED
    assert f"No such command {typed!r}. Did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("restart", "Did you mean 'down', then 'up'?"),
        *[(word, "Did you mean 'purge', which erases for good?") for word in ("reset", "clear", "clean")],
    ],
)
def test_a_word_that_means_more_or_worse_than_a_command_is_answered_with_that(
    typed: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([typed]) == ExitCode.MISUSED
    assert capsys.readouterr().err.rstrip().endswith(f"No such command {typed!r}. {sentence}")


def test_every_other_word_leads_to_a_command_and_is_none() -> None:
    named = {re.split(r"[ ,]", meant)[0] for meant in OTHER_WORDS.values()}
    assert named - {"--help", "--version"} <= COMMANDS.keys()
    assert not OTHER_WORDS.keys() & COMMANDS.keys()


def test_the_page_of_a_home_where_nothing_runs_is_answered_with_how_to_start_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ui"]) == ExitCode.NOT_RUNNING
    assert "Start it: engramq up --detach" in capsys.readouterr().err


class Pages:
    """A gateway that gives two pages of pairs; `before` is what was printed when each was asked for."""

    def __init__(self, printed: pytest.CaptureFixture[str]) -> None:
        self._printed = printed
        self.before: list[str] = []

    def call(self, tool: str, asked: dict[str, Any]) -> dict[str, Any]:
        assert tool == "list_contradictions"
        self.before.append(self._printed.readouterr().out)
        number = len(self.before)
        pair = {"later": f"m-{number}b", "here": "at 7", "earlier": f"m-{number}a", "said": "at 6"}
        assert asked.get("cursor") == (None if number == 1 else "next")
        return {"status": "success", "pairs": [pair, pair], "next_cursor": "next" if number == 1 else None}


def test_pairs_are_printed_while_more_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = Pages(capsys)

    @contextmanager
    def client(_namespace: str | None) -> Iterator[Pages]:
        yield pages

    monkeypatch.setattr(review, "open_client", client)
    assert main(["contradictions", "--limit", "3"]) == 0
    first = "m-1b  at 7\n  m-1a  at 6\n"
    assert pages.before == ["", first * 2]
    assert capsys.readouterr().out == "m-2b  at 7\n  m-2a  at 6\n"


def test_where_nothing_disagrees_that_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Nothing:
        def call(self, _tool: str, _asked: dict[str, Any]) -> dict[str, Any]:
            return {"status": "success", "pairs": [], "next_cursor": None}

    @contextmanager
    def client(_namespace: str | None) -> Iterator[Nothing]:
        yield Nothing()

    monkeypatch.setattr(review, "open_client", client)
    assert main(["contradictions"]) == 0
    assert capsys.readouterr() == ("", "No memories were seen to disagree.\n")
