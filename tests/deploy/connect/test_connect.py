"""`engramq connect` on configurations made after each client's documentation, as people type it."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.cli import main
from engramq.deploy.connect.catalogue import CLIENTS, Client, UserPlaces
from engramq.deploy.connect.jsonc import read

pytestmark = pytest.mark.promise("RC-4")

SAMPLES = Path(__file__).with_name("samples")
ENGRAMQ = str(Path(sys.executable).parent / "engramq")
WITH_PROJECTS = [name for name, client in CLIENTS.items() if client.project is not None]


class User:
    """Somebody with a home whose name has a space, and a project, who types commands there."""

    def __init__(self, folder: Path, shell: pytest.MonkeyPatch, terminal: pytest.CaptureFixture[str]) -> None:
        self._shell, self._terminal = shell, terminal
        self.home = folder / "ada lovelace"
        self.project = self.home / "my project"
        self.project.mkdir(parents=True)
        for name in (name for name in os.environ if name.startswith(("ENGRAMQ_", "XDG_", "CLAUDE_", "CODEX_"))):
            shell.delenv(name)
        shell.setenv("HOME", str(self.home))
        shell.chdir(self.project)

    def file(self, client: Client, *, project: bool = False) -> Path:
        where = client.project if project else client.user
        assert where is not None
        return where(UserPlaces(self.home, {}, self.project))

    def has(self, client: Client) -> tuple[Path, str]:
        """Give the user the sample of a client's configuration, at its place."""
        (sample,) = SAMPLES.glob(f"{client.name}.*")
        path = self.file(client)
        if sample.suffix == ".jsonc":
            path = path.with_suffix(".jsonc")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sample.read_text())
        path.chmod(0o640)
        return path, sample.read_text()

    def types(self, *arguments: str, code: int = 0, **variables: str) -> tuple[str, str]:
        """Return what a command prints on standard output and error."""
        with self._shell.context() as shell:
            for name, value in variables.items():
                shell.setenv(name, value)
            assert main(list(arguments)) == code
        shown = self._terminal.readouterr()
        return shown.out, shown.err


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[User]:
    user = User(tmp_path, monkeypatch, capsys)
    yield user
    assert not list(user.home.rglob(".*.engramq")), "a file that was being written is left"


def loaded(path: Path) -> dict[str, Any]:
    text = path.read_text()
    found: dict[str, Any] = tomllib.loads(text) if path.suffix == ".toml" else read(text)
    return found


def entry(path: Path, client: Client) -> Any:
    found: Any = loaded(path)
    for name in client.path:
        found = found.get(name, {})
    return found


def backups(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{path.name}.*.engramq-backup"))


def words_of(found: dict[str, Any]) -> list[str]:
    command = found["command"]
    return list(command) if isinstance(command, list) else [command, *found["args"]]


def says(client: Client) -> list[str]:
    """Return what the entry for a user says of the folder that a client works in, where it starts in another one."""
    return ["--folder", "${workspaceFolder}"] if client.name == "cursor" else []


def test_an_entry_names_who_stores_where_the_environment_does(user: User) -> None:
    user.types("connect", "cursor", ENGRAMQ_PRINCIPAL="ada")
    entry = json.loads(user.file(CLIENTS["cursor"]).read_text())["mcpServers"]["engramq"]
    assert entry["env"] == {"ENGRAMQ_PRINCIPAL": "ada"}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_the_entry_comes_in_once_and_out_again_and_everything_else_stays(user: User, client: Client) -> None:
    path, before = user.has(client)
    was = tomllib.loads(before) if client.is_toml else read(before)
    out, _ = user.types("connect", client.name)
    assert str(path) in out
    assert words_of(entry(path, client)) == [ENGRAMQ, "stdio", *says(client)]
    rest, after = loaded(path), path.read_text()
    del rest[client.path[0]]["engramq"]
    assert rest == was
    lines = [line.rstrip(",") for line in before.splitlines() if len(line.strip()) > 2]
    if len(lines) > 2:  # cursor's sample is one line
        assert [line for line in lines if line not in after and not line.endswith("{}")] == []

    assert "already" in user.types("connect", client.name)[0]
    assert path.read_text() == after
    (backup,) = backups(path)
    assert backup.read_text() == before

    user.types("connect", client.name, "--remove")
    assert loaded(path) == {key: value for key, value in was.items() if value != {}}
    assert "is not in" in user.types("connect", client.name, "--remove")[0]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_without_a_file_gets_one_that_nobody_else_reads(user: User, name: str) -> None:
    client = CLIENTS[name]
    user.types("connect", name)
    path = user.file(client)
    assert words_of(entry(path, client))[1:] == ["stdio", *says(client)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert backups(path) == []
    assert "is out of" in user.types("connect", name, "--remove")[0]
    assert list(path.parent.glob(f"*{path.name}*")) == [], "a file that connect made is left"


def test_an_empty_file_of_the_user_stays(user: User) -> None:
    path = user.file(CLIENTS["cursor"])
    path.parent.mkdir()
    path.write_text("{}\n")
    user.types("connect", "cursor")
    user.types("connect", "cursor", "--remove")
    assert json.loads(path.read_text()) == {}


@pytest.mark.parametrize("name", WITH_PROJECTS)
def test_a_projects_file_is_the_projects(user: User, name: str) -> None:
    user.types("connect", name, "--project")
    path = user.file(CLIENTS[name], project=True)
    assert path.is_relative_to(user.project)
    folder = {"cursor": "${workspaceFolder}", "vscode": "${workspaceFolder}", "codex": str(user.project)}.get(name)
    assert words_of(entry(path, CLIENTS[name]))[1:] == ["stdio", *(["--folder", folder] if folder else [])]
    assert not user.file(CLIENTS[name]).exists()


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("connect", "claude-code", "--project"), ".mcp.json"),
        (("connect", "cursor", "--project"), ".cursor/mcp.json"),
        (("hooks", "install", "claude-code", "--project"), ".claude/settings.local.json"),
        (("rules", "AGENTS.md"), "AGENTS.md"),
    ],
)
def test_nothing_is_written_through_a_link_out_of_the_project(user: User, words: tuple[str, ...], name: str) -> None:
    """Security finding 16."""
    elsewhere, link = user.home / "elsewhere", user.project / name
    elsewhere.write_text("{}")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(elsewhere)
    assert f"leads to {elsewhere}" in user.types(*words, code=1)[1]
    assert (elsewhere.read_text(), link.is_symlink()) == ("{}", True)
    link.unlink()
    link.symlink_to(user.project / "inside.json")
    user.types(*words)
    assert (user.project / "inside.json").stat().st_size > 10


def test_a_client_that_knows_no_projects_says_so(user: User) -> None:
    assert "Leave out --project" in user.types("connect", "windsurf", "--project", code=1)[1]


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        *((name, '{"mcpServers": {') for name in CLIENTS),
        ("cursor", "\x00\xff"),
        ("vscode", "[[["),
        ("opencode", '{"a": 1} and more'),
        ("codex", "[a\n"),
    ],
)
def test_what_the_client_could_not_read_is_left_alone(user: User, name: str, broken: str) -> None:
    path = user.file(CLIENTS[name])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(broken.encode("latin-1"))
    said = user.types("connect", name, code=1)[1]
    assert "Nothing was written" in said
    assert str(path) in said
    assert "Traceback" not in said
    assert path.read_bytes() == broken.encode("latin-1")
    assert backups(path) == []


def test_an_entry_where_servers_are_no_object_is_refused(user: User) -> None:
    path = user.file(CLIENTS["cursor"])
    path.parent.mkdir(parents=True)
    path.write_text('{"mcpServers": []}')
    assert "mcpServers is no object" in user.types("connect", "cursor", code=1)[1]


def test_mode_link_and_byte_order_mark_stay(user: User) -> None:
    client = CLIENTS["claude-desktop"]
    path, before = user.has(client)
    real = user.home / "dotfiles.json"
    real.write_text("\ufeff" + before)
    real.chmod(0o644)
    path.unlink()
    path.symlink_to(real)
    user.types("connect", client.name)
    assert path.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o644
    assert real.read_text().startswith("\ufeff{")
    assert '"engramq"' in real.read_text()


def test_a_file_that_is_read_only_is_left_alone(user: User) -> None:
    """Finding D15: it was replaced without a word, for root too."""
    path, before = user.has(CLIENTS["cursor"])
    path.chmod(0o444)
    assert "is read-only" in user.types("connect", "cursor", code=1)[1]
    assert path.read_text() == before


@pytest.mark.parametrize("command", [("connect",), ("hooks", "install")])
@pytest.mark.parametrize(
    ("name", "text", "is_read"),
    [
        ("claude-code", '{"a": 1} // mine', False),
        ("claude-code", '{"a": 1,}', False),
        ("gemini", '{"a": [1, 2,]}', False),
        ("gemini", '{"a": [1, 2]} // mine', True),
    ],
)
def test_what_its_client_could_not_read_is_refused(
    user: User, command: tuple[str, ...], name: str, text: str, is_read: bool
) -> None:
    """Finding D15: Claude Code called its file corrupted, and Gemini CLI refused to start."""
    of_hooks = user.home / (".claude" if name == "claude-code" else ".gemini") / "settings.json"
    path = user.file(CLIENTS[name]) if command == ("connect",) else of_hooks
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    _, errors = user.types(*command, name, code=0 if is_read else 1)
    assert ("Nothing was written" in errors, path.read_text() == text) == (not is_read, not is_read)


def test_a_folder_that_cannot_be_written_is_said_and_nothing_left(user: User) -> None:
    path = user.file(CLIENTS["cursor"])
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.write_text("a file where the folder should be")
    assert "cannot be" in user.types("connect", "cursor", code=1)[1]


@pytest.mark.parametrize("name", CLIENTS)
def test_print_writes_nothing_and_prints_what_the_client_takes(user: User, name: str) -> None:
    client = CLIENTS[name]
    shown = user.types("connect", name, "--print")
    found: Any = tomllib.loads(shown[0]) if client.is_toml else json.loads(shown[0])
    for key in client.path:
        found = found[key]
    assert words_of(found) == [ENGRAMQ, "stdio", *says(client)]
    assert str(user.file(client)) in shown[1]
    assert not user.file(client).exists()


def test_what_says_whom_a_client_serves_goes_along(user: User) -> None:
    told = user.types(
        "connect", "cursor", "--print", ENGRAMQ_HOME="here", ENGRAMQ_NAMESPACE="acme", ENGRAMQ_EMBEDDER_KEY="k"
    )
    variables = json.loads(told[0])["mcpServers"]["engramq"]["env"]
    assert variables == {"ENGRAMQ_HOME": str(user.project / "here"), "ENGRAMQ_NAMESPACE": "acme"}


def test_an_older_entry_is_replaced(user: User) -> None:
    path = user.file(CLIENTS["cursor"])
    path.parent.mkdir()
    path.write_text('{"mcpServers": {"engramq": {"command": "/gone/engramq", "args": ["stdio"]}, "other": {}}}')
    user.types("connect", "cursor")
    assert entry(path, CLIENTS["cursor"])["command"] == ENGRAMQ
    assert list(loaded(path)["mcpServers"]) == ["engramq", "other"]


def test_the_list_says_who_is_connected(user: User) -> None:
    user.types("connect", "codex")
    user.has(CLIENTS["gemini"])
    broken = user.file(CLIENTS["cursor"])
    broken.parent.mkdir()
    broken.write_text("{")
    lines = {line.split()[0]: line for line in user.types("connect", "--list")[0].splitlines()}
    assert set(lines) == set(CLIENTS)
    states = {"codex": " connected", "gemini": "not connected", "cursor": "unreadable", "windsurf": "no file"}
    assert {name: state in lines[name] for name, state in states.items()} == dict.fromkeys(states, True)


def test_the_entry_starts_engramq(user: User) -> None:
    user.types("connect", "claude-code")
    words = words_of(entry(user.file(CLIENTS["claude-code"]), CLIENTS["claude-code"]))
    ended = subprocess.run([*words[:-1], "--version"], env={"PATH": ""}, capture_output=True, text=True, check=True)
    assert "engramq" in ended.stdout


@pytest.mark.parametrize(
    ("system", "name", "where"),
    [
        ("darwin", "claude-desktop", "Library/Application Support/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("linux", "vscode", ".config/Code/User/mcp.json"),
        ("win32", "vscode", "AppData/Roaming/Code/User/mcp.json"),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("darwin", "opencode", ".config/opencode/opencode.json"),
        ("linux", "claude-code", ".claude.json"),
    ],
)
def test_each_system_has_its_places(tmp_path: Path, system: str, name: str, where: str) -> None:
    assert CLIENTS[name].user(UserPlaces(tmp_path, {}, tmp_path, system)) == tmp_path / where


@pytest.mark.parametrize(
    ("variable", "name", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("XDG_CONFIG_HOME", "opencode", "opencode/opencode.json"),
    ],
)
def test_a_clients_own_variable_moves_its_file(tmp_path: Path, variable: str, name: str, file: str) -> None:
    at = UserPlaces(tmp_path / "home", {variable: str(tmp_path / "elsewhere")}, tmp_path)
    assert CLIENTS[name].user(at) == tmp_path / "elsewhere" / file
