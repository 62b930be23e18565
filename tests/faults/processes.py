"""Faults of our own processes: killed, paused, replaced."""

import asyncio
import random
import signal
import time
from os import kill as os_kill

from engramq.schemas.codec import encode, encode_job
from engramq.schemas.commands import StoreMemory
from engramq.schemas.envelope import Envelope, Principal
from engramq.schemas.ids import uuid7
from engramq.schemas.keys import JOB_KEY
from engramq.schemas.vocabulary import ALL_SCOPES, WorkerKind
from tests.faults.fault import Fault
from tests.faults.world import World, until

BEFORE_KILL_S = 0.4  # at most, so that it comes at any moment of a call
PAUSE_S = (6.0, 12.0)  # a lease is 5 s
LONG_PAUSE_S = 35.0  # every bound of statements, transactions and replies is shorter
EXIT_S = 10.0
POISON_LETTERS = 4
PRINCIPAL = Principal(name="poisoner", scopes=ALL_SCOPES)


async def worker_killed(world: World) -> None:
    """Kill -9 one of the workers; another is started."""
    await asyncio.sleep(random.uniform(0, BEFORE_KILL_S))
    worker = world.workers.pop(random.randrange(len(world.workers)))
    await world.kill(worker)
    world.new_worker()


async def all_workers_killed(world: World) -> None:
    """Kill -9 all workers; others are started, and serve."""
    await asyncio.sleep(random.uniform(0, BEFORE_KILL_S))
    gone, world.workers = world.workers, []
    for worker in gone:
        await world.kill(worker)
    for _ in gone:
        world.new_worker()
    await world.ready()


async def gateway_killed(world: World) -> None:
    """Kill -9 one of the gateways; another is started at its port."""
    await asyncio.sleep(random.uniform(0, BEFORE_KILL_S))
    door = world.doors.pop(random.randrange(len(world.doors)))
    await world.kill(door.process)
    world.new_door(door.port)


async def everything_killed(world: World) -> None:
    """Kill -9 workers, gateways, PostgreSQL and Redis; all are started."""
    ports = [door.port for door in world.doors]
    for child in [*world.workers, *(door.process for door in world.doors)]:
        child.send_signal(signal.SIGKILL)
    await world.kill(world.servers.postgres_process)
    await world.kill(world.servers.redis_process)
    world.workers, world.doors, count = [], [], len(world.workers)
    await world.start_redis()
    await world.start_postgres()
    for _ in range(count):
        world.new_worker()
    for port in ports:
        world.new_door(port)
    await world.ready()


async def worker_paused(world: World) -> None:
    """Stop a worker for longer than its leases, and let it wake."""
    await _pause(world.workers[0].pid, random.uniform(*PAUSE_S))


async def worker_paused_long(world: World) -> None:
    """Stop a worker for longer than any timeout."""
    await _pause(world.workers[0].pid, LONG_PAUSE_S)


async def gateway_paused(world: World) -> None:
    """Stop a gateway for longer than a lease."""
    await _pause(world.doors[0].process.pid, PAUSE_S[0])


async def worker_replaced(world: World) -> None:
    """Start a worker, then end one by SIGTERM, as a rolling restart does."""
    count = len(world.workers)
    world.new_worker()
    await world.alive(count + 1)
    old = world.workers.pop(0)
    await world.kill(old, signal.SIGTERM)
    assert old.returncode == 0, old.returncode


async def gateway_replaced(world: World) -> None:
    """Start a gateway, then end one by SIGTERM while clients keep connections to it."""
    world.new_door()
    await world.ready()
    old = world.doors.pop(0)
    old.process.send_signal(signal.SIGTERM)
    await asyncio.to_thread(old.process.wait, EXIT_S)
    assert old.process.returncode == 0, old.process.returncode


async def poisoned(world: World) -> None:
    """Send commands that nobody can read, and some that always fail: the dead letters get them, and nobody waits."""
    keys = world.keys.of[WorkerKind.EMBEDDING]
    before = int(await world.redis("ZCARD", keys.dead_index))
    for number in range(POISON_LETTERS):
        command_id = uuid7()
        job, payload = f"{command_id}.1", b"\xff\x00"
        if number % 2:  # which gets by what the door checks, and which PostgreSQL takes in no text
            command = StoreMemory(content="poison")
            envelope = Envelope(id=command_id, namespace="a\0b", principal=PRINCIPAL, command=command)
            payload = encode_job([encode(envelope)], time.time_ns() // 1_000_000)
        await world.redis("SET", JOB_KEY + job, payload)
        await world.redis("ZADD", keys.mailbox, 0, job)
        await world.redis("RPUSH", keys.wakeups, "")

    async def are_dead() -> bool:
        return int(await world.redis("ZCARD", keys.dead_index)) >= before + POISON_LETTERS

    await until(are_dead)


async def _pause(pid: int, seconds: float) -> None:
    os_kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        os_kill(pid, signal.SIGCONT)


FAULTS = (
    Fault("worker_killed", worker_killed, 200, back_s=10),
    Fault("all_workers_killed", all_workers_killed, 20, back_s=10),
    Fault("gateway_killed", gateway_killed, 50, back_s=10),
    Fault("everything_killed", everything_killed, 20, back_s=10),
    Fault("worker_paused", worker_paused, 10, back_s=3),
    Fault("worker_paused_long", worker_paused_long, 2, back_s=3),
    Fault("gateway_paused", gateway_paused, 5, back_s=3),
    Fault("worker_replaced", worker_replaced, 50, back_s=3, unnoticed=True),
    Fault("gateway_replaced", gateway_replaced, 50, back_s=3, unnoticed=True),
    Fault("poisoned", poisoned, 20, back_s=3, unnoticed=True, dead_letters=POISON_LETTERS),
)
