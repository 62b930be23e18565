"""The alert rules that come with engramq, asked about what gateways told: at once, and by promtool as time goes by."""

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from tests.architecture.source import ROOT
from tests.telemetry.metrics.scraping import Scrape

RULES: Final = ROOT / "deploy/observability/alerts.yaml"
INSTANCE: Final = "gateway"  # the label that Prometheus gives to all that one address tells
# The sort of expression that needs no history: the best or worst of a gauge, compared with one value.
_COMPARED: Final = re.compile(r"(?P<pick>min|max) by \((?P<label>\w+)\) \((?P<metric>\w+)\) == (?P<value>\d+)")
_MINUTES: Final = 5  # of each scrape: longer than the `for` of the rules that are asked
_BOUND_S: Final = 60.0

Firing = Mapping[str, Mapping[str, str]]  # by alert: its own label with the value, and the summary


def _rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def matched(alert: str, told: Scrape) -> set[str]:
    """Return the values of the rule's label for which its expression holds now."""
    expression = _COMPARED.fullmatch(_rules()[alert]["expr"])
    assert expression is not None, alert
    groups: dict[str, list[float]] = {}
    for (name, labels), value in told.samples.items():
        if name == expression["metric"]:
            groups.setdefault(dict(labels).get(expression["label"], INSTANCE), []).append(value)
    assert groups, f"nothing tells {expression['metric']}"
    pick = min if expression["pick"] == "min" else max
    return {label for label, values in groups.items() if pick(values) == float(expression["value"])}


def promtool() -> str | None:
    """Return the path of Prometheus' own tool: the machine's, or that of `make test-deploy`."""
    return shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".environments/deploy/bin")


def replay(tool: str, scrapes: Sequence[Scrape], firing: Sequence[Firing], into: Path) -> None:
    """Have promtool play scrapes, five minutes of each, and look which alerts fire at the end of each five.

    `firing` has an entry for each scrape; an alert that any of them names must be silent where it is not named.
    """
    names = {alert for each in firing for alert in each}
    looks = [
        {"eval_time": f"{_MINUTES * (number + 1) - 1}m", "alertname": alert, "exp_alerts": _expected(alert, each)}
        for number, each in enumerate(firing)
        for alert in sorted(names)
    ]
    tests = {"interval": "1m", "input_series": _series(scrapes), "alert_rule_test": looks}
    file = into / "story.test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [tests]}))
    done = subprocess.run(
        [tool, "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=_BOUND_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _expected(alert: str, firing: Firing) -> list[dict[str, Any]]:
    if alert not in firing:
        return []
    rule, labels = _rules()[alert], dict(firing[alert])
    summary = labels.pop("summary")
    return [{"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"] | {"summary": summary}}]


def _series(scrapes: Sequence[Scrape]) -> list[dict[str, str]]:
    return [
        {"series": _series_name(name, labels), "values": " ".join(_held(each, name, labels) for each in scrapes)}
        for name, labels in sorted({key for each in scrapes for key in each.samples}, key=str)
        if name.startswith("engramq_")
    ]


def _series_name(name: str, labels: frozenset[tuple[str, str]]) -> str:
    words = [f'{label}="{value}"' for label, value in sorted({*labels, ("instance", INSTANCE)})]
    return f"{name}{{{','.join(words)}}}"


def _held(told: Scrape, name: str, labels: frozenset[tuple[str, str]]) -> str:
    """Return one sample for all minutes of its scrape, as promtool writes it: a value and how often it comes again."""
    value = told.samples.get((name, labels))
    return f"{'_' if value is None else f'{value:g}'}x{_MINUTES if value is None else _MINUTES - 1}"
