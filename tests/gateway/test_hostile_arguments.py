"""What a hostile call costs is bounded before its parts are looked at: security finding 6."""

import time
from typing import Any

import pytest

from engramq.gateway.mcp.arguments import check_arguments
from engramq.schemas.commands import TOOLS
from engramq.schemas.faults import EngramqError
from engramq.schemas.limits import TAGS

STORE = TOOLS["store_memory"]
MANY = 2_000_000
HOSTILE: dict[str, dict[str, Any]] = {
    "numbers": {"tags": [1] * MANY},
    "different numbers": {"tags": list(range(MANY // 10))},
    "empty texts": {"tags": [""] * MANY},
    "lists": {"tags": [[0]] * MANY},
    "metadata": {"metadata": {str(number): number for number in range(250_000)}},
    "nested metadata": {"metadata": {"a": [[[number]] for number in range(250_000)]}},
    "half a pair at the end": {"metadata": {"a": [0] * MANY, "b": "\ud800"}},
}


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_a_long_value_is_refused_before_its_parts_are_read(given: dict[str, Any]) -> None:
    began = time.perf_counter()
    with pytest.raises(EngramqError):
        check_arguments(STORE, {"content": "x", **given})
    assert time.perf_counter() - began < 0.1  # it took 0.6 to 1 s


def test_tags_that_repeat_count_once() -> None:
    given = {"content": "x", "tags": [f"t{number}" for number in range(TAGS)] * 2}
    assert len(check_arguments(STORE, given).parameters.tags) == TAGS  # type: ignore[attr-defined]
