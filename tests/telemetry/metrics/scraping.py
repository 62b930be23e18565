"""Scrapes, read by Prometheus' own parser."""

from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

BOUND_S = 20.0


class Scrape:
    """What one process tells: samples by their name and labels, and the names of all its families."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self.families = {family.name: family for family in families}
        self.samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sample with these labels, None where there is none."""
        return self.samples.get((name, frozenset(labels.items())))

    def of(self, name: str, label: str) -> Mapping[str, float]:
        """Return the samples of a name by the value of one label."""
        return {dict(labels)[label]: value for (each, labels), value in self.samples.items() if each == name}

    @property
    def names(self) -> set[str]:
        """All names that a query may ask for, those without a sample yet among them."""
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum"), "gauge": ("",)}
        return {
            family.name + suffix for family in self.families.values() for suffix in suffixes.get(family.type, ("",))
        }


def scrape(url: str, token: str = "") -> Scrape:
    """Scrape a process that serves metrics below this URL."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = httpx.get(f"{url}/metrics", headers=headers, timeout=BOUND_S, verify=False)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return Scrape(answer.text)
