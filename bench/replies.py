"""Measure what replies and listings cost an agent in tokens (o200k, of the text block).

    python -m bench.replies [--command PATH]

Prints a JSON line for each tool: the reply to the guide's example (typical), and the largest that it makes by default
over memories of 32 KB, fifty of them found at once, with its characters. Then the lines that have targets: a search
with five hits of 60 characters, a store alone and with five similar ones of 300; and the listings of three profiles.
--command is the `engramq` to start, ours by default.
"""

import argparse
import asyncio
import json
import operator
import os
import re
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any, Final

import msgspec
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from bench.common import ENGRAMQ, emit
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS
from engramq.schemas.settings import PREFIX

BENCH: Final = "replies"
SHORT: Final = "Ada drinks green tea at her desk before the stand-up, no. {}"
MIDDLE: Final = (
    "The release train of the billing service leaves on the second Tuesday of a month, number {}: Ada reads the change "
    "log, Tom tags the commit, the pipeline builds the images, and nobody deploys anything else until the dashboards "
    "have been quiet for a whole hour; then the on-call engineer writes a line about it."
)
LONG: Final = "The lighthouse keeper wrote down every ship that passed, with its flag and the weather. " * 400
LONG_MEMORIES: Final = 50
FACTS: Final = 60


@dataclass(frozen=True)
class Doors:
    """Where the server is: its URL, and the command (with its environment) that speaks stdio."""

    url: str
    command: str
    environment: Mapping[str, str]


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


def tokens(text: str) -> int:
    """Return the number of tokens that the text is, special ones not counted as such."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how the package opens its own files
        import bpe_openai  # noqa: PLC0415 - reads its tables, for those alone who count

        return bpe_openai.get_encoding("o200k_base")


@dataclass
class Reader:
    """One client, and what its replies cost."""

    client: Client

    async def text(self, tool: str, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        (block,) = result.content
        assert block.type == "text"
        if result.is_error:
            raise ValueError(f"{tool}: {block.text}")
        return block.text

    async def body(self, tool: str, **arguments: Any) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(await self.text(tool, **arguments))
        return body

    async def example(self, tool: str) -> str:
        """Return the reply to the guide's example of a tool, after the calls that it needs before."""
        entry, text = TOOLS[tool].guide, ""
        seen: dict[str, Any] = {}
        for step in msgspec.to_builtins((*entry.before, entry.example)):
            arguments = {name: _filled(value, seen) for name, value in step["arguments"].items()}
            text = await self.text(step["tool"], **arguments)
            seen |= json.loads(text)
        return text


def _filled(value: Any, seen: Mapping[str, Any]) -> Any:
    """Return a value of an example: `<a.b>` stands for that field of an earlier reply."""
    place = re.fullmatch(r"<([a-z_.]+)>", value) if isinstance(value, str) else None
    return value if place is None else reduce(operator.getitem, place[1].split("."), seen)


async def largest(reader: Reader) -> dict[str, str]:
    """Return the largest reply of each tool that holds contents or lists, by default, over memories of 32 KB."""
    stored = [
        await reader.text("store_memory", content=f"{number} {LONG}"[: limits.CONTENT_CHARS])
        for number in range(LONG_MEMORIES)
    ]
    ids = [json.loads(text)["stored"]["id"] for text in stored]
    for number in range(FACTS):
        fact = {"source_name": "hub", "target_name": f"spoke {number}", "relation": "HAS"}
        await reader.body("graph_add_edge", **fact, properties={"is_constitutive": True, "why": "x" * 100})
        await reader.body("reclassify_memory_sector", **fact, new_sector="episodic", reason="y" * 500)
    replaced = await reader.body("supersede_memory", old_memory_id=ids[0], new_memory_id=ids[1])
    edges = [{"source": ids[2], "target": memory_id, "note": "n" * 500} for memory_id in ids[3:12]]
    calls: dict[str, dict[str, Any]] = {
        "search_memories": {"query": LONG[:1_000], "limit": limits.SEARCH_LIMIT, "min_relevance": 0},
        "list_recent_memories": {"limit": limits.LIST_LIMIT},
        "get_memory": {"memory_id": ids[2]},
        "update_memory": {"memory_id": ids[2], "metadata": {"log": "z" * 30_000}},
        "restore_memory": {"memory_id": ids[0]},
        "connect_by_query": {"source_query": LONG[:30_000], "target_query": LONG[-30_000:], "dry_run": True},
        "connects": {"edges": edges},
        "record_outcome": {"memory_ids": ids, "signal": 1},
        "get_breadcrumbs": {},
        "get_command": {"command_id": replaced["command_id"]},
        "list_proposals": {},
        "graph_query_neighbors": {"node_name": "hub"},
        "memory_stats": {},
    }
    found = {tool: await reader.text(tool, **arguments) for tool, arguments in calls.items()}
    found["supersede_memory"] = await reader.text("supersede_memory", old_memory_id=ids[4], new_memory_id=ids[5])
    return {"store_memory": max(stored, key=len), **found}


async def with_targets(reader: Reader) -> None:
    """Print what has a target, on memories that are like nothing else there."""
    alone = await reader.text("store_memory", content="Nothing here is like this")
    for number in range(5):
        await reader.text("store_memory", content=SHORT.format(number))
    hits = await reader.text("search_memories", query="What does Ada drink at her desk?")
    for number in range(5):
        await reader.text("store_memory", content=MIDDLE.format(number))
    similar = await reader.text("store_memory", content=MIDDLE.format(9))
    for measured, text, target in (
        ("search, five hits of 60 characters", hits, 300),
        ("store, alone", alone, 80),
        ("store, five similar ones of 300 characters", similar, 460),
    ):
        emit(BENCH, measured, tokens=tokens(text), target=target)


async def measure(doors: Doors) -> None:
    """Print all lines, each part in a namespace of its own."""
    async with _reader(doors, "targets") as client:
        await with_targets(Reader(client))
    texts: dict[str, str] = {}
    async with _reader(doors, "largest") as client:
        texts = await largest(Reader(client))
    for tool in TOOLS:
        async with _reader(doors, f"example of {tool}") as client:
            typical = await Reader(client).example(tool)
        most = texts.get(tool, typical)
        emit(BENCH, tool, typical=tokens(typical), largest=tokens(most), largest_chars=len(most))
    for profile, target in (("everyday", 4_200), ("full", 8_500), ("core", 2_200)):
        async with _reader(doors, "listing", "--tools", profile) as client:
            listed = await client.list_tools()
        text = json.dumps(_dumped(listed.tools), separators=(",", ":"), ensure_ascii=False)
        size = len(text.encode())
        emit(BENCH, f"listing, {profile}", tools=len(listed.tools), bytes=size, tokens=tokens(text), target=target)


def _dumped(tools: Sequence[Any]) -> list[dict[str, Any]]:
    return [tool.model_dump(by_alias=True, exclude_none=True) for tool in tools]


def _reader(doors: Doors, namespace: str, *options: str) -> Client:
    arguments = ["stdio", "--namespace", namespace, *options]
    relay = StdioServerParameters(command=doors.command, args=arguments, env=dict(doors.environment), cwd="/")
    return Client(relay, mode="legacy")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default=ENGRAMQ)
    with stack(parser.parse_args().command) as doors:
        asyncio.run(measure(doors))


if __name__ == "__main__":
    main()
