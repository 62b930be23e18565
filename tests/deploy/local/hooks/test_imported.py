"""What hooks have captured, an import of the same transcript knows again; and the other way round."""

import subprocess
from collections.abc import Callable

import pytest

from tests.deploy.local.hooks.conftest import Owner
from tests.deploy.local.hooks.sessions import CLAUDE_CODE, CODEX, ENGRAMQ, GEMINI, Session

pytestmark = [pytest.mark.promise("RC-14"), pytest.mark.timeout(180)]


def brought_in(session: Session) -> str:
    command = [ENGRAMQ, "import", "--format", session.client, str(session.transcript)]
    done = subprocess.run(command, env=session.environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def says(session: Session, text: str) -> None:
    session.says("user", text)
    session.says("assistant", f"Understood: {text}")


@pytest.mark.parametrize("client", [CLAUDE_CODE, CODEX, GEMINI])
def test_a_turn_is_kept_once_whichever_brings_it_first(
    owner: Owner, session: Callable[..., Session], client: str
) -> None:
    ours = session(client)
    says(ours, "The kettle is blue.")
    ours.tell("Stop", stop_hook_active=False)
    captured = owner.captured()
    assert len(captured) == 2
    assert brought_in(ours).startswith("stored 0  skipped 2")
    assert [turn["id"] for turn in owner.captured()] == [turn["id"] for turn in captured]

    says(ours, "The teapot is green.")
    assert brought_in(ours).startswith("stored 2  skipped 2")
    ours.tell("Stop", stop_hook_active=False)
    turns = owner.captured()
    assert len(turns) == 4
    for name in ("tags", "source_type", "partition", "verification"):
        assert turns[0].get(name) == turns[-1].get(name)
