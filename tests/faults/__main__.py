"""`python -m tests.faults`: every fault, or some, caused under load; a JSON line each, exit code 1 if one was not held.

Each is caused once, with `--long` as often as its target says, with `--times N` so often. For Linux; filling a disk
takes root. A line tells what was lost, doubled, applied though refused or not found again, how soon the service was
back, what callers were told instead of an answer, and how slow the slowest call was.
"""

import argparse
import asyncio
import json
import sys
import traceback

from tests.faults.fault import NotHere
from tests.faults.suite import FAULTS, run, site_for


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--long", action="store_true", help="as often as the targets say")
    parser.add_argument(
        "--only", action="append", metavar="NAME", choices=sorted(FAULTS), help="this fault; repeatable"
    )
    parser.add_argument("--times", type=int, metavar="N", help="how often each")
    parser.add_argument("--seed", type=int, help="of the load, to repeat a run")
    parser.add_argument("--list", action="store_true", help="what there is")
    chosen = parser.parse_args()
    if chosen.list:
        for fault in FAULTS.values():
            sys.stdout.write(f"{fault.name:32} {fault.times:4}  {fault.about}\n")
        return
    held = True
    for name in chosen.only or FAULTS:
        fault = FAULTS[name]
        times = chosen.times or (fault.times if chosen.long else 1)
        try:
            line = asyncio.run(_one(name, times, chosen.seed))
        except NotHere as problem:
            line = {"fault": name, "held": None, "not_run": str(problem)}
        except Exception as problem:  # noqa: BLE001 - told; the next fault has a stack of its own
            traceback.print_exc()
            line = {"fault": name, "times": times, "held": False, "problem": f"{type(problem).__name__}: {problem}"}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        held = held and line["held"] is not False
    sys.exit(0 if held else 1)


async def _one(name: str, times: int, seed: int | None) -> dict[str, object]:
    async with site_for(FAULTS[name]) as site:
        return await run(FAULTS[name], site, times, seed=seed)


if __name__ == "__main__":
    main()
