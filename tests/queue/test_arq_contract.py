"""What the queue shares with arq: the keys and the form of a job. Each side runs what the other one enqueues."""

from importlib.metadata import version
from typing import Any

import arq.constants
import msgspec
from arq.connections import ArqRedis
from arq.jobs import deserialize_job_raw, serialize_job
from arq.worker import Worker, func
from redis.asyncio import ConnectionPool

from engramq.schemas.codec import JOB_FUNCTION, decode_envelope, decode_job, encode_job
from engramq.schemas.commands import Ping
from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY
from engramq.schemas.vocabulary import WorkerKind
from engramq.workers.queue.contract import Assignment, Completion
from tests.queue.stage import Stage, an_actor, echo, payload_of, ping, put


def test_the_installed_arq_is_the_one_that_is_pinned() -> None:
    assert version("arq") == "0.28.0"


def test_arqs_keys_are_where_the_scripts_look_for_them() -> None:
    assert arq.constants.job_key_prefix == JOB_KEY
    assert arq.constants.in_progress_key_prefix == LEASE_KEY
    assert arq.constants.retry_key_prefix == TRIES_KEY


def test_arq_and_the_gateway_write_a_job_alike() -> None:
    ours = encode_job([b"one", b"two"], 1_700_000_000_000)
    theirs = serialize_job(
        JOB_FUNCTION, ([b"one", b"two"],), {}, None, 1_700_000_000_000, serializer=msgspec.msgpack.encode
    )
    assert msgspec.msgpack.decode(ours) == msgspec.msgpack.decode(theirs)
    assert decode_job(theirs) == [b"one", b"two"]
    name, arguments, *_ = deserialize_job_raw(ours, deserializer=msgspec.msgpack.decode)
    assert (name, list(arguments)) == (JOB_FUNCTION, [[b"one", b"two"]])


async def test_a_stock_arq_worker_can_run_what_the_bus_enqueues(stage: Stage) -> None:
    seen: list[bytes] = []

    async def carry_out(ctx: dict[Any, Any], envelopes: list[bytes]) -> None:
        for data in envelopes:
            command = decode_envelope(data).command
            assert isinstance(command, Ping)
            seen.append(command.payload)

    await put(stage, Ping(payload=b"for stock"))
    stock = Worker(
        functions=[func(carry_out, name=JOB_FUNCTION)],
        queue_name=stage.keys.of[WorkerKind.RECALL].mailbox,
        redis_pool=ArqRedis(ConnectionPool.from_url(stage.url)),
        burst=True,
        poll_delay=0,
        handle_signals=False,
        keep_result=0,
        job_serializer=msgspec.msgpack.encode,
        job_deserializer=msgspec.msgpack.decode,
    )
    await stock.async_run()
    await stock.pool.connection_pool.disconnect()
    assert seen == [b"for stock"]


async def test_the_worker_runs_what_stock_arq_enqueues(stage: Stage) -> None:
    seen: list[str] = []

    async def note(assignment: Assignment) -> Completion:
        seen.append(assignment.envelope.id)
        return await echo(assignment)

    bus = await stage.bus()
    await put(stage, Ping())
    (job,) = await stage.redis.zrange(stage.keys.of[WorkerKind.RECALL].mailbox, 0, -1)
    (envelope,) = decode_job(await stage.redis.get(JOB_KEY + job.decode()))
    pool = ArqRedis(ConnectionPool.from_url(stage.url), job_serializer=msgspec.msgpack.encode)
    await pool.enqueue_job(JOB_FUNCTION, [envelope], _queue_name=stage.keys.of[WorkerKind.RECALL].mailbox)
    await pool.connection_pool.disconnect()
    await stage.workers(an_actor(note))
    payload_of(await ping(bus))
    await stage.until(stage.empty)
    assert seen.count(decode_envelope(envelope).id) == 2
