"""Anthropic's SDK runs the memory tool over engramq: `sync` and `async`, each with its own client and runner."""

import asyncio
import json
import sys
from typing import Any

from anthropic import Anthropic, AsyncAnthropic

from engramq import AsyncMemory, Memory
from engramq.client.anthropic import AsyncMemoryTool, MemoryTool

ASKED: dict[str, Any] = {
    "model": "claude-opus-4-6",
    "max_tokens": 1024,
    "max_iterations": 50,
    "messages": [{"role": "user", "content": "Keep what you learn."}],
}
receipts: list[Any] = []


def with_sync() -> Any:
    with Memory() as memory:
        tool = MemoryTool(memory, project="sync", on_receipt=receipts.append)
        last = Anthropic(max_retries=0).beta.messages.tool_runner(tools=[tool], **ASKED).until_done()
        tool.clear_all_memory()
        return last


async def with_async() -> Any:
    async with AsyncMemory() as memory:
        tool = AsyncMemoryTool(memory, project="async", on_receipt=receipts.append)
        last = await AsyncAnthropic(max_retries=0).beta.messages.tool_runner(tools=[tool], **ASKED).until_done()
        await tool.clear_all_memory()
        return last


if __name__ == "__main__":
    message = with_sync() if sys.argv[1] == "sync" else asyncio.run(with_async())
    sys.stdout.write(
        json.dumps({"said": message.content[0].text, "receipts": [reply.command_id for reply in receipts]})
    )
