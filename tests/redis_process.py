"""A Redis server of a test's own, from the binary that engramq embeds: started, hung, killed and started again."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.exceptions import RedisError

from engramq.deploy.local.embedded.process import wait_until
from engramq.deploy.local.embedded.redis import find_binary

BOUND_S: Final = 40.0


class RedisProcess:
    """`redis` is a client of it. A server whose append-only file is on loses nothing by `kill` and `launch`."""

    redis: Any

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self, arguments: Sequence[str], *, wait: bool = True, restore_signals: bool = True) -> None:
        """Start the binary with these arguments, and return when it answers."""
        self.process = subprocess.Popen([find_binary(os.environ), *arguments], restore_signals=restore_signals)
        if wait:
            until(self.answers)

    def answers(self) -> bool:
        """Say whether it answers."""
        try:
            return bool(self.redis.ping())
        except RedisError:
            return False

    def signal(self, number: int) -> None:
        """Send its process a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def pause(self) -> None:
        """Make it hang: it accepts connections and answers nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Undo `pause`."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(BOUND_S)
            self.process = None


def options(settings: dict[str, str]) -> list[str]:
    """Return settings as arguments of the server."""
    return [part for name, value in settings.items() for part in (f"--{name}", value)]


def until(condition: Callable[[], bool], bound_s: float = BOUND_S) -> None:
    """Return when the condition holds; fails when it does not within the bound."""
    assert wait_until(condition, bound_s), "the condition did not come true"
