"""What all tests of servers beyond one machine need."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.architecture.source import ROOT
from tests.scale.redis_cluster import RedisCluster

ENVIRONMENT: Final = ROOT / ".environments" / "scale"  # of `make test-scale`


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster of three masters."""
    with RedisCluster(3) as cluster:
        yield cluster
