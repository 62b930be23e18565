"""A working day with real programs: they connect, are told what is known, store what they are asked to, and are kept.

`make test-agents` installs Claude Code, Codex, Gemini CLI and OpenCode; their models are played by `model.py`. Cursor's
program is on no registry.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents.model import ANSWER, Model, running_model
from tests.architecture.source import ROOT

INSTALLED = ROOT / ".environments" / "agents" / "node_modules"
BOUND_S = 90.0
KNOWN = "Deploys of rover happen on Tuesdays, after the smoke test"
ELSEWHERE = "The lighthouse keeper drinks tea at noon"
LEARNED = "the staging host of rover listens on port 8443"
SECRET = "sk-ant-api03-" + "Zx81" * 22 + "-AAAA"
BEGIN = {"claude-code": ("claude",), "codex": ("codex", "exec"), "gemini": ("gemini",)}
# OpenCode, which has no hooks of ours, is run by its package for one machine: not every registry has those for all.
OPENCODE = INSTALLED / "opencode-linux-x64" / "bin" / "opencode"
IS_ITS_MACHINE = (sys.platform, platform.machine()) == ("linux", "x86_64")
EVERY = BEGIN | ({"opencode": (str(OPENCODE), "run")} if IS_ITS_MACHINE else {})
RESUME = {
    "claude-code": ("--continue",),
    "codex": ("resume", "--last"),
    "gemini": ("--resume", "latest"),
    "opencode": ("--continue",),
}

pytestmark = pytest.mark.timeout(600)


@dataclass
class Desk:
    """A home of a person, their repository, and a stack that is up or down."""

    home: Path
    model: Model
    stack: "subprocess.Popen[str] | None" = None

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
        path = os.pathsep.join((str(Path(sys.executable).parent), str(INSTALLED / ".bin"), os.environ["PATH"]))
        return kept | {"HOME": str(self.home), "ENGRAMQ_HOME": str(self.home / "engramq"), "ENGRAMQ_PORT": "0"} | {
            "PATH": path, "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true", "ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "none",
            "PWD": str(self.repository), "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "FAKE_KEY": "none",
        }  # fmt: skip

    @property
    def repository(self) -> Path:
        return self.home / "work" / "rover"

    def run(self, *command: str, bound_s: float = BOUND_S) -> str:
        """Run a command in the repository and return what it printed; it must succeed."""
        done = subprocess.run(
            command, cwd=self.repository, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=bound_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def up(self) -> None:
        command = ("engramq", "up")
        self.stack = subprocess.Popen(
            command, cwd=self.home, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.stack.stdout is not None
        assert any(re.search(r"http://\S+/mcp", line) for line in self.stack.stdout), "the stack did not start"

    def down(self) -> None:
        if self.stack is not None:
            self.stack.terminate()
            self.stack.communicate(timeout=BOUND_S)
            self.stack = None

    def kept(self, *options: str) -> list[dict[str, Any]]:
        listed: dict[str, Any] = json.loads(self.run("engramq", "list", "--project", "*", "--json", *options))
        memories: list[dict[str, Any]] = listed["memories"]
        return memories

    def ask(self, program: str, prompt: str, *, resumed: bool = False) -> str:
        """Run a program once, without a terminal, with this prompt, in a new session or the one before."""
        provider = f'{{name="fake",base_url="{self.model.url}/v1",wire_api="responses",env_key="FAKE_KEY"}}'
        options = {
            "claude-code": ("--allowedTools", "mcp__engramq", "-p"),
            "codex": (
                "-m", "gpt-5.1", "--skip-git-repo-check", "--dangerously-bypass-hook-trust",
                "-c", "model_provider='fake'", "-c", f"model_providers.fake={provider}",
                "-c", "mcp_servers.engramq.default_tools_approval_mode='approve'",
            ),
            "gemini": ("--yolo", "-m", "gemini-2.5-flash", "-p"),
            "opencode": (),
        }[program]  # fmt: skip
        command = (*EVERY[program], *(RESUME[program] if resumed else ()), *options, prompt)
        return self.run(*command)


def give_opencode_its_model(home: Path, model: Model) -> None:
    provider = {"npm": "@ai-sdk/anthropic", "options": {"baseURL": f"{model.url}/v1", "apiKey": "none"}}
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    settings = {"provider": {"fake": provider | {"models": {"m": {}}}}, "model": "fake/m", "small_model": "fake/m"}
    (folder / "opencode.json").write_text(json.dumps(settings))


@pytest.fixture
def desk() -> Iterator[Desk]:
    if not INSTALLED.is_dir():
        pytest.fail("make test-agents installs the programs that this test runs")
    home = Path(tempfile.mkdtemp(prefix="engramq-day-", dir="/tmp"))
    (home / "work" / "rover" / ".git").mkdir(parents=True)
    (home / ".gemini").mkdir()
    (home / ".gemini" / "settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}')
    with running_model() as model:
        desk = Desk(home, model)
        give_opencode_its_model(home, model)
        try:
            desk.up()
            yield desk
        finally:
            desk.down()
            subprocess.run(["engramq", "down"], env=desk.environment, capture_output=True, timeout=60, check=False)
            shutil.rmtree(home, ignore_errors=True)


@pytest.mark.promise("RC-5", "RC-6")
@pytest.mark.parametrize("program", BEGIN)
def test_a_day_is_kept_and_recalled(desk: Desk, program: str) -> None:
    desk.run("engramq", "connect", program)
    desk.run("engramq", "hooks", "install", program)
    desk.run("engramq", "store", KNOWN, "--project", "rover")
    desk.run("engramq", "store", ELSEWHERE, "--project", "island")

    question = "When do deploys of rover happen?"
    assert ANSWER in desk.ask(program, question)
    request = desk.model.request_of(question)
    assert KNOWN in request, "the model is told what is known"
    assert ELSEWHERE not in request, "and nothing of another project"
    captured = desk.kept("--partition", "untrusted")
    assert sorted(memory["content"] for memory in captured) == sorted([ANSWER, question])
    assert {memory["project"] for memory in captured} == {"rover"}
    assert all({"captured", program} <= set(memory["tags"]) for memory in captured)

    desk.ask(program, f"Please remember: {LEARNED}")
    assert LEARNED in [memory["content"] for memory in desk.kept()], "the model stored it by the tool"

    at_noon = "On which port does the staging host of rover listen?"
    desk.ask(program, f"{at_noon} The key is {SECRET}")
    assert LEARNED in desk.model.request_of(at_noon), "a later session is told it"
    kept = [memory["content"] for memory in desk.kept("--partition", "untrusted")]
    assert any(content.startswith(at_noon) for content in kept)
    assert not any(SECRET in content for content in kept)


@pytest.mark.promise("RC-5")
@pytest.mark.parametrize("program", BEGIN)
def test_what_was_said_while_nothing_ran_is_captured_by_the_next_turn(desk: Desk, program: str) -> None:
    desk.run("engramq", "connect", program)
    desk.run("engramq", "hooks", "install", program)
    desk.ask(program, "The first prompt of the day")
    desk.down()
    desk.ask(program, "A prompt while nothing runs", resumed=True)
    desk.up()
    desk.ask(program, "A prompt when it runs again", resumed=True)
    kept = [memory["content"] for memory in desk.kept("--partition", "untrusted")]
    prompts = ["The first prompt of the day", "A prompt while nothing runs", "A prompt when it runs again"]
    assert sorted(kept) == sorted([*prompts, ANSWER, ANSWER, ANSWER])


@pytest.mark.promise("RC-5")
@pytest.mark.parametrize("program", EVERY.keys() - BEGIN)
def test_a_program_without_hooks_stores_by_the_tool(desk: Desk, program: str) -> None:
    desk.run("engramq", "connect", program)
    desk.ask(program, f"Please remember: {LEARNED}")
    assert LEARNED in [memory["content"] for memory in desk.kept()]


@pytest.mark.promise("RC-14")
@pytest.mark.parametrize("program", EVERY)
def test_what_was_said_before_engramq_came_is_brought_in_once(desk: Desk, program: str) -> None:
    desk.run("engramq", "connect", program)
    desk.ask(program, f"The first prompt. The key is {SECRET}")
    desk.ask(program, "The second prompt", resumed=True)
    row = next(line for line in desk.run("engramq", "import", "--found").splitlines() if line.startswith(program))
    project, sessions, *_ = row.split()[1:]
    # Gemini CLI begins another file, without turns of its own, where it goes on in a later minute.
    assert (project, sessions in {"1", "2"} if program == "gemini" else sessions == "1") == ("rover", True)
    for told in ("stored 4  skipped 0", "stored 0  skipped 4"):
        assert desk.run("engramq", "import", "--found", "--yes").startswith(told)
    turns = desk.kept("--partition", "untrusted")
    assert sorted(
        turn["content"].strip('"').partition(".")[0] for turn in turns
    ) == sorted(  # OpenCode quotes what has blanks
        ["The first prompt", "The second prompt", *[ANSWER.removesuffix(".")] * 2]
    )
    assert {turn["project"] for turn in turns} == {"rover"}
    assert not any(SECRET in turn["content"] for turn in turns)
