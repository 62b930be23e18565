"""The page that lists the metrics, made from their one table: `python -m engramq.telemetry.reference`."""

import sys
from collections.abc import Iterable

from engramq.telemetry.catalog import GATEWAY, UPKEEP, WORKER, Metric

HEAD = """# Metrics

For Prometheus, at `/metrics`. This page is made from the table that the program reads:
`python -m engramq.telemetry.reference`. A dashboard for Grafana, alert rules and their tests are in
`deploy/observability/`; each alert names its runbook in `docs/operations.md`.

**Gateways** serve it beside `/readyz`, and with it tell of every mailbox: all of them tell the same of those, so take
the largest (`max by (kind)`). Without authentication, on loopback, everybody on the machine may read it. With
authentication a token of scope admin may, or, if it is set, `ENGRAMQ_METRICS_TOKEN` alone. The name or address under
which Prometheus scrapes must be one that the gateway answers to (`ENGRAMQ_ALLOWED_HOSTS`; in a pod its own address). A
gateway that serves stdio sessions only, as that of an embedded stack does beside `engramq up`, serves none.

**Workers** serve it where `ENGRAMQ_METRICS_PORT` names a port, at `ENGRAMQ_METRICS_HOST`, to whoever shows
`ENGRAMQ_METRICS_TOKEN` if that is set. Several workers of a host need a port each. All workers of the kind upkeep tell
the same of the store.

Each process tells of itself too (`process_cpu_seconds_total`, `process_resident_memory_bytes`,
`process_start_time_seconds` and others of Prometheus' library): `changes(process_start_time_seconds[1h])` counts
restarts. No label holds a namespace, a principal, a session or anything of a memory. A gauge that cannot be known is
left out. Readiness, mailboxes and the database are looked at when somebody scrapes, the store twice a minute at most.
"""

TABLE = """
## {title}

| metric | sort | labels | meaning |
|---|---|---|---|
{rows}
"""


def metrics_page() -> str:
    """Return the page as Markdown."""
    parts = (("A gateway", GATEWAY), ("A worker", WORKER), ("A worker of the kind upkeep, besides", UPKEEP))
    return HEAD + "".join(TABLE.format(title=title, rows="\n".join(_rows(metrics))) for title, metrics in parts)


def _rows(metrics: Iterable[Metric]) -> Iterable[str]:
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        yield f"| `{one.name}` | {one.sort} | {labels} | {one.meaning} |"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
