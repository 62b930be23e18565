"""Commands of gateway and workers join the home's stack, except as what would write other vectors."""

import contextlib
import os

import pytest

from engramq.deploy.client import take_lease
from engramq.deploy.home import DeployError, Home
from engramq.deploy.servers_for import servers_for
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S

pytestmark = pytest.mark.timeout(60)


def test_a_worker_of_another_embedder_is_refused_and_commands_that_embed_nothing_go_on(
    home: Home, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(take_lease(home, "stdio", environment, BOUND_S, FAKE_STACK)):
        monkeypatch.setattr(os, "environ", environment | {"ENGRAMQ_EMBEDDER": "hash"})
        with pytest.raises(DeployError, match="ENGRAMQ_EMBEDDER"), servers_for("worker", ["--all"]):
            pass
        assert "ENGRAMQ_REDIS_URL" not in os.environ
        for command in ("import", "purge", "audit", "token", "migrate"):
            monkeypatch.setattr(os, "environ", environment | {"ENGRAMQ_EMBEDDER": "hash"})
            with servers_for(command, []):
                assert os.environ["ENGRAMQ_REDIS_URL"]
            assert "ENGRAMQ_EMBEDDER" in capsys.readouterr().err
        monkeypatch.setattr(os, "environ", dict(environment))
        with servers_for("worker", ["--all"]):
            assert os.environ["ENGRAMQ_DATABASE_URL"]
