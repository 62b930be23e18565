"""The commands of the pages for operators, as far as they go without a cluster: nothing is named that is not there."""

import base64
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from engramq.schemas.vocabulary import WorkerKind
from tests.architecture.source import ROOT
from tests.deploy.manifests.conftest import CHART, DEPLOY, Object, objects, run, tool
from tests.deploy.manifests.test_chart import secrets

pytestmark = pytest.mark.promise("OP-8")

SERVERS = (ROOT / "docs" / "servers.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def commands(page: str, section: str = "") -> list[str]:
    """Return the lines of the code blocks of a page, or of a section of it."""
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0] if section else page
    blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


def words(section: str, program: str) -> Iterator[list[str]]:
    """Yield the words of each command of a program, without its name and the namespace."""
    for line in commands(SERVERS, section):
        for part in line.split(" && "):
            found = shlex.split(part)
            if found[0] == program:
                yield found[3:] if found[1] == "--namespace" else found[1:]


@pytest.fixture(scope="module")
def installed() -> list[Object]:
    """The chart as the page installs it."""
    [install] = words("Kubernetes", "helm")
    assert install[:3] == ["install", "engramq", str(CHART.relative_to(ROOT))]
    done = run([tool("helm"), "template", "engramq", CHART, *(word for word in install[3:] if word != "--wait")])
    assert done.returncode == 0, done.stderr
    return objects(done.stdout)


def test_the_secrets_of_the_page_are_those_of_the_chart(installed: list[Object]) -> None:
    made: dict[str, list[str]] = {}
    for command in words("Kubernetes", "kubectl"):
        if command[:2] != ["create", "secret"]:
            continue
        done = run([tool("kubectl"), *command, "--dry-run=client", "--output=json"])
        assert done.returncode == 0, done.stderr
        secret = json.loads(done.stdout)
        made[secret["metadata"]["name"]] = list(secret["data"])
        [(_, value)] = secret["data"].items()
        assert re.match(rb"(postgresql|redis)://", base64.b64decode(value))
    templates = [each["spec"]["template"] for each in installed if each["kind"] in ("Deployment", "Job")]
    assert {name for template in templates for name in secrets(template).values()} == set(made)
    keys = {each["key"] for each in references(templates)}
    assert {key for names in made.values() for key in names} == keys


def references(templates: list[Object]) -> Iterator[Object]:
    """Yield every reference to the key of a secret."""
    for template in templates:
        for variable in template["spec"]["containers"][0]["env"]:
            if found := variable.get("valueFrom", {}).get("secretKeyRef"):
                yield found


def test_what_the_pages_call_is_installed(installed: list[Object]) -> None:
    there = {f"{each['kind'].lower()}/{each['metadata']['name']}" for each in installed}
    named = set(re.findall(r"\b(?:deployment|service)/[a-z-]+", "\n".join(commands(SERVERS)) + OPERATIONS))
    assert "service/engramq" in named
    assert named <= there
    [service] = [each for each in installed if each["kind"] == "Service"]
    [forward] = [command for command in words("Kubernetes", "kubectl") if command[0] == "port-forward"]
    assert forward[2].partition(":")[2] == str(service["spec"]["ports"][0]["port"])


def test_the_image_of_the_page_is_the_one_that_pods_run(installed: list[Object]) -> None:
    build, push = words("Kubernetes", "docker")
    images = {
        each["spec"]["template"]["spec"]["containers"][0]["image"]
        for each in installed
        if each["kind"] in ("Deployment", "Job")
    }
    assert images == {build[build.index("-t") + 1]} == {push[-1]}
    assert (ROOT / build[build.index("-f") + 1]).is_file()


def test_compose_is_called_by_services_that_it_has() -> None:
    services = yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text(encoding="utf-8"))["services"]
    for line in [*commands(SERVERS, "Docker"), *re.findall(r"`(docker compose [^`]+)`", SERVERS + OPERATIONS)]:
        if line.startswith("docker compose run"):
            called = next(word for word in line.split()[3:] if not word.startswith("--"))
            assert called in services, line


def test_the_passwords_of_the_page_are_those_of_compose(tmp_path: Path) -> None:
    [line] = [line for line in commands(SERVERS, "Docker") if "> .env" in line]
    subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
    made = dict(each.split("=") for each in (tmp_path / ".env").read_text().splitlines())
    example = (DEPLOY / "docker" / "compose.env.example").read_text()
    assert list(made) == re.findall(r"^(\w+)=$", example, re.M)
    assert all(re.fullmatch("[0-9a-f]{48}", value) for value in made.values())
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


def test_the_units_of_the_page_are_there_and_serve_every_kind() -> None:
    for page in (SERVERS, OPERATIONS):
        lines = "\n".join(commands(page))
        [kinds] = set(re.findall(r"for kind in (.+); do systemctl", lines))
        assert sorted(kinds.split()) == sorted(WorkerKind)
        for name in re.findall(r"systemctl [\w -]+?(engramq-\w+@?)", lines):
            assert (DEPLOY / "systemd" / f"{name}.service").is_file(), name
    for file in re.findall(r"\bdeploy/[\w./-]+\w", "\n".join(commands(SERVERS, "systemd"))):
        assert (ROOT / file).exists(), file
