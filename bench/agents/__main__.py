"""What agents pay: a fixed loop of calls as four hosts send them, two windows of each at once; no model.

    python -m bench.agents [--rounds 2] [--command PATH] [--beside PATH]

Prints a JSON line for each host and one for all: calls, tokens of all replies (o200k, of the text block), what was
refused, and what crossed from one window to another, which should be nothing. --command is the `engramq` to start, ours
by default; --beside names that of another version, which then does the same, and the ratio to it is printed.
"""

import argparse
import asyncio
import sys
from typing import Any, Final

from bench.agents.hosts import HOSTS
from bench.agents.loop import added, play, stack
from bench.agents.windows import Figures
from bench.common import ENGRAMQ, emit

SHOWN: Final = 5  # of what went wrong
WIDTH: Final = 400  # characters of each


def measure(command: str, rounds: int) -> Figures:
    """Let all hosts play on a stack of their own; return what all their calls came to."""
    with stack(command) as doors:
        played = {host: asyncio.run(play(doors, host, rounds)) for host in HOSTS}
    for host, figures in played.items():
        tell(host.name, figures)
    whole = added([*played.values()])
    tell("all", whole)
    return whole


def tell(measured: str, figures: Figures) -> None:
    """Print a line, and the first of what went wrong to stderr."""
    wrong: dict[str, Any] = {"refused": len(figures.refused), "crossed": len(figures.crossed)}
    by_tool = dict(figures.tokens.most_common())
    emit("agents", measured, calls=figures.calls, tokens=figures.tokens.total(), **wrong, by_tool=by_tool)
    for one in [*figures.refused[:SHOWN], *figures.crossed[:SHOWN]]:
        print(one[:WIDTH], file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--command", default=ENGRAMQ)
    parser.add_argument("--beside")
    chosen = parser.parse_args()
    ours = measure(chosen.command, chosen.rounds)
    if chosen.beside:
        other = measure(chosen.beside, chosen.rounds)
        totals = {"tokens": ours.tokens.total(), "other_tokens": other.tokens.total()}
        emit("agents", "beside", **totals, ratio=totals["tokens"] / totals["other_tokens"])


if __name__ == "__main__":
    main()
