"""A home of its own for every test, stopped and removed at its end whatever happened."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engramq.deploy.local import stack_hold
from engramq.deploy.local.home import Home
from engramq.deploy.local.stack_hold import StackHold, hold_stack
from engramq.deploy.local.supervisor.state import shut_down
from tests.deploy.fake_engramq import FAKE_STACK
from tests.deploy.helpers import BOUND_S


@pytest.fixture
def home() -> Iterator[Home]:
    # Not pytest's own folder: its long path would always take the way of the over-long homes.
    place = Home(Path(tempfile.mkdtemp(prefix="eq-")))
    yield place
    shut_down(place)
    try:
        shutil.rmtree(place.path)
    except OSError:  # a process that was just ending has written a last line to its log meanwhile
        shut_down(place)
        shutil.rmtree(place.path)


Hold = Callable[..., StackHold]


@pytest.fixture
def hold(home: Home, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """Hold the stack as a kind, with more services or other variables; it is closed at the test's end at the latest."""
    with contextlib.ExitStack() as held:

        def take(kind: str = "command", *services: str, **variables: str) -> StackHold:
            monkeypatch.setattr(stack_hold, "SUPERVISOR_COMMAND", (*FAKE_STACK, *services))
            return held.enter_context(contextlib.closing(hold_stack(home, kind, environment | variables, BOUND_S)))

        yield take


@pytest.fixture
def environment(home: Home) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    return mine | {"ENGRAMQ_HOME": str(home.path), "ENGRAMQ_TEST_LINGER_S": "30", "ENGRAMQ_PORT": "0"}
