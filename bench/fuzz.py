"""Fuzzed calls against a whole stack: `python -m bench.fuzz --calls 100000 --resume fuzz.json`.

Arguments come from the tools' own schemas, spoilt in part, and name what earlier replies named. Counts answers by what
they were, of which none may be `internal`, and processes that ended, of which there may be none. What has been tried is
in the file, which the next run goes on from.
"""

import argparse
import asyncio
import json
import random
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bench.common import McpClient, PrivateStack, emit, private_stack
from engramq.gateway.mcp.schema import input_schema, object_schema
from engramq.schemas.commands import TOOLS
from engramq.schemas.keys import Keys

ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
KNOWN: Final = 300  # ids of earlier replies that calls come back to
ITEMS: Final = 4
DEPTH: Final = 4

WORDS: Final = (
    "kettle", "Ada", "KNOWS", "blue", "plan", "2026-05-04", "Łódź", "東京", "emotional", "crawler", "*", "@stored"
)  # fmt: skip
REFERENCES: Final = ("@stored", "@recalled[0]", "@recalled[1]", "@recalled[7]", "@touched[0]", "@recalled[999999]")
# What programs trip over.
ODD: Final[tuple[Any, ...]] = (
    "", " ", "null", "\0", "a\0b", "{curly}: %s \\ ' \" ; drop table nodes -- \r\n*", "a:b{c}d", "x" * 40_000,
    "é" * 255, "\u202e\u200b\ufeff", "\ud800", "supersedes", "true", "1e400", "[1, 2]", '{"a": 1}',
    "2026-02-30T25:00:00Z", "0001-01-01", "9999-12-31T23:59:59.999999+00:00",
    None, True, False, 0, -1, -0.0, 5e-324, 1e308, 2**31, 2**53 + 1,
    2**63, -(2**63) - 1, 10**400, float("nan"), float("-inf"), [], {}, [[[[]]]], [None] * 201, {"": {"": {"": []}}},
    ["a", 1, None], {"a": "b"},
)  # fmt: skip


class Arguments:
    """A stream of calls that depends on nothing but its seed and on the ids that `learn` is shown."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._ids: deque[str] = deque(maxlen=KNOWN)
        self._makers: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "string": self._text,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda _schema: self._chance.random() < 0.5,
            "array": self._array,
            "object": lambda _schema: self._object(),
        }

    def learn(self, reply: object) -> None:
        """Remember the ids that a reply names."""
        self._ids.extend(ID.findall(json.dumps(reply))[:ITEMS])

    def call(self) -> tuple[str, Any]:
        """Return a tool's name and arguments to try on it."""
        name = self._chance.choice(_names())
        given: Any = self._fitting(_schema(name), TOOLS[name].ids)
        for batch, items in TOOLS[name].batches.items():
            schema = object_schema(items.taken)
            given[batch] = [self._fitting(schema, items.ids) for _ in range(self._chance.randrange(ITEMS))]
        return name, self._spoilt(name, given)

    def _spoilt(self, name: str, given: dict[str, Any]) -> Any:
        match self._chance.choices(("", "other", "left out", "added", "anything"), (65, 15, 8, 8, 4))[0]:
            case "other" if given:
                given[self._chance.choice(sorted(given))] = self._anything()
            case "left out" if given:
                del given[self._chance.choice(sorted(given))]
            case "added":
                known = [*_schema(name)["properties"], *TOOLS[name].aliases, "bogus", ""]
                given[self._chance.choice(known)] = self._anything()
            case "anything":
                return self._anything()
        return given

    def _fitting(self, schema: dict[str, Any], ids: tuple[str, ...]) -> dict[str, Any]:
        required = schema.get("required", ())
        wanted = [name for name in schema["properties"] if name in required or self._chance.random() < 0.3]
        return {name: self._value(schema["properties"][name], is_id=name in ids) for name in wanted}

    def _value(self, schema: dict[str, Any], *, is_id: bool = False) -> Any:
        if is_id and schema["type"] == "array":
            return [self._id() for _ in range(1 + self._chance.randrange(ITEMS))]
        return self._id() if is_id else self._makers[schema["type"]](schema)

    def _id(self) -> str:
        if self._ids and self._chance.random() < 0.7:
            return self._chance.choice(self._ids)
        return self._chance.choice(REFERENCES)

    def _text(self, schema: dict[str, Any]) -> str:
        if "enum" in schema:
            return str(self._chance.choice(schema["enum"]))
        if schema.get("format") == "date-time":
            year, month, day = (self._chance.randrange(*ends) for ends in ((1970, 2100), (1, 13), (1, 29)))
            return f"{year}-{month:02}-{day:02}" + self._chance.choice(("", "T09:30:00Z", "T23:59:59.5+05:30"))
        words = [self._chance.choice(WORDS) for _ in range(1 + self._chance.randrange(8))]
        if self._chance.random() < 0.2:
            words.append(
                "".join(chr(self._chance.choice((self._chance.randrange(1, 0xD800), 0x1F600))) for _ in range(9))
            )
        return " ".join(words)[: schema.get("maxLength", 32_768)]

    def _integer(self, schema: dict[str, Any]) -> int:
        least, most = int(schema.get("minimum", -1000)), int(schema.get("maximum", 1_000_000))
        return self._chance.choice((least, most, self._chance.randint(least, most)))

    def _number(self, schema: dict[str, Any]) -> float:
        least, most = schema.get("minimum", schema.get("exclusiveMinimum", -1e6)), schema.get("maximum", 1e6)
        return self._chance.choice((float(most), self._chance.uniform(least, most)))

    def _array(self, schema: dict[str, Any]) -> list[Any]:
        count = max(schema.get("minItems", 0), self._chance.randrange(ITEMS))
        return [self._value(schema["items"]) for _ in range(count)] if schema["items"]["type"] != "object" else []

    def _object(self) -> dict[str, Any]:
        return {self._chance.choice(WORDS): self._anything() for _ in range(self._chance.randrange(ITEMS))}

    def _anything(self, depth: int = 0) -> Any:
        match self._chance.randrange(6 if depth < DEPTH else 4):
            case 0 | 1:
                return self._chance.choice(ODD)
            case 2:
                return self._chance.choice((self._chance.uniform(-10, 10), self._chance.randrange(-10, 10)))
            case 3:
                return self._chance.choice((*WORDS, *REFERENCES, self._id()))
            case 4:
                return [self._anything(depth + 1) for _ in range(self._chance.randrange(ITEMS))]
            case _:
                return {
                    self._chance.choice(WORDS): self._anything(depth + 1) for _ in range(self._chance.randrange(ITEMS))
                }


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(TOOLS))


@cache
def _schema(name: str) -> dict[str, Any]:
    schema = input_schema(TOOLS[name])
    batches = TOOLS[name].batches
    return {
        **schema,
        "properties": {item: value for item, value in schema["properties"].items() if item not in batches},
    }


BLOCK: Final = 1_000  # calls after which the file is written
CALLERS: Final = 12
NAMESPACE: Final = "fuzz"
SHOWN: Final = 20  # failures that the file keeps whole
SLOW_S: Final = 10.0
INTERNAL: Final = "internal"
INTERNAL_ERROR: Final = -32603  # of JSON-RPC


@dataclass
class Tally:
    """The outcomes of all calls so far."""

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
