"""Ports for the commands' tests."""

import socket
from collections.abc import Callable

import pytest


@pytest.fixture
def unused() -> Callable[[], int]:
    """Return what gives a port that nobody listens on."""

    def port() -> int:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return int(one.getsockname()[1])

    return port
