"""Fuzzed calls against a whole stack: `python -m bench.fuzz --calls 100000 --resume fuzz.json`.

Arguments come from the tools' own schemas, spoilt in part, and name what earlier replies named. Counts answers by what
they were, of which none may be `internal`, and processes that ended, of which there may be none. What has been tried is
in the file, which the next run goes on from.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bench.arguments import Arguments
from bench.common import McpClient, PrivateStack, emit, private_stack
from engramq.schemas.keys import Keys

BLOCK: Final = 1_000  # calls after which the file is written
CALLERS: Final = 12
NAMESPACE: Final = "fuzz"
SHOWN: Final = 20  # failures that the file keeps whole
SLOW_S: Final = 10.0
INTERNAL: Final = "internal"
INTERNAL_ERROR: Final = -32603  # of JSON-RPC


@dataclass
class Tally:
    """What came of all calls so far."""

    seed: str
    calls: int = 0
    seconds: float = 0.0
    answers: dict[str, int] = field(default_factory=dict)  # by status or code of refusal
    tools: dict[str, int] = field(default_factory=dict)
    internal: int = 0
    crashes: int = 0
    cut: int = 0
    slow: int = 0
    dead_letters: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, file: Path, seed: str) -> "Tally":
        """Return what a file has, or a new one."""
        return cls(**json.loads(file.read_text(encoding="utf-8"))) if file.exists() else cls(seed)

    def keep(self, file: Path) -> None:
        """Write the file, whole or not at all."""
        new = file.with_name(file.name + ".new")
        new.write_text(json.dumps(asdict(self), indent=1), encoding="utf-8")
        new.replace(file)

    def count(self, tool: str, arguments: Any, told: str, took_s: float) -> None:
        """Add one call; keep it whole when it failed."""
        self.calls += 1
        self.answers[told] = self.answers.get(told, 0) + 1
        self.tools[tool] = self.tools.get(tool, 0) + 1
        self.internal += told == INTERNAL
        self.cut += told == "cut"
        self.slow += took_s > SLOW_S
        if (told in (INTERNAL, "cut") or took_s > SLOW_S) and len(self.failures) < SHOWN:
            self.failures.append(
                {"tool": tool, "arguments": repr(arguments)[:2_000], "told": told, "s": round(took_s, 2)}
            )


async def fuzz(stack: PrivateStack, port: int, tally: Tally, until: int, file: Path) -> None:
    """Try calls until so many have been tried; raises RuntimeError when a process of the stack has ended."""
    while tally.calls < until:
        began = time.perf_counter()
        made = Arguments(f"{tally.seed}/{tally.calls // BLOCK}")
        left = iter(range(min(BLOCK, until - tally.calls)))
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(_caller(port, made, left, tally))
        tally.seconds += time.perf_counter() - began
        tally.crashes += sum(child.poll() is not None for child in stack.processes)
        tally.dead_letters = await _dead_letters(stack)
        tally.keep(file)
        if tally.calls % (10 * BLOCK) == 0:
            _tell(tally)
        if tally.crashes:
            raise RuntimeError("a process of the stack has ended")


async def _caller(port: int, made: Arguments, left: Any, tally: Tally) -> None:
    async with AsyncExitStack() as opened:
        client = await opened.enter_async_context(McpClient.connect(port))
        for _ in left:
            tool, arguments = made.call()
            began = time.perf_counter()
            try:
                answer = await client.ask(tool, arguments)
            except (OSError, EOFError):
                tally.count(tool, arguments, "cut", time.perf_counter() - began)
                client = await opened.enter_async_context(McpClient.connect(port))
                continue
            made.learn(answer.get("result"))
            tally.count(tool, arguments, _told(answer), time.perf_counter() - began)


def _told(answer: dict[str, Any]) -> str:
    result = answer.get("result")
    if result is None:
        code = answer.get("error", {}).get("code")
        return INTERNAL if code == INTERNAL_ERROR else f"protocol {code}"
    body = result.get("structuredContent", {})
    return str(body.get("code") or body.get("status"))


async def _dead_letters(stack: PrivateStack) -> int:
    client: Any = Redis.from_url(stack.servers.redis_url)
    async with client:
        return sum([int(await client.zcard(keys.dead_index)) for keys in Keys("engramq").of.values()])


def _tell(tally: Tally) -> None:
    shown = {name: getattr(tally, name) for name in ("calls", "internal", "crashes", "cut", "slow", "dead_letters")}
    answers = dict(Counter(tally.answers).most_common())
    fewest = min(tally.tools.values(), default=0)
    emit("fuzz", "calls", **shown, per_s=tally.calls / tally.seconds, fewest_of_a_tool=fewest, answers=answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000, help="how many have to have been tried in all")
    parser.add_argument("--resume", type=Path, default=Path("fuzz.json"), metavar="FILE", help="what has been tried")
    parser.add_argument("--seed", default="1", help="of a new file")
    chosen = parser.parse_args()
    tally = Tally.of(chosen.resume, chosen.seed)
    with private_stack() as stack:
        stack.start_workers(EMBEDDER="hash")
        port = stack.start_gateway(NAMESPACE)
        asyncio.run(fuzz(stack, port, tally, chosen.calls, chosen.resume))
    _tell(tally)
    if tally.internal or tally.crashes or tally.cut or tally.dead_letters:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
