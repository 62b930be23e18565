"""What gateway and worker tell of calls, commands, mailboxes, connections, model and store; and to whom."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from engramq.schemas.faults import FaultCode
from engramq.schemas.vocabulary import WorkerKind
from engramq.telemetry import catalog
from tests.architecture.source import ROOT
from tests.conftest import Database
from tests.telemetry.metrics.conftest import Told
from tests.telemetry.metrics.scraping import scrape
from tests.telemetry.tracing.processes import environment_of, live, process

pytestmark = pytest.mark.promise("OP-6")
KINDS = {str(kind) for kind in WorkerKind}


def token_with(environment: dict[str, str], scopes: str) -> str:
    """Make a token as an administrator does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    command = [sys.executable, "-m", "engramq", "token", "create", "--principal", "prometheus", "--json"]
    made = subprocess.run(
        [*command, "--scopes", scopes],
        cwd=ROOT,
        env={**clean, **environment},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return str(json.loads(made.stdout)["token"])


def test_every_call_is_counted_and_timed_by_its_tool(told: Told) -> None:
    calls = "engramq_tool_calls_total"
    assert told.gateway.value(calls, tool="store_memory", outcome="stored") == 1
    assert told.gateway.value(calls, tool="search_memories", outcome="success") == 1
    refused = told.gateway.of(calls, "outcome").keys() - {"stored", "success"}
    assert refused
    assert refused <= {str(code) for code in FaultCode}
    assert told.gateway.value("engramq_tool_call_seconds_count", tool="search_memories") == 2
    assert told.gateway.value("engramq_calls_waiting") == 0


def test_every_mailbox_tells_how_it_is(told: Told) -> None:
    for name in ("depth", "oldest_seconds", "dead_letters", "workers"):
        assert told.gateway.of(f"engramq_mailbox_{name}", "kind").keys() == KINDS
    assert set(told.gateway.of("engramq_mailbox_workers", "kind").values()) == {1}
    assert set(told.gateway.of("engramq_mailbox_dead_letters", "kind").values()) == {0}


def test_a_gateway_tells_whether_it_is_ready_and_what_the_checks_find(told: Told) -> None:
    assert told.gateway.value("engramq_ready") == 1
    checks = told.gateway.of("engramq_check_state", "check")
    assert {"redis", "worker", "database", "queue", "dead_letters"} <= checks.keys()
    assert set(checks.values()) == {0}


def test_every_command_is_counted_with_how_long_it_waited_and_ran(told: Told) -> None:
    of = {"kind": "embedding", "command": "StoreMemory"}
    assert told.worker.value("engramq_commands_total", **of, outcome="done") == 1
    assert told.worker.value("engramq_command_handling_seconds_count", **of) == 1
    assert told.worker.value("engramq_command_queue_seconds_count", kind="embedding") == 1
    assert 0 < (told.worker.value("engramq_command_handling_seconds_sum", **of) or 0) < 20


def test_a_worker_tells_of_its_connections_its_model_and_its_home(told: Told) -> None:
    value = told.worker.value
    assert (value("engramq_database_up"), value("engramq_database_writable")) == (1, 1)
    assert told.worker.of("engramq_database_connections", "state").keys() == {"used", "idle"}
    assert (value("engramq_database_connections_max") or 0) >= 1
    assert value("engramq_database_connections_waiting") == 0
    assert (value("engramq_embedder_texts_total") or 0) >= 2
    assert told.worker.of("engramq_embedder_waiting", "sort") == {"interactive": 0, "bulk": 0}
    assert 0 < (value("engramq_home_free_bytes") or 0) <= (value("engramq_home_size_bytes") or 0)


def test_an_upkeep_worker_tells_of_the_whole_store(told: Told) -> None:
    assert (told.worker.value("engramq_store_bytes") or 0) > 100_000
    assert told.worker.value("engramq_store_pending_memories") == 0
    assert told.worker.value("engramq_reembedding_remaining") == 0
    assert told.worker.value("engramq_store_memories") is not None
    assert told.worker.value("engramq_store_unfinished_namespaces") is not None
    for name in ("waiting_messages", "due_messages", "oldest_seconds", "dead_messages"):
        assert told.worker.value(f"engramq_webhook_{name}") == 0


def test_each_metric_of_the_table_is_served_with_its_sort_and_labels(told: Told) -> None:
    for told_by, metrics in ((told.gateway, catalog.GATEWAY), (told.worker, (*catalog.WORKER, *catalog.UPKEEP))):
        ours = {name: item for name, item in told_by.families.items() if name.startswith("engramq_")}
        assert {metric.name.removesuffix("_total") for metric in metrics} == ours.keys()
        for metric in metrics:
            family = ours[metric.name.removesuffix("_total")]
            assert (family.type, family.documentation) == (metric.sort.value, metric.meaning)
            labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
            assert labels <= {frozenset(metric.labels)}, metric.name


def test_no_label_tells_who_called_or_what_a_memory_says(told: Told) -> None:
    texts = [httpx.get(f"{url}/metrics", timeout=20, verify=False).text for url in (told.stack.url, told.worker_url)]
    assert not [word for word in ("harbour", "default_user", "I/O") for text in texts if word in text]


def test_scrapes_at_the_same_time_share_a_look(told: Told) -> None:
    found: list[float | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(scrape(told.stack.url).value("engramq_ready"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8


def test_a_token_of_their_own_opens_the_metrics_and_nothing_else(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    token = f"scraper-{uuid4().hex}"
    environment = environment_of(
        database.url, redis_url, key_prefix, tmp_path, metrics_port="0", metrics_token=token, auth="token"
    )
    with live(environment) as stack:
        port = next(line["port"] for line in stack.worker.lines if line["message"] == "Serving metrics")
        for url in (stack.url, f"http://127.0.0.1:{port}"):
            assert httpx.get(f"{url}/metrics", timeout=20, verify=False).status_code == 401
            wrong = {"authorization": "Bearer another"}
            assert httpx.get(f"{url}/metrics", headers=wrong, timeout=20, verify=False).status_code == 401
            assert scrape(url, token).names
        right = {"authorization": f"Bearer {token}"}
        assert httpx.post(f"{stack.url}/mcp", json={}, headers=right, timeout=20, verify=False).status_code == 401


def test_where_callers_have_tokens_one_of_scope_admin_is_needed(
    database: Database, redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    environment = environment_of(database.url, redis_url, key_prefix, tmp_path, auth="token")
    with live(environment) as stack:
        assert httpx.get(f"{stack.url}/metrics", timeout=20, verify=False).status_code == 401
        for scopes, status in (("read,write", 403), ("read,admin", 200)):
            token = token_with(environment, scopes)
            headers = {"authorization": f"Bearer {token}"}
            assert httpx.get(f"{stack.url}/metrics", headers=headers, timeout=20, verify=False).status_code == status


def test_without_a_worker_the_mailboxes_are_told_and_nothing_is_ready(
    redis_url: str, key_prefix: str, tmp_path: Path
) -> None:
    environment = environment_of("postgresql:///nowhere", redis_url, key_prefix, tmp_path)
    with process(environment, "gateway") as gateway:
        found = scrape(f"http://127.0.0.1:{gateway.said('Serving MCP over HTTP')['port']}")
    assert found.value("engramq_ready") == 0
    assert found.value("engramq_check_state", check="worker") == 2
    assert set(found.of("engramq_mailbox_workers", "kind").values()) == {0}
