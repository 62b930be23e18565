"""The commands for people on a home of their own: the first of them starts it, and each is quick."""

import json
import os
import signal

import pytest

from tests.stack.test_whole_stack import Installation, installation

__all__ = ["installation"]

pytestmark = pytest.mark.timeout(300)


@pytest.mark.promise("RC-3")
def test_a_home_starts_by_its_first_command_and_outlives_its_gateway(installation: Installation) -> None:
    def done(*arguments: str, given: bytes | None = None) -> str:
        ended = installation.run(*arguments, given=given)
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    stored = done("store", given=b"The spare key hangs in the shed").strip()
    assert done("search", "spare", "key").startswith(stored)
    assert done("list", "--namespace", "another") == ""
    (gateway,) = [service["pid"] for service in installation.status()["services"] if service["name"] == "gateway"]
    os.kill(gateway, signal.SIGKILL)
    assert json.loads(done("show", stored, "--json"))["memory"]["id"] == stored
    assert done("forget", stored).strip() == "archived"
    assert done("restore", stored[:20]).strip() == "restored"
    ended = installation.run("search", "x", "--namespace", " ")
    assert ended.returncode == 2
