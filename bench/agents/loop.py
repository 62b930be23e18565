"""The loop: two windows of a host take the same steps at the same moment, on a stack as `engramq up` starts it."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from bench.agents.hosts import Host
from bench.agents.windows import Doors, Figures, Window, window
from engramq.schemas.settings import PREFIX

PROJECTS: Final = ("Project Alder", "Project Birch")


@contextmanager
def stack(command: str) -> Iterator[Doors]:
    """Start a stack in a home of its own, and end it."""
    home = Path(tempfile.mkdtemp(prefix="engramq-agents-", dir="/tmp"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    environment |= {f"{PREFIX}HOME": str(home), f"{PREFIX}PORT": "0"}
    try:
        with subprocess.Popen([command, "up"], env=environment, stdout=subprocess.PIPE, text=True) as up:
            try:
                assert up.stdout is not None
                url = next(at[0] for line in up.stdout if (at := re.search(r"http://\S+/mcp", line)))
                yield Doors(url, command, environment)
            finally:
                up.terminate()
    finally:
        subprocess.run([command, "down"], env=environment, capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)


async def play(doors: Doors, host: Host, rounds: int) -> Figures:
    """Let two windows of the host do so many pieces of work each; return what both came to."""
    names = [f"{project} ({host.name})" for project in PROJECTS]
    async with window(doors, host, names[0]) as first, window(doors, host, names[1]) as second:
        windows = (first, second)
        await asyncio.gather(*(each.begin() for each in windows))
        for number in range(1, rounds + 1):
            await _in_step(windows, number)
        for each in windows:
            await each.look_back()
    return added([each.figures for each in windows])


async def _in_step(windows: Sequence[Window], number: int) -> None:
    """Take the same step in all windows at once, the next when all are answered: nothing could cross more easily."""
    at_work = [each.work(number) for each in windows]
    steps = [next(one) for one in at_work]
    while True:
        bodies = await asyncio.gather(*(each.take(step) for each, step in zip(windows, steps, strict=True)))
        try:
            steps = [one.send(body) for one, body in zip(at_work, bodies, strict=True)]
        except StopIteration:
            return


def added(several: Sequence[Figures]) -> Figures:
    """Return the sums of all figures."""
    return Figures(
        calls=sum(one.calls for one in several),
        tokens=sum((one.tokens for one in several), Counter()),
        refused=list(chain.from_iterable(one.refused for one in several)),
        crossed=list(chain.from_iterable(one.crossed for one in several)),
    )
