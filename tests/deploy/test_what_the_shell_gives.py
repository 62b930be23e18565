"""Streams, folders and settings as a shell may give them: full, closed, not to be entered. Each is said in words."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from engramq.deploy.local import settings
from engramq.deploy.local.home import Home
from engramq.deploy.local.supervisor.stack import default_stack
from engramq.schemas.settings import SETTINGS
from tests.deploy.helpers import BOUND_S

ENGRAMQ = (sys.executable, "-P", "-m", "engramq")
# Root may enter every folder; without these two rights of the kernel (Linux) it may enter what its bits say.
AS_ITS_BITS_SAY = """
import ctypes, os, sys
if os.geteuid() == 0:
    PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
    for right in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, right, 0, 0, 0) == 0
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    return mine | {"ENGRAMQ_HOME": str(tmp_path / "home")}


def shell(command: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    script = command.replace("engramq", " ".join(ENGRAMQ), 1)
    return subprocess.run(
        ["sh", "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=BOUND_S
    )


@pytest.mark.parametrize("command", ["--help", "status", "doctor", "list --help"])
def test_a_full_disk_behind_the_output_is_said_in_a_line(command: str, environment: dict[str, str]) -> None:
    done = shell(f"engramq {command} >/dev/full", environment)
    assert (done.returncode, done.stderr) == (
        1,
        "engramq: What it prints cannot be written: No space left on device. Make room, then run it again.\n",
    )


MANY_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)); os.open('/', os.O_RDONLY)"
# A command that prints, and then has to do with something of its own.
FAILING = """
import os, sys, types
import click
from engramq.deploy.cli.root import COMMANDS, Lazy, run

@click.command()
def command():
    click.echo("printed")
    {}

sys.modules["engramq.deploy.cli.failing"] = module = types.ModuleType("failing")
module.command = command
COMMANDS["failing"] = Lazy("failing", "")
sys.exit(run(["failing"]))
"""


def failing(body: str, environment: dict[str, str], **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-c", FAILING.format(body)],
        env=environment, stderr=subprocess.PIPE, text=True, check=False, timeout=BOUND_S, **options,
    )  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that fails of EIO")
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("os.read(os.open('/proc/self/mem', os.O_RDONLY), 1)", "A file that it needs cannot be read or written"),
        ("os.write(os.open('/dev/full', os.O_WRONLY), b'x')", "A file that it needs cannot be written: No space"),
        ("raise ExceptionGroup('of tasks', [OSError(28, 'No space left', 'x')])", "x cannot be written: No space left"),
        ("raise OSError(30, 'Read-only file system', '/x')", "/x cannot be written: Read-only file system. Mount it"),
        (MANY_FILES, "cannot be opened: Too many open files. Let it open more files: `ulimit -n 4096`."),
    ],
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_fails_elsewhere_is_not_taken_for_the_output(
    body: str, problem: str, unbuffered: str, environment: dict[str, str]
) -> None:
    done = failing(body, environment | {"PYTHONUNBUFFERED": unbuffered}, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout) == (1, "printed\n")
    assert done.stderr.startswith("engramq: ")
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_a_defect_of_ours_is_no_matter_of_the_disk(environment: dict[str, str]) -> None:
    done = failing("r, w = os.pipe(); os.close(r); os.write(w, b'x')", environment, stdout=subprocess.PIPE)
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("BrokenPipeError: [Errno 32] Broken pipe\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("size", [1, 100_000])
def test_output_that_cannot_be_written_is_said_however_it_is_buffered(
    size: int, unbuffered: str, environment: dict[str, str]
) -> None:
    given = environment | {"PYTHONUNBUFFERED": unbuffered}
    body = f"sys.stdout.write('x' * {size})"
    with Path("/dev/full").open("wb") as full:
        done = failing(body, given, stdout=full)
    assert (done.returncode, done.stderr) == (
        1,
        "engramq: What it prints cannot be written: No space left on device. Make room, then run it again.\n",
    )
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        done = failing(body, given, stdout=closed)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_named_file_on_a_full_disk_is_said_in_a_line(environment: dict[str, str]) -> None:
    body = "raise OSError(28, os.strerror(28), 'the/file')"
    done = failing(body, environment, stdout=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (
        1,
        "engramq: the/file cannot be written: No space left on device. Make room, then run it again.\n",
    )


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("store", 2, "Error: Standard input is closed.\n"),
        ("store -", 2, "Error: Standard input is closed.\n"),
        ("hook claude-code", 0, "engramq hook: the event is no JSON.\n"),
    ],
)
def test_a_closed_standard_input_is_said(command: str, code: int, told: str, environment: dict[str, str]) -> None:
    done = shell(f"engramq {command} <&-", environment)
    assert (done.returncode, done.stderr.endswith(told), "Traceback" in done.stderr) == (code, True, False), done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "NAMESPACE") for command in ("list", "search x", "store x", "projects", "stdio")),
        *(("list", "PRINCIPAL"), ("list", "PROJECT")),
    ],
)
def test_a_variable_that_is_no_text_is_said_before_anything_starts(
    command: str, name: str, environment: dict[str, str]
) -> None:
    given = {os.fsencode(each): os.fsencode(value) for each, value in environment.items()}
    done = subprocess.run(
        [*ENGRAMQ, *command.split()],
        env=given | {f"ENGRAMQ_{name}".encode(): b"team\xff"}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=BOUND_S,
    )  # fmt: skip
    told = f": ENGRAMQ_{name}: 'team\\udcff' cannot be used: must be a text in UTF-8.\n"
    assert (done.returncode, done.stderr.endswith(told), done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert not Path(environment["ENGRAMQ_HOME"]).exists()


def test_closed_streams_become_no_sockets(environment: dict[str, str]) -> None:
    done = shell("engramq status <&- >&- 2>&-", environment)
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_ctrl_c_while_modules_are_loaded_ends_without_a_trace(environment: dict[str, str]) -> None:
    """The command's module sends the signal while it is loaded: as early as anybody can press it."""
    program = (
        "import os, signal, sys\n"
        "class Early:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'engramq.deploy.cli.root': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Early())\n"
        "from engramq.deploy.cli import main\n"
        "sys.exit(main(['status']))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, check=False, timeout=BOUND_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, b"", b"")


@pytest.mark.parametrize("command", ["status", "doctor", "down", "store hello", "backup saved", "stdio", "up"])
@pytest.mark.parametrize("closed", ["the home", "its folder"])
def test_a_home_that_cannot_be_entered_is_said(
    command: str, closed: str, environment: dict[str, str], tmp_path: Path
) -> None:
    # Short, so that its sockets are looked for in it.
    above = Path(tempfile.mkdtemp(prefix="eq-"))
    home = above / "folder" / "home"
    home.mkdir(parents=True)
    folder = home if closed == "the home" else home.parent
    folder.chmod(0)
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_ITS_BITS_SAY, *ENGRAMQ[1:], *command.split()],
            env=environment | {"ENGRAMQ_HOME": str(home)}, cwd=tmp_path, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=BOUND_S,
        )  # fmt: skip
    finally:
        folder.chmod(0o700)
        shutil.rmtree(above)
    told = done.stdout + done.stderr
    assert done.returncode == 1
    assert "Traceback" not in told
    assert str(home) in told
    assert "Permission denied" in told
    assert "chmod u+rwx" in told or "Set ENGRAMQ_HOME to a folder of your own." in told


@pytest.mark.parametrize(
    ("command", "code"), [("status", 3), ("doctor", 1), ("down", 1), ("up", 1), ("store hello", 1)]
)
def test_a_home_that_is_a_file_is_said(command: str, code: int, environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    done = shell(f"engramq {command} </dev/null", environment)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert code == 3 or "is not a folder" in done.stdout + done.stderr or "File exists" in done.stderr


OF_HTTP = ("auth", "host", "port", "public_url", "trusted_proxies", "jwt")
EVERYTHING = {setting.variable: f"value of {setting.field}" for setting in SETTINGS} | {settings.PORT: "0"}


def test_the_settings_of_http_are_handed_to_its_gateway() -> None:
    wanted = {setting.variable for setting in SETTINGS if setting.field.startswith(OF_HTTP)}
    assert set(settings.for_http(EVERYTHING)) == wanted | settings.PERSONAL
    assert not wanted & set(settings.stack_settings(EVERYTHING))


def test_other_processes_of_the_stack_do_not_get_them(home: Home) -> None:
    environment = {**EVERYTHING, settings.HOST: "127.0.0.1", settings.DATABASE_URL: "", settings.REDIS_URL: ""}
    stack = default_stack(home, environment)
    started = {service.name: service.launch().environment for service in stack.services if service.name == "gateway"}
    assert not settings.FOR_HTTP & set(started["gateway"])
