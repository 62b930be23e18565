"""`engramq demo` as a process: through at once without a terminal, with Enter on one, and nothing is left of it."""

import os
import pty
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from bench.common import ENGRAMQ
from engramq.deploy.local.embedded import process
from engramq.schemas.command_line import ExitCode

pytestmark = [pytest.mark.promise("RC-13"), pytest.mark.timeout(300)]

BOUND_S = 200.0  # 20 s are for a machine that does nothing else


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where temporary homes are this test's own, and the user's home must not be touched."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    place = Path(os.environ.get("TMPDIR", "/tmp")) / f"eqd-{os.getpid()}"
    place.mkdir(exist_ok=True)
    place.chmod(0o711)
    return mine | {"TMPDIR": str(place), "ENGRAMQ_HOME": str(tmp_path / "own"), "ENGRAMQ_NAMESPACE": "of-the-user"}


def homes(environment: dict[str, str]) -> list[Path]:
    return list(Path(environment["TMPDIR"]).iterdir())


def processes_of(environment: dict[str, str]) -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            found.append(each.read_bytes().replace(b"\0", b" ").decode())
    return [line for line in found if environment["TMPDIR"] in line]


def part(told: str, heading: str) -> str:
    return told.partition(f"\n{heading}")[2].partition("\n\n")[0]


def test_without_a_terminal_it_shows_the_tour_and_leaves_nothing(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [ENGRAMQ, "demo"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=BOUND_S,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    old, new = "nothing goes out on a Friday", "any weekday, Fridays too"
    assert old in part(done.stdout, "Tuesday")
    thursday = part(done.stdout, "Thursday")
    assert new in thursday
    assert old not in thursday
    assert f"superseded: We deploy the shop on Tuesdays; {old}" in part(done.stdout, "It is not lost")
    decisions = part(done.stdout, "The same with")
    assert decisions.count("- There is one database.") == 2
    assert decisions.count("- superseded: A tenant lives in one database") == 1
    assert homes(environment) == []
    assert process.wait_until(lambda: processes_of(environment) == [], 20.0)
    assert not Path(environment["ENGRAMQ_HOME"]).exists()


def test_nothing_is_left_where_its_reader_goes_away(environment: dict[str, str]) -> None:
    """`engramq demo | head -1`."""
    demo = subprocess.Popen([ENGRAMQ, "demo"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert demo.stdout is not None
    assert b"thrown away" in demo.stdout.readline()
    demo.stdout.close()
    assert demo.wait(BOUND_S) != 0
    assert homes(environment) == []
    assert process.wait_until(lambda: processes_of(environment) == [], 20.0)


def test_on_a_terminal_enter_goes_on_and_ctrl_c_ends_it(environment: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    demo = subprocess.Popen([ENGRAMQ, "demo"], env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        assert b"Monday: " not in _read_until(ours, b"Enter goes on.")
        os.write(ours, b"\n")
        shown = _read_until(ours, b"Enter goes on.")
        assert b"Monday: " in shown
        assert b"Tuesday: " not in shown
        # A signal just before the read of the terminal does not end it: people press Ctrl-C once more, too.
        told = b""
        while b"Stopping ..." not in told:
            demo.send_signal(signal.SIGINT)
            told += os.read(ours, 4096) if select.select([ours], [], [], 1.0)[0] else b""
        if b"removed the home" not in told:
            _read_until(ours, b"removed the home")
        assert demo.wait(BOUND_S) == ExitCode.INTERRUPTED
    finally:
        demo.send_signal(signal.SIGTERM)  # which ends all that it has started
        demo.wait(BOUND_S)
        os.close(ours)
    assert homes(environment) == []


def _read_until(terminal: int, wanted: bytes) -> bytes:
    told = b""
    while wanted not in told:
        told += os.read(terminal, 4096)  # its end raises; pytest's timeout bounds the wait
    return told
