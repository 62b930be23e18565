"""A pipelined connection that ends while it is used."""

import asyncio

import pytest

from engramq.schemas.connection import pack
from engramq.workers.queue.pipeline import ConnectionLost, Pipeline
from tests.queue.server import Server
from tests.queue.stage import Stage


async def test_a_call_that_connects_while_the_pipeline_ends_leaves_no_connection_open(
    server: Server, stage: Stage
) -> None:
    pipeline = Pipeline(server.url, ())
    running = asyncio.create_task(pipeline.run())
    calling = asyncio.create_task(pipeline.call(pack("CLIENT", "ID")))
    await asyncio.sleep(0)  # both have begun; the call waits for its connection
    running.cancel()
    await asyncio.wait([running])
    assert not calling.done()
    number = await calling

    async def is_gone() -> bool:
        return not await stage.redis.client_list(client_id=[str(number)])

    await stage.until(is_gone)
    with pytest.raises(ConnectionLost):
        await pipeline.call(pack("PING"))
