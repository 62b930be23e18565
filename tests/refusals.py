"""Refusals as tests expect them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engramq.schemas.faults import EngramqError, Fault, FaultCode


@contextmanager
def refused(code: FaultCode) -> Iterator[list[Fault]]:
    """Expect a refusal with this code and a recovery; the list gets the fault."""
    faults: list[Fault] = []
    with pytest.raises(EngramqError) as caught:
        yield faults
    faults.append(caught.value.fault)
    assert faults[0].code is code
    assert faults[0].recovery
