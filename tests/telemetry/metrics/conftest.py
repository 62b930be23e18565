"""A gateway and a worker as processes, with some calls behind them, and what they told then."""

from collections.abc import Iterator
from typing import NamedTuple
from uuid import uuid4

import pytest

from tests.conftest import TestServers, new_database
from tests.telemetry.metrics.scraping import Scrape, scrape
from tests.telemetry.tracing.processes import Live, environment_of, live


class Told(NamedTuple):
    """What both told after the calls."""

    gateway: Scrape
    worker: Scrape
    stack: Live
    worker_url: str


@pytest.fixture(scope="module")
def told(servers: TestServers, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    home = tmp_path_factory.mktemp("home")
    home.chmod(0o700)
    prefix = f"test-{uuid4().hex[:12]}"
    with (
        new_database(servers, template) as database,
        live(environment_of(database.url, servers.redis_url, prefix, home, metrics_port="0")) as stack,
    ):
        port = next(line["port"] for line in stack.worker.lines if line["message"] == "Serving metrics")
        worker_url = f"http://127.0.0.1:{port}"
        assert stack.call("store_memory", {"content": "The harbour freezes in cold winters."})["status"] == "stored"
        assert stack.call("search_memories", {"query": "harbour"})["count"] == 1
        assert stack.call("search_memories", {"query": ""})["status"] != "success"
        yield Told(scrape(stack.url), scrape(worker_url), stack, worker_url)
