"""A home of its own for every test, stopped and removed at its end whatever happened."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engramq.deploy.local.home import Home
from engramq.deploy.local.supervisor.state import shut_down


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


@pytest.fixture
def environment(home: Home) -> dict[str, str]:
    mine = {name: value for name, value in os.environ.items() if not name.startswith("ENGRAMQ_")}
    return mine | {"ENGRAMQ_HOME": str(home.path), "ENGRAMQ_LINGER_S": "30", "ENGRAMQ_PORT": "0"}
