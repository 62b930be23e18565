"""The systemd units, by systemd itself: nothing to complain about, and little that they could do."""

import re
import sys
from pathlib import Path

import pytest

from engramq.deploy.cli.service import service_of
from engramq.deploy.local.settings import PREFIX, SECRETS, SUFFIX
from tests.deploy.manifests.conftest import DEPLOY, of_system, run

pytestmark = pytest.mark.promise("OP-8")

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# systemd's own scale of exposure: 10.0 is a unit with all rights. Most services of Debian are above 9.
EXPOSED = 1.6


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units as an operator would have them, where engramq is installed: in this environment."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/engramq/bin/", f"{Path(sys.executable).parent}/")
        (tmp_path / unit.name.replace("@", "@recall")).write_text(text)
    return tmp_path


def test_there_is_a_unit_for_each_kind_of_process() -> None:
    assert [unit.name for unit in UNITS] == [
        "engramq-gateway.service",
        "engramq-migrate.service",
        "engramq-worker@.service",
    ]


def test_systemd_has_nothing_to_say_against_them(installed: Path) -> None:
    done = run([of_system("systemd-analyze"), "verify", *sorted(installed.iterdir())])
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "engramq" in line]
    assert (done.returncode, ours) == (0, [])


def test_systemd_has_nothing_to_say_against_the_unit_of_a_user(tmp_path: Path) -> None:
    """The one that `engramq service install` writes."""
    named = {"ENGRAMQ_HOME": f"{tmp_path}/my memory", "ENGRAMQ_PRINCIPAL": 'a "quoted" 100% \\ name'}
    unit = tmp_path / "engramq.service"
    unit.write_text(service_of("linux", named, tmp_path).text)
    around = ["env", f"XDG_RUNTIME_DIR={tmp_path}"]  # or it looks for a session
    done = run([*around, of_system("systemd-analyze"), "--user", "verify", unit])
    ours = [line for line in (done.stdout + done.stderr).splitlines() if "engramq" in line]
    assert (done.returncode, ours) == (0, [])


def test_each_unit_can_do_little(installed: Path) -> None:
    for unit in sorted(installed.iterdir()):
        done = run([of_system("systemd-analyze"), "security", "--offline=true", "--no-pager", unit])
        found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
        assert found is not None, done.stdout + done.stderr
        assert float(found[1]) <= EXPOSED, f"{unit.name}: {found[1]}"


def test_a_gateway_knows_nothing_that_leads_to_the_database_or_to_webhooks() -> None:
    text = (DEPLOY / "systemd" / "engramq-gateway.service").read_text(encoding="utf-8")
    unset = {word for line in re.findall(r"^UnsetEnvironment=(.+)$", text, re.M) for word in line.split()}
    wanted = set(SECRETS) - {f"{PREFIX}{name}" for name in ("REDIS_URL", "METRICS_TOKEN", "TOKEN")}
    assert unset == {*wanted, *(f"{name}{SUFFIX}" for name in wanted), "OPENAI_API_KEY"}


def test_the_operators_command_is_a_script_with_the_account_of_the_units() -> None:
    script = DEPLOY / "systemd" / "engramq-admin"
    assert script.stat().st_mode & 0o111
    assert run(["sh", "-n", script]).returncode == 0
    unit = (DEPLOY / "systemd" / "engramq-worker@.service").read_text(encoding="utf-8")
    for setting in re.findall(r"--property=(\S+=\S+)", script.read_text(encoding="utf-8")):
        assert setting in unit.splitlines(), setting
