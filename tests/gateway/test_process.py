"""The gateway as a process: what it refuses at the start, what it says, and how it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, create_server, socket
from typing import IO, Any

import httpx
import pytest

from engramq.deploy.cli import main
from engramq.gateway.run import serve
from engramq.schemas.keys import Keys
from engramq.schemas.settings import SettingsError, read_settings
from tests.architecture.source import ROOT
from tests.gateway.conftest import await_socket


@contextmanager
def started(environment: dict[str, str], *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    command = [sys.executable, "-m", "engramq", "gateway", *arguments]
    with subprocess.Popen(command, cwd=ROOT, env={**clean, **environment}, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            yield process, process.stderr
        finally:
            process.kill()


def records_until(log: IO[bytes], message: str) -> list[dict[str, Any]]:
    """Return the log records up to the one with this message; the process's end bounds the wait."""
    records = []
    for line in log:
        records.append(json.loads(line))
        if records[-1]["message"] == message:
            return records
    raise AssertionError(f"never said {message!r}: {records}")


@pytest.mark.promise("SE-1", "SE-3")
@pytest.mark.long
def test_a_public_bind_with_tokens_is_served_to_who_has_one(redis_url: str, keys: Keys) -> None:
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix}
    with started({**environment, "ENGRAMQ_HOST": "0.0.0.0", "ENGRAMQ_AUTH": "token"}) as (_, log):
        port = records_until(log, "Serving MCP over HTTP")[-1]["port"]
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        refused = httpx.post(f"http://127.0.0.1:{port}/mcp", json={})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"ENGRAMQ_AUTH": "password"}, "ENGRAMQ_AUTH: 'password' cannot be used: must be one of none, token, jwt"),
        ({"ENGRAMQ_AUTH": "jwt"}, "ENGRAMQ_JWT must say issuer="),
        (
            {"ENGRAMQ_AUTH": "jwt", "ENGRAMQ_JWT": "issuer=i, audience=a, keys=/no/key.pem"},
            "ENGRAMQ_JWT: /no/key.pem cannot be read",
        ),
        ({"ENGRAMQ_TOOLS": "store_memory,nonsense"}, "ENGRAMQ_TOOLS: there is no tool 'nonsense'"),
        (
            {"ENGRAMQ_TOOLS": "propose_reclassification"},
            "Call reclassify_memory_sector: it makes or joins the proposal",
        ),
        ({"ENGRAMQ_TOOLS": ","}, "ENGRAMQ_TOOLS: no tool is named"),
        ({"ENGRAMQ_PORT": "http"}, "ENGRAMQ_PORT"),
        ({"ENGRAMQ_HOST": "::"}, "ENGRAMQ_HOST: '::' is not a loopback address"),
        ({"ENGRAMQ_HOST": "192.0.2.7"}, "ENGRAMQ_HOST: '192.0.2.7' is not a loopback address"),
        ({"ENGRAMQ_HOST": "example.org"}, "ENGRAMQ_HOST: 'example.org' is not a loopback address"),
    ],
)
def test_a_bad_setting_is_named_at_the_start(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"ENGRAMQ_REDIS_URL": "unix:///nowhere", "ENGRAMQ_PORT": "0", **environment}.items():
        monkeypatch.setenv(name, value)
    assert main(["gateway"]) == 2
    assert said in capsys.readouterr().err


def test_no_redis_is_named_at_the_start() -> None:
    with pytest.raises(SettingsError, match="ENGRAMQ_REDIS_URL is not set"):
        serve(read_settings({}), socket_path=None, http=True)


@pytest.mark.promise("SE-3")
def test_host_and_port_are_said_by_options_too_and_a_public_bind_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"REDIS_URL": "unix:///nowhere", "HOST": "127.0.0.1", "PORT": "1"}.items():
        monkeypatch.setenv(f"ENGRAMQ_{name}", value)
    assert main(["gateway", "--host", "0.0.0.0"]) == 2
    assert capsys.readouterr().err.startswith("engramq gateway: --host: '0.0.0.0' is not a loopback address")
    with create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["gateway", "--port", str(port)]) == 2
    assert f"--port: port {port} on 127.0.0.1 is taken" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_http_and_stdio_and_ends_cleanly(
    redis_url: str, keys: Keys, socket_path: Path, ending: signal.Signals
) -> None:
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix}
    with started(environment, "--http", "--socket", str(socket_path)) as (process, log):
        serving = records_until(log, "Serving MCP over HTTP")[-1]
        assert serving["url"] == f"http://127.0.0.1:{serving['port']}/mcp"
        await_socket(socket_path)
        health = httpx.get(f"http://127.0.0.1:{serving['port']}/healthz")
        assert (health.status_code, health.json()) == (200, {"status": "alive"})
        process.send_signal(ending)
        assert process.wait(20) == 0
    assert not socket_path.exists()


def asked(path: Path, variables: dict[str, str] | None) -> dict[str, Any]:
    """Return what a gateway answers to a home that wants HTTP with these variables, or none."""
    with socket(AF_UNIX) as line, line.makefile("rwb") as stream:
        line.settimeout(20.0)
        line.connect(str(path))
        stream.write(json.dumps({"engramq": 1, "http": variables}).encode() + b"\n")
        stream.flush()
        answer: dict[str, Any] = json.loads(stream.readline())
        return answer


@pytest.mark.promise("SE-3")
@pytest.mark.long
def test_a_home_opens_and_closes_http_while_stdio_is_served(redis_url: str, keys: Keys, socket_path: Path) -> None:
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_KEY_PREFIX": keys.prefix}
    with started(environment, "--socket", str(socket_path)) as (process, log):
        records_until(log, "Serving stdio sessions")
        for wanted, wrong in (({"ENGRAMQ_HOST": "0.0.0.0"}, "ENGRAMQ_HOST"), ({"ENGRAMQ_AUTH": "jwt"}, "ENGRAMQ_JWT")):
            refused = asked(socket_path, wanted)
            assert (refused["ok"], wrong in refused["error"]) == (False, True)
        for _ in range(2):
            assert asked(socket_path, {"ENGRAMQ_PORT": "0"}) == {"ok": True}
            url = f"http://127.0.0.1:{records_until(log, 'Serving MCP over HTTP')[-1]['port']}/healthz"
            assert httpx.get(url).json() == {"status": "alive"}
            assert asked(socket_path, None) == {"ok": True}
            with pytest.raises(httpx.ConnectError):
                httpx.get(url)
        assert asked(socket_path, {"ENGRAMQ_PORT": "0"}) == {"ok": True}
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.promise("SC-8")
@pytest.mark.long
def test_a_call_on_a_connection_that_a_client_keeps_is_answered_while_the_gateway_stops(
    redis_url: str, keys: Keys
) -> None:
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix}
    with started(environment) as (process, log):
        serving = records_until(log, "Serving MCP over HTTP")[-1]
        with httpx.Client(base_url=f"http://127.0.0.1:{serving['port']}") as client:
            assert "connection" not in client.get("/healthz").headers
            process.send_signal(signal.SIGTERM)
            answers: list[httpx.Response] = []
            while not answers or "connection" not in answers[-1].headers:
                answers.append(client.get("/healthz"))  # one that breaks off raises
            assert {answer.status_code for answer in answers} == {200}
            assert answers[-1].headers["connection"] == "close"
            with pytest.raises(httpx.ConnectError):
                client.get("/healthz")
        assert process.wait(20) == 0


@pytest.mark.long
def test_one_record_tells_of_each_call_and_nothing_of_its_contents(redis_url: str, keys: Keys) -> None:
    environment = {"ENGRAMQ_REDIS_URL": redis_url, "ENGRAMQ_PORT": "0", "ENGRAMQ_KEY_PREFIX": keys.prefix}
    call = {"name": "store_memory", "arguments": {"content": "a very private matter", "bogus\n": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    with started(environment) as (process, log):
        url = records_until(log, "Serving MCP over HTTP")[-1]["url"]
        answer = httpx.post(
            url, json=message, headers={"accept": "application/json", "mcp-protocol-version": "2025-11-25"}
        )
        assert answer.json()["result"]["isError"] is True
        records = records_until(log, "Tool call")
        process.terminate()
        rest = log.read().decode()
    told = records[-1]
    assert {key: told[key] for key in ("level", "tool", "status", "principal", "command_id")} == {
        "level": "INFO",
        "tool": "store_memory",
        "status": "invalid_parameter",
        "principal": "I/O",
        "command_id": None,
    }
    assert told["ms"] >= 0
    assert "private" not in json.dumps(records) + rest
    assert "bogus" not in json.dumps(records) + rest
