"""Dashboard and alert rules ask for metrics and labels that live processes tell, and for no others."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from engramq.telemetry import catalog
from tests.architecture.source import ROOT
from tests.telemetry.metrics.conftest import Told
from tests.telemetry.metrics.queries import asked

pytestmark = pytest.mark.promise("OP-13")

OBSERVABILITY = ROOT / "deploy" / "observability"
CATALOG = (*catalog.GATEWAY, *catalog.WORKER, *catalog.UPKEEP)
OF_THE_SCRAPE = {"instance", "job", "le"}
WANTED = {
    *("EngramqNoWorker", "EngramqQueueOld", "EngramqDeadLettersGrow", "EngramqGatewayUnready"),
    "EngramqNoGateway",
    *("EngramqPostgresqlRefuses", "EngramqPoolExhausted", "EngramqDiskFull", "EngramqFailureRateHigh"),
    *("EngramqReembeddingStuck", "EngramqWebhooksOld", "EngramqWebhooksGivenUp"),
}


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((OBSERVABILITY / "alerts.yaml").read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    loaded: dict[str, Any] = json.loads((OBSERVABILITY / "dashboard.json").read_text(encoding="utf-8"))
    return [panel for panel in loaded["panels"] if panel["type"] != "row"]


def queries() -> Iterator[tuple[str, str]]:
    """Yield (where, query) of every alert and every panel."""
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_every_query_asks_for_metrics_that_live_processes_tell(told: Told) -> None:
    exist = told.gateway.names | told.worker.names
    missing = [(where, name) for where, query in queries() for name in asked(query).metrics - exist]
    assert missing == []


def test_every_query_names_labels_that_its_metrics_have() -> None:
    labels_of = {metric.name: {*metric.labels} for metric in CATALOG}
    wrong = []
    for where, query in queries():
        names = {re.sub("_(bucket|count|sum)$", "", name) for name in asked(query).metrics}
        known = set().union(*(labels_of.get(name, set()) for name in names)) | OF_THE_SCRAPE
        wrong += [(where, label) for label in asked(query).labels - known]
    assert wrong == []


def test_every_metric_is_shown_or_watched() -> None:
    named = {name for _, query in queries() for name in asked(query).metrics}
    named |= {re.sub("_(bucket|count|sum)$", "", name) for name in named}
    assert {metric.name for metric in CATALOG} - named == {catalog.BUILD.name}


def test_every_alert_has_a_runbook_a_severity_and_a_test() -> None:
    tests = yaml.safe_load((OBSERVABILITY / "alerts.test.yaml").read_text(encoding="utf-8"))
    fired = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert {rule["alert"] for rule in rules()} == fired
    assert fired >= WANTED
    for rule in rules():
        assert rule["annotations"]["runbook"] == f"docs/operations.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"]
