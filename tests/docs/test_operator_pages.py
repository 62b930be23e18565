"""The pages for operators know every check and every alert, and the index every page."""

import json
import re
import subprocess
from html import unescape
from pathlib import Path

import pytest
import yaml

from engramq.deploy.cli import tour
from engramq.deploy.local.settings import SECRETS
from engramq.schemas.checks import CheckName
from tests.architecture.source import ROOT
from tools.session import COMMAND

DOCS = ROOT / "docs"


def headings(page: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", (DOCS / page).read_text(encoding="utf-8"), re.M)


def test_troubleshooting_tells_symptom_cause_and_mend_of_each_check_in_their_order() -> None:
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| .{20,} \| .{20,} \| .{20,} \|$", text, re.M)
    assert rows == [*CheckName]


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    rules = (ROOT / "deploy" / "observability").rglob("*.yaml")
    groups = [
        group for path in rules for group in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("groups", [])
    ]
    alerts = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    runbooks = {name.lower() for name in headings("operations.md", 3) if name.startswith("Engramq")}
    assert {rule["alert"].lower() for rule in alerts} == (runbooks if alerts else set())
    assert all(
        rule["annotations"]["runbook"].endswith(f"docs/operations.md#{rule['alert'].lower()}") for rule in alerts
    )


def test_the_index_names_every_page() -> None:
    linked = set(re.findall(r"\]\(([a-z0-9/-]+\.md)\)", (DOCS / "README.md").read_text(encoding="utf-8")))
    assert linked == {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"README.md"}


def lines_of(page: str, section: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [line for block in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()]


@pytest.mark.promise("OP-8")
def test_an_upgrade_installs_the_files_that_the_installation_did() -> None:
    """A unit of before knows nothing of what the new release needs or must not see."""
    installed = [line for line in lines_of("servers.md", "systemd") if "deploy/systemd/" in line]
    upgrade = lines_of("operations.md", "Upgrade")
    assert len(installed) == 2
    assert any("daemon-reload" in line for line in installed)
    assert [line for line in upgrade if line in installed] == installed
    assert upgrade.index(installed[-1]) < upgrade.index("systemctl start engramq-migrate")


@pytest.mark.promise("OP-8")
def test_passwords_that_a_store_was_made_with_are_kept_when_the_page_is_followed_again(tmp_path: Path) -> None:
    """PostgreSQL has those of the first start: others would lock the store out of it."""
    mine = tmp_path / ".env"
    mine.write_text("OWNER_PASSWORD=mine\n")
    shell = [*lines_of("servers.md", "Docker"), *lines_of("operations.md", "Upgrade")]
    making = [line for line in shell if re.search(r"\.env\b.*\)?$", line) and re.search(r"(^|\s)(cp|echo) ", line)]
    assert len(making) == 2
    (tmp_path / "compose.env.example").write_text("OWNER_PASSWORD=\n")
    for line in making:
        subprocess.run(["sh", "-c", line.removeprefix("cd deploy/docker && ")], cwd=tmp_path, check=True)
        assert mine.read_text() == "OWNER_PASSWORD=mine\n", line


@pytest.mark.promise("OP-8")
def test_an_upgrade_of_compose_in_another_folder_takes_passwords_and_settings_along(tmp_path: Path) -> None:
    [copying] = [line for line in lines_of("operations.md", "Upgrade") if "OLD/" in line]
    old, new = tmp_path / "new" / "OLD" / "deploy" / "docker", tmp_path / "new"
    old.mkdir(parents=True)
    (old / ".env").write_text("OWNER_PASSWORD=mine\n")
    subprocess.run(["sh", "-c", copying], cwd=new, check=True)
    assert sorted(each.name for each in new.iterdir()) == [".env", "OLD"]
    (old / "engramq.env").write_text("ENGRAMQ_LANES=50\n")
    subprocess.run(["sh", "-c", copying], cwd=new, check=True)
    assert [(new / name).read_text() for name in (".env", "engramq.env")] == [
        "OWNER_PASSWORD=mine\n",
        "ENGRAMQ_LANES=50\n",
    ]


@pytest.mark.promise("OP-8")
def test_the_page_names_the_secrets_that_stay_variables_of_the_chart() -> None:
    """Who reads that no secret is in an environment must not be wrong about one that the chart takes."""
    schema = json.loads((ROOT / "deploy" / "helm" / "engramq" / "values.schema.json").read_text(encoding="utf-8"))
    taken = set(re.findall(r"[A-Z_]{5,}", schema["properties"]["secretSettings"]["propertyNames"]["pattern"]))
    without_file = taken - {"ENGRAMQ_"} - set(SECRETS)
    [row] = re.findall(r"^\| `secretsAsFiles: true` \|.*$", (DOCS / "servers.md").read_text(encoding="utf-8"), re.M)
    assert without_file == {"OPENAI_API_KEY"}
    assert all(f"`{name}`" in row for name in without_file)
    assert "`ENGRAMQ_EMBEDDER_KEY`" in row
    assert "in no environment" not in row


@pytest.mark.promise("RC-13")
def test_the_recorded_session_is_of_the_demo_as_it_is_now() -> None:
    lines = [
        unescape(line) for line in re.findall(r"<text[^>]*>(.*)</text>", (DOCS / "session.svg").read_text("utf-8"))
    ]
    assert lines[0] == f"$ {COMMAND}"
    shown = " ".join(" ".join(lines).split())
    for said in (tour.MONDAY, tour.TUESDAY, tour.WEDNESDAY, tour.OF_DECISIONS):
        assert said in shown
    thursday = shown.partition("Thursday: ")[2].partition("It is not lost")[0]
    assert f"- {tour.WEDNESDAY}" in thursday
    assert tour.MONDAY not in thursday
