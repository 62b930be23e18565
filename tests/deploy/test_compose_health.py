"""The health checks of compose.yaml and of the image, run as they stand there against processes of ours."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source import ROOT
from tests.conftest import Database
from tests.faults.world import free_port
from tests.telemetry.tracing.processes import environment_of, process

pytestmark = [pytest.mark.promise("OP-8"), pytest.mark.timeout(120)]


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "docker" / "compose.yaml").read_text())["services"]
    return found


def checked(test: list[str], **variables: str) -> int:
    """Run a check as the engine does in a container, which it may have given a proxy; returns its exit code."""
    kind, program, *rest = test
    assert (kind, program) == ("CMD", "python")
    environment = {"PATH": os.environ["PATH"], "http_proxy": f"http://127.0.0.1:{free_port()}", **variables}
    done = subprocess.run([sys.executable, *rest], env=environment, capture_output=True, timeout=30, check=False)
    return done.returncode


def test_every_service_that_stays_is_checked_and_those_of_workers_are_told_where() -> None:
    staying = {name: each for name, each in services().items() if each.get("restart") != "no"}
    assert staying.keys() == {"postgres", "redis", "gateway", "recall", "embedding", "background"}
    for name, each in services().items():
        check = each.get("healthcheck", {})
        if name not in staying:
            assert "test" not in check, name
        elif name == "gateway":
            assert not check, "the image's own, which asks a gateway, is to hold"
        else:
            assert check.get("test", ["none"])[0] in {"CMD", "CMD-SHELL"}, name
            assert len(check["test"]) > 1, name
            assert "disable" not in check, name
        if name in staying and each.get("command", [""])[0] == "worker":
            assert each["environment"]["ENGRAMQ_HEALTH_PORT"], name


def test_a_worker_is_healthy_while_it_serves(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    test, port = services()["recall"]["healthcheck"]["test"], str(free_port())
    assert checked(test, ENGRAMQ_HEALTH_PORT=port) != 0
    with process(
        environment_of("postgresql:///nowhere", redis_url, key_prefix, tmp_path, health_port=port), "worker", "recall"
    ) as waiting:
        waiting.said("Waiting for the database")
        assert checked(test, ENGRAMQ_HEALTH_PORT=port) != 0
    environment = environment_of(database.url, redis_url, key_prefix, tmp_path, health_port=port)
    with process(environment, "worker", "recall") as worker:
        worker.said("Workers serve")
        for _ in range(20):  # the model is loaded by the first
            if (code := checked(test, ENGRAMQ_HEALTH_PORT=port)) == 0:
                break
        assert code == 0
        assert worker.stop() == 0


def test_a_gateway_is_healthy_while_it_lives(redis_url: str, key_prefix: str, tmp_path: Path) -> None:
    text = (ROOT / "deploy" / "docker" / "Dockerfile").read_text(encoding="utf-8")
    [line] = [line.strip() for line in text.splitlines() if line.strip().startswith('CMD ["python"')]
    test, port = ["CMD", *json.loads(line.removeprefix("CMD "))], str(free_port())
    assert checked(test, ENGRAMQ_PORT=port) != 0
    with process(
        environment_of("postgresql:///nowhere", redis_url, key_prefix, tmp_path, port=port), "gateway"
    ) as gateway:
        gateway.said("Serving MCP over HTTP")
        assert checked(test, ENGRAMQ_PORT=port) == 0
