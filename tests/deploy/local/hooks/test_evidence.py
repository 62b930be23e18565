"""What a session is told of memories that cite files of its repository."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engramq.deploy.local.hooks.evidence import GROUNDED, mark
from tests.deploy.local.hooks.conftest import Owner
from tests.deploy.local.hooks.sessions import Session
from tests.deploy.local.hooks.test_sessions import told
from tests.evidence.trees import LINES, cited, git, repository, write

pytestmark = [pytest.mark.promise("EV-2"), pytest.mark.timeout(240)]


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_what_changed_is_told_as_such_in_one_line(
    owner: Owner, session: Callable[..., Session], tmp_path: Path, client: str
) -> None:
    tree = repository(tmp_path / "bakery", recipe=LINES, oven="heat to 230\n", shop="open at 7\n")
    for name, text in (("recipe", "Bread takes 40 steps"), ("oven", "The oven heats to 230"), ("shop", "We open at 7")):
        owner.stores(text, project="bakery", evidence=[cited(tree, f"{name}.txt")])
    write(tree, "recipe.txt", LINES + "one more\n")
    (tree / "oven.txt").unlink()
    git(tree, "mv", "shop.txt", "store.txt")
    begun = session(client, ENGRAMQ_PROJECT="bakery")
    begun.folder = str(tree)
    lines = {line.rpartition("] ")[2]: line for line in told(begun, "SessionStart", source="startup").splitlines()}
    assert "[OUT OF DATE? recipe.txt has changed since: verify before use]" in lines["Bread takes 40 steps"]
    assert "[OUT OF DATE? oven.txt is gone: verify before use]" in lines["The oven heats to 230"]
    assert "[shop.txt (now store.txt) as cited]" in lines["We open at 7"]


def test_a_comparison_never_keeps_the_client_waiting(tmp_path: Path) -> None:
    tree = repository(tmp_path / "bakery", recipe=LINES)
    hit = {"id": "x", "content": "c", "project": "bakery", "evidence": [cited(tree, "recipe.txt")]}
    mark([hit], str(tree), "bakery", time.monotonic())
    assert hit[GROUNDED] == "[recipe.txt: unknown whether as cited] "
    plain: dict[str, object] = {"id": "y", "content": "c", "evidence": "nonsense"}
    mark([plain], str(tree), "bakery", time.monotonic() + 1)
    assert GROUNDED not in plain
