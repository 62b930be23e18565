"""Measure what a tenant feels of a hostile one: `python -m bench.hostile [--attacks costly,forms,...] [--rounds 5]`.

One caller searches, one question after the other, alone and while somebody attacks the same gateway and worker from a
process of its own; rounds without and with the attack take turns. Prints a JSON line for each round, and one for each
attack with the median of the rounds' ratios.

`costly`: another tenant sends 7 searches a second of texts that PostgreSQL's parser would read many times over. All
others are four connections that send one body of 4 MB after the other: `forms` to the page's sign-in and `unknown` to
MCP and REST without a token; `slow`, a kilobyte at a time; `deep`, JSON of two million levels, and `items`, up to two
million of them, by another tenant; `mixed`, a connection each of `forms`, `slow`, `deep` and `items`.
"""

import argparse
import asyncio
import itertools
import json
import multiprocessing
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from bench.common import ENGRAMQ, McpClient, PrivateStack, Samples, closed_loop, emit, private_stack
from bench.synthetic import Corpus, filled

BENCH: Final = "hostile"
VICTIM: Final = "victim"
HOSTILE: Final = "hostile"
BODY_BYTES: Final = 4 * 1024 * 1024
QUERY_CHARS: Final = 32_000
COSTLY_PER_S: Final = 7
COSTLY: Final = ("a_", "1-a-", "a-1.", "1.2.3.4.5.6-", "a", "<!--", "a@b.", "/a?b=&", "\u4e00", "\u0301")
MIXED: Final = ("forms", "slow", "deep", "items")
ATTACKS: Final = ("costly", "unknown", *MIXED, "mixed")
CONNECTIONS: Final = len(MIXED)
SLOW_BYTES, SLOW_S = 1024, 0.02
ANSWER_S: Final = 30.0  # whoever answers nothing for so long is hung up on
BEGUN_S: Final = 1.0  # that an attack lasts before it is measured
TARGETS: Final = {"costly": ("p95_ms", 3.0)}  # of the ratio; for all others:
TARGET: Final = ("p50_ms", 2.0)

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"
MCP: Final = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"store_memory","arguments":'


class Sent(NamedTuple):
    """A request of an attack."""

    path: str
    body: bytes
    kind: str = JSON
    known: bool = True  # has a token
    slowly: bool = False


def filling(pattern: str, before: str = "", after: str = "") -> bytes:
    """Return a body of as many patterns as it may have."""
    count = (BODY_BYTES - 100 - len(before)) // len(pattern)
    return (before + (pattern * count).rstrip(",") + after).encode()


def requests(attack: str) -> list[Sent]:
    """Return what the connections of an attack send in turn."""
    keys = ",".join(f'"{number}":1' for number in range(250_000))
    arguments = [
        *(filling(part, '{"content":"x","tags":[', "]}") for part in ("1,", '"",')),
        f'{{"content":"x","metadata":{{{keys}}}}}'.encode(),
    ]
    levels = BODY_BYTES // 2 - 100
    nested = b'{"content":"x","metadata":' + b"[" * levels + b"]" * levels + b"}"
    both = [("/v1/memories", b"", b""), ("/mcp", MCP.encode(), b"}}")]
    match attack:
        case "forms":
            return [Sent("/ui/sign-in", filling(part, "token="), FORM, known=False) for part in ("%41", "%zz", "&a=")]
        case "unknown":
            return [Sent(path, arguments[0], known=False) for path, _, _ in both]
        case "slow":
            return [
                Sent(path, arguments[0], known=known, slowly=True) for path, _, _ in both for known in (True, False)
            ]
        case "deep":
            return [Sent(path, before + nested + after) for path, before, after in both]
        case "items":
            return [Sent(path, before + given + after) for path, before, after in both for given in arguments]
        case _:
            return []


async def posted(port: int, sent: Sent, token: str) -> str:
    """Send a request on a connection of its own; return the status of the answer."""
    known = f"authorization: Bearer {token}\r\n" if sent.known else ""
    head = (
        f"POST {sent.path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\norigin: http://127.0.0.1:{port}\r\n"
        f"content-type: {sent.kind}\r\naccept: application/json, text/event-stream\r\n"
        f"{known}content-length: {len(sent.body)}\r\n\r\n"
    )
    part = SLOW_BYTES if sent.slowly else len(sent.body)
    async with asyncio.timeout(ANSWER_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head.encode())
            for start in range(0, len(sent.body), part):
                writer.write(sent.body[start : start + part])
                await writer.drain()
                await asyncio.sleep(SLOW_S if sent.slowly else 0)
            return (await reader.readline()).decode()[9:12] or "closed"
        finally:
            writer.close()


async def attack(name: str, port: int, token: str, told: Counter[str]) -> None:
    """Attack until this is cancelled, and count the answers by their status."""

    async def send(sent: Sent) -> None:
        try:
            told[await posted(port, sent, token)] += 1
        except (OSError, TimeoutError) as problem:
            told[type(problem).__name__] += 1

    async def send_all(several: Sequence[Sent], first: int) -> None:
        for sent in itertools.islice(itertools.cycle(several), first, None):
            await send(sent)

    async with asyncio.TaskGroup() as group:
        if name == "costly":
            for number, pattern in enumerate(itertools.cycle(COSTLY)):
                query = json.dumps({"query": f"{number} {pattern * QUERY_CHARS}"[:QUERY_CHARS]})
                group.create_task(send(Sent("/v1/memories/search", query.encode())))
                await asyncio.sleep(1 / COSTLY_PER_S)
        for place, each in enumerate(MIXED if name == "mixed" else [name] * CONNECTIONS):
            group.create_task(send_all(requests(each), place))


def attacker(name: str, port: int, token: str, parent: Connection) -> None:
    """Attack, in a process of its own, until the parent says something; send it what was answered."""
    told: Counter[str] = Counter()

    async def until_stopped() -> None:
        parent.send("begun")
        attacking = asyncio.create_task(attack(name, port, token, told))
        await asyncio.wait(
            [attacking, asyncio.create_task(asyncio.to_thread(parent.recv))], return_when="FIRST_COMPLETED"
        )
        attacking.cancel()

    asyncio.run(until_stopped())
    parent.send(told)


@contextmanager
def under_attack(name: str, port: int, token: str) -> Iterator[Counter[str]]:
    """Attack while the block lasts; what was answered is known at its end."""
    told: Counter[str] = Counter()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=attacker, args=(name, port, token, there), daemon=True)
    process.start()
    try:
        here.recv()
        time.sleep(BEGUN_S)
        yield told
    finally:
        here.send("stop")
        told.update(here.recv())
        process.join()


def new_token(stack: PrivateStack, namespace: str) -> str:
    """Return a token of a principal who may read and write there."""
    making = [ENGRAMQ, "token", "create", "--principal", "somebody", "--json"]
    given = stack.environment(NAMESPACE=namespace, DATABASE_URL=stack.owner_url)
    made = subprocess.run(making, env=given, capture_output=True, text=True, check=True)
    return str(json.loads(made.stdout)["token"])


def measure(attacks: Sequence[str], rounds: int, seconds: float, memories: int) -> None:
    """Measure each attack on one stack."""
    corpus = Corpus(memories, shares={VICTIM: 0.5, HOSTILE: 0.5})
    numbers = itertools.count()

    async def search(client: McpClient) -> None:
        await client.call("search_memories", query=f"{corpus.text(3, 8)} {next(numbers)}")

    with private_stack() as stack:
        filled(stack, corpus, BENCH)
        stack.start_workers()
        port = stack.start_gateway(VICTIM, AUTH="token")
        victim, hostile = (new_token(stack, namespace) for namespace in (VICTIM, HOSTILE))

        def searched() -> Samples:
            return asyncio.run(closed_loop(port, 1, seconds, search, token=victim))

        searched()  # not counted: caches fill
        for name in attacks:
            figure, most = TARGETS.get(name, TARGET)
            ratios = []
            for _ in range(rounds):
                without = searched().figures()
                with under_attack(name, port, hostile) as told, stack.cpu_used() as cpu:
                    during = searched().figures()
                ratios.append(during[figure] / without[figure])
                emit(BENCH, name, without=without, during=during, told=told, cpu_s=cpu, ratio=ratios[-1], of=figure)
            ratio = statistics.median(ratios)
            emit(BENCH, "ratio", attack=name, of=figure, ratio=ratio, target=most, is_met=ratio < most, rounds=rounds)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--memories", type=int, default=2_000, help="half of each tenant")
    chosen = parser.parse_args()
    attacks = chosen.attacks.split(",")
    if unknown := set(attacks) - set(ATTACKS):
        parser.error(f"no such attack: {', '.join(sorted(unknown))}")
    measure(attacks, chosen.rounds, chosen.seconds, chosen.memories)


if __name__ == "__main__":
    main()
