"""A week of two people and their agents in one namespace, with a refactoring and a poisoned memory."""

import json
import os
import re
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.common import ENGRAMQ
from tests.deploy.local.hooks.sessions import Session
from tests.evidence.trees import cited, commit, git, repository, write
from tests.gateway.ui.browsing import Browser
from tests.scenarios.stage import MODERN, Agent
from tests.stack.test_whole_stack import Installation, installation

__all__ = ["installation"]

pytestmark = [pytest.mark.timeout(300), pytest.mark.promise("PV-1", "PV-2", "EV-2", "EV-3", "SE-20")]

PRIVATE = {"ada": "Ada looks at the offer of the mill in Linz", "bob": "Bob may eat nothing with sesame in it"}
OVEN, SHOP = "The oven bakes bread at 230 degrees", "The bakery opens at 7 in the morning"
POISON = "The flour supplier takes payments at iban XX99 alone"
FOLLOWS = "Invoices of the flour supplier are paid on Fridays"
QUESTION = "What is known about bread, the bakery, the offer, sesame and the supplier?"


def told_of(installation: Installation, person: str, tree: Path) -> str:
    """Return what a person's new session is told at its start and beside a question."""
    environment = {**installation.environment, "ENGRAMQ_PRINCIPAL": person, "ENGRAMQ_PROJECT": "bakery"}
    session = Session(tree.parent / f"{person}.jsonl", environment, folder=str(tree))
    begun = session.tell("SessionStart", source="startup").context
    return begun + session.tell("UserPromptSubmit", prompt=QUESTION).context


def outsider(tree: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command as somebody who has neither a home nor a server."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    environment |= {"ENGRAMQ_HOME": str(tree.parent / "nobody"), "HOME": str(tree.parent)}
    return subprocess.run([ENGRAMQ, *arguments], env=environment, capture_output=True, timeout=60, check=False)


async def test_a_week_of_a_team(installation: Installation) -> None:
    home = Path(installation.environment["ENGRAMQ_HOME"])
    tree = repository(home / "person" / "bakery", oven="heat = 230\n", shop="opens = 7\n")
    started = installation.run("up", "--detach")
    at = re.search(rb"http://127\.0\.0\.1:(\d+)/", started.stdout + started.stderr)
    assert at is not None, started
    async with AsyncExitStack() as open_clients:
        people = {
            name: Agent(await open_clients.enter_async_context(installation.client(MODERN, "--principal", name)))
            for name in PRIVATE
        }
        await monday(people, tree)
        await everybody_sees_their_own_and_the_shared(installation, people, tree, int(at[1]))
        wednesday(installation, tree)
        await thursday(installation, people, tree)


async def monday(people: dict[str, Agent], tree: Path) -> None:
    """Each keeps something private, and what they learned of the project for all, with its ground."""
    for name, text in PRIVATE.items():
        stored = await people[name].store(text, visibility="private", project="bakery")
        assert stored["visibility"] == "private"
    await people["ada"].store(OVEN, project="bakery", evidence=[cited(tree, "oven.txt")])
    await people["bob"].store(SHOP, project="bakery", evidence=[cited(tree, "shop.txt")])


async def everybody_sees_their_own_and_the_shared(
    installation: Installation, people: dict[str, Agent], tree: Path, port: int
) -> None:
    for name, agent in people.items():
        (theirs,) = [text for owner, text in PRIVATE.items() if owner != name]
        assert sorted(await agent.recent(project="bakery")) == sorted([PRIVATE[name], OVEN, SHOP])
        assert theirs not in await agent.found(QUESTION, project="bakery")
        told = told_of(installation, name, tree)
        assert OVEN in told
        assert theirs not in told
    async with Browser.on(port) as browser, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as rest:
        shown = (await browser.get("/ui/memories", project="bakery")).text
        listed = (await rest.get("/v1/memories", params={"limit": 100, "project": "bakery"})).text
        stats = (await rest.get("/v1/stats")).json()
    for text in (shown, listed):
        assert OVEN in text
        assert SHOP in text
        assert not any(private in text for private in PRIVATE.values())
    assert stats["private"]["of_others"] == len(PRIVATE), "who administers counts them"


def wednesday(installation: Installation, tree: Path) -> None:
    """A refactoring: one file says something else, another has a new name. The first memory alone is out of date."""
    write(tree, "oven.txt", "heat = 250\n")
    git(tree, "mv", "shop.txt", "opening.txt")
    commit(tree)
    checked = subprocess.run(
        [ENGRAMQ, "check"], env=installation.environment, cwd=tree, capture_output=True, timeout=60, check=False
    )
    said = checked.stdout.decode()
    assert "changed" in said, checked
    listed = installation.run("list", "--stale", "--project", "bakery")
    stale = listed.stdout.decode()
    assert stale, (said, listed)
    assert OVEN in stale
    assert SHOP not in stale
    assert "OUT OF DATE? oven.txt has changed" in told_of(installation, "bob", tree)


async def thursday(installation: Installation, people: dict[str, Agent], tree: Path) -> None:
    """Somebody's false memory is traced to them, withdrawn, and what rests on it is named; an outsider checks that."""
    ada, bob = people["ada"], people["bob"]
    poison = (await bob.store(POISON))["id"]
    follows = (await ada.store(FOLLOWS, evidence=[{"memory_id": poison}]))["id"]
    card = await ada.call("why", memory_id=poison)
    assert [line["by"] for line in card["recorded"]] == ["bob"]
    assert [line["memory_id"] for line in card["resting_on"]] == [follows]
    rejected = await ada.call("verify_memory", memory_id=poison, verification="rejected", reason="no such account")
    gone = await ada.call("forget_memory", memory_id=poison, erase=True, reason="a fraud")
    assert [preview["id"] for preview in gone["still_resting_on"]] == [follows]
    assert FOLLOWS in installation.run("list", "--stale").stdout.decode()
    assert POISON not in await bob.recent(include_superseded=True)

    receipts = {
        tree.parent / "verdict.json": (rejected["command_id"],),
        tree.parent / "erased.json": ("--erased", poison),
    }
    for path, words in receipts.items():
        made = installation.run("receipt", *words, "--out", str(path))
        assert made.returncode == 0, made.stderr
        key: str = json.loads(path.read_text())["public_key"]
        assert outsider(tree, "verify", str(path), "--key", key).returncode == 0
        changed: dict[str, Any] = json.loads(path.read_text()) | {"namespace": "another"}
        path.write_text(json.dumps(changed))
        refused = outsider(tree, "verify", str(path), "--key", key)
        assert refused.returncode == 1
        assert b"proves nothing" in refused.stderr
