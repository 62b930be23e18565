"""What is generated is what its declarations make of it. Needs no Node: the types of TypeScript name their origin."""

import pytest

from tools.generate import stale


@pytest.mark.promise("MT-16")
@pytest.mark.promise("RC-7")
@pytest.mark.promise("RC-8")
def test_nothing_generated_is_stale() -> None:
    assert stale() == [], "run: make generate"
