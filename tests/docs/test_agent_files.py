"""What agents and hosts read: the plugin, its skill, the marketplace, the bundle, llms.txt."""

import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from engramq.deploy.cli import main
from engramq.deploy.cli.rules import RULES
from engramq.schemas.settings import OTHERS, SETTINGS
from tests.architecture.source import ROOT
from tools import agent_files, bundle
from tools.agent_files import BUNDLE, DOCS, MARKETPLACE, PLUGIN
from tools.release.version import VERSION

pytestmark = pytest.mark.promise("RC-19")


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_each_file_is_what_the_command_makes() -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in agent_files.texts().items() if path.read_text() != text]
    assert stale == [], "run: make generate"


def test_the_plugin_has_the_hooks_that_install_writes_and_the_server_of_stdio(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ENGRAMQ_HOME", raising=False)
    assert main(["hooks", "install", "claude-code", "--print"]) == 0
    installed = json.loads(capsys.readouterr().out)["hooks"]
    brought = read(PLUGIN / "hooks" / "hooks.json")["hooks"]
    for hook in (hook for groups in installed.values() for group in groups for hook in group["hooks"]):
        hook["command"] = hook["command"].removeprefix(f"{Path(hook['command'].split()[0]).parent}/")
    assert brought == installed, "matcher and timeout too"
    assert read(PLUGIN / ".mcp.json") == {"mcpServers": {"engramq": {"command": "engramq", "args": ["stdio"]}}}


def test_the_marketplace_leads_to_the_plugin_of_this_version() -> None:
    [listed] = read(MARKETPLACE)["plugins"]
    plugin = read(ROOT / listed["source"] / ".claude-plugin" / "plugin.json")
    assert (plugin["name"], plugin["version"]) == (listed["name"], VERSION)
    assert plugin["description"] == read(ROOT / "server.json")["description"]


def test_the_skill_has_a_head_that_agents_read_and_the_rules_themselves() -> None:
    folder = PLUGIN / "skills" / "memory"
    _, head, body = (folder / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(head)
    assert about.keys() == {"name", "description"}
    assert about["name"] == folder.name
    assert len(about["description"]) <= 1024  # characters, the most that the form of skills allows
    assert RULES in body


def test_the_manifest_names_what_the_bundle_holds_and_settings_that_there_are() -> None:
    manifest = read(BUNDLE / "manifest.json")
    assert {"manifest_version", "name", "version", "description", "author", "server"} <= manifest.keys()
    assert manifest["version"] == VERSION
    server = manifest["server"]
    assert server["entry_point"] in bundle.FILES
    assert server["mcp_config"]["args"][-1] == server["entry_point"]
    known = {setting.variable for setting in SETTINGS} | set(OTHERS)
    assert server["mcp_config"]["env"].keys() <= known
    named = set(re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(server)))
    assert named == manifest["user_config"].keys()
    assert manifest["compatibility"]["platforms"] == ["darwin", "linux"], "Windows itself is refused"


def test_a_bundle_brings_the_wheel_that_it_names_and_is_the_same_each_time(tmp_path: Path) -> None:
    wheel = tmp_path / "engramq-0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    made = bundle.make(wheel, tmp_path)
    before = made.read_bytes()
    assert bundle.make(wheel, tmp_path).read_bytes() == before
    with zipfile.ZipFile(made) as opened:
        assert set(opened.namelist()) == {*bundle.FILES, wheel.name}
        project = tomllib.loads(opened.read("pyproject.toml").decode())
    assert project["project"]["dependencies"] == ["engramq"]
    assert project["tool"]["uv"]["sources"] == {"engramq": {"path": wheel.name}}


def test_the_index_for_models_names_every_page_once() -> None:
    pages = re.findall(
        r"^- \[[^\]]+\]\(([^)]+)\): .{3,}", (DOCS / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(set(pages)) == len(pages)
    assert all((DOCS / page).exists() for page in pages)
    assert set(pages) >= {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
