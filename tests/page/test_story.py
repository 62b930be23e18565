"""One story, by people who have read the README and nothing else: from the first `engramq up` to the alert at night."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from playwright.sync_api import Browser, expect

from engramq.deploy.local.embedded import process
from tests.page.alerts import INSTANCE, matched, promtool, replay
from tests.page.conftest import Watched
from tests.page.stack import ENGRAMQ, Stack, running_stack
from tests.scenarios.stage import MODERN, Agent
from tests.telemetry.metrics.scraping import Scrape, scrape

pytestmark = pytest.mark.timeout(500)

NAMED_S = 30.0  # in which a failure is named (OP-14)
BOUND_S = 60.0
ROWS, FIRST = 300, 200  # of the import, and those that come first
BATCH = 100
WELL, BROKEN = "Everything works", "Calls are not answered"
FACT = "The billing service retries a failed charge three times, then mails the customer."
RUMOUR = "A forum says that ten retries of a failed charge are the usual number."
Ask = Callable[..., Any]
QUESTION = "How often is a failed charge retried?"


@dataclass
class Night:
    """What takes part: a stack in a fresh home, and a browser that looks at its page."""

    stack: Stack
    seen: Watched

    @property
    def home(self) -> Path:
        """The folder of the stack."""
        return Path(self.stack.environment["ENGRAMQ_HOME"])

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `engramq ...` to its end."""
        return subprocess.run(
            [ENGRAMQ, *words],
            env=dict(self.stack.environment), capture_output=True, text=True, check=False, timeout=BOUND_S,
        )  # fmt: skip

    def diagnosis(self) -> tuple[int, dict[str, str]]:
        """Return the exit code of `engramq doctor`, and what it tells of each check that failed, with the mend."""
        done = self.run("doctor", "--json")
        failed = [check for check in json.loads(done.stdout)["checks"] if check.get("state") == "failed"]
        return done.returncode, {check["name"]: f"{check['told']} {check['mend']}" for check in failed}

    def readyz(self) -> tuple[int, list[str]]:
        """Return the status that a load balancer sees, and what is missing."""
        answer = httpx.get(f"{self.stack.origin}/readyz", timeout=BOUND_S)
        return answer.status_code, answer.json().get("missing", [])


@pytest.fixture
def night(browser: Browser) -> Iterator[Night]:
    """A home that was never used, `engramq up` in it as the README says, and an empty browser."""
    with running_stack(auth="none") as stack:
        context = browser.new_context()
        seen = Watched(context.new_page(), stack)
        seen.watch(context)
        yield Night(stack, seen)
        context.close()
        assert seen.unexpected() == []


@pytest.fixture
def agent(night: Night) -> Iterator[Ask]:
    """Start a client by the entry that `engramq connect` prints; yields what calls a method of its agent by name."""
    printed = night.run("connect", "claude-code", "--print")
    entry = json.loads(printed.stdout)["mcpServers"]["engramq"]
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=entry.get("env"))
    client = Client(server, mode=MODERN, read_timeout_seconds=BOUND_S)
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
        agent = Agent(client)
        yield lambda method, *given, **named: portal.call(partial(getattr(agent, method), *given, **named))


def within(bound_s: float, look: Callable[[], bool]) -> None:
    """Wait until a look finds what it looks for."""
    assert process.wait_until(look, bound_s), f"not within {bound_s} s"


@pytest.mark.promise("OP-4", "OP-8", "OP-10", "OP-12", "OP-13", "OP-14")
def test_from_the_first_start_to_the_alert_at_night(night: Night, agent: Ask, tmp_path: Path) -> None:
    page = night.seen.go("/ui")
    expect(page.locator("#live .headline")).to_have_text(WELL, timeout=BOUND_S * 1_000)
    agent("store", FACT)
    agent("store", RUMOUR, source_type="research")
    assert agent("found", QUESTION)[0] == FACT
    watch_an_import(night)
    assert "Note 299 of the old wiki" in agent("found", "note 299 of the old wiki")
    assert RUMOUR not in agent("found", QUESTION)
    promote_by_keyboard(night)
    assert RUMOUR in agent("found", QUESTION)

    night.seen.go("/ui")  # and nobody loads it again
    well = all_is_well(night)

    break_postgresql(night)
    broken = all_say_what_is_wrong(night)
    assert agent("call", "search_memories", query=QUESTION)["code"] == "unavailable"

    (night.home / "postgres/local.conf").unlink()
    mended = all_is_well(night)
    assert {FACT, RUMOUR} <= set(agent("found", QUESTION))

    if (tool := promtool()) is not None:
        alerts = {
            "EngramqCheckFailed": {"check": "database", "summary": "The check database has failed."},
            "EngramqGatewayUnready": {
                "instance": INSTANCE,
                "summary": f"The gateway {INSTANCE} answers no calls.",
            },
        }
        replay(tool, (well, broken, mended), ({}, alerts, {}), tmp_path)


def watch_an_import(night: Night) -> None:
    """Import notes, the last of which come late, while the page of imports is open and is never loaded again."""
    page = night.seen.go("/ui/imports")
    expect(page.get_by_text("No import today.")).to_be_visible()
    stored = page.locator("[data-live] table tbody tr td:nth-child(5)")
    rows = [json.dumps({"content": f"Note {number} of the old wiki"}) + "\n" for number in range(ROWS)]
    command = [ENGRAMQ, "import", "-", "--format", "jsonl", "--batch", str(BATCH)]
    with subprocess.Popen(
        command, env=dict(night.stack.environment), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as importing:
        assert importing.stdin is not None
        importing.stdin.writelines(rows[:FIRST])
        importing.stdin.flush()
        expect(stored).to_have_text(str(FIRST), timeout=BOUND_S * 1_000)
        assert importing.poll() is None, "the page tells of an import that still runs"
        importing.stdin.writelines(rows[FIRST:])
        importing.stdin.close()
        assert importing.wait(BOUND_S) == 0
    expect(stored).to_have_text(str(ROWS), timeout=BOUND_S * 1_000)


def promote_by_keyboard(night: Night) -> None:
    """Find the one memory in the inbox, vouch for it and promote it, without a mouse."""
    page = night.seen.go("/ui/inbox")
    page.keyboard.press("j")
    expect(page.locator("[data-row].current .content")).to_have_text(RUMOUR)
    page.keyboard.press("p")
    expect(page.locator("#told")).to_contain_text("is trusted now")


def break_postgresql(night: Night) -> None:
    """Kill PostgreSQL; a setting of somebody's own keeps it from coming back."""
    (night.home / "postgres/local.conf").write_text("shared_buffers = 'plenty'\n")
    services = json.loads(night.run("status", "--json").stdout)["services"]
    (pid,) = [service["pid"] for service in services if service["name"] == "postgres"]
    os.kill(pid, signal.SIGKILL)


def all_say_what_is_wrong(night: Night) -> Scrape:
    """Doctor, page, readiness, metrics and the alerts' expressions name the database; return the metrics."""
    live = night.seen.page.locator("#live")
    expect(live.locator(".headline")).to_have_text(BROKEN, timeout=NAMED_S * 1_000)
    expect(live.locator(".checks .failed")).to_contain_text("database The database does not answer.")
    within(NAMED_S, lambda: scrape(night.stack.origin).value("engramq_ready") == 0)
    told = scrape(night.stack.origin)
    assert told.value("engramq_check_state", check="database") == 2
    assert matched("EngramqGatewayUnready", told) == {INSTANCE}
    assert matched("EngramqCheckFailed", told) == {"database"}
    assert night.readyz() == (503, ["database"])
    within(NAMED_S, lambda: night.diagnosis()[1].keys() == {"database", "stack"})
    code, failed = night.diagnosis()
    assert code == 1
    assert "PostgreSQL cannot be reached" in failed["database"]
    assert "local.conf" in failed["stack"], "why it does not come back"
    return told


def all_is_well(night: Night) -> Scrape:
    """Doctor, page, readiness, metrics and the alerts' expressions have nothing to say; return the metrics."""
    within(BOUND_S, lambda: night.diagnosis() == (0, {}))
    expect(night.seen.page.locator("#live .headline")).to_have_text(WELL, timeout=NAMED_S * 1_000)
    assert night.readyz() == (200, [])
    told = scrape(night.stack.origin)
    assert told.value("engramq_ready") == 1
    assert told.value("engramq_check_state", check="database") == 0
    assert matched("EngramqGatewayUnready", told) == matched("EngramqCheckFailed", told) == set()
    return told
