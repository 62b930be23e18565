"""An agent of LlamaIndex that remembers: `pip install llama-index-core llama-index-tools-mcp llama-index-llms-openai`.

engramq up &
OPENAI_API_KEY=... python with_llama_index.py
"""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import LLM
from llama_index.core.llms.utils import resolve_llm
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

URL = os.environ.get("ENGRAMQ_URL", "http://127.0.0.1:8765").removesuffix("/mcp") + "/mcp"


async def main(model: LLM | None = None) -> str:
    """Tell the agent something, then ask it in another conversation; return what it answers."""
    tools = await McpToolSpec(client=BasicMCPClient(URL)).to_tool_list_async()
    agent = FunctionAgent(
        tools=tools,
        llm=model or resolve_llm("default"),
        system_prompt="Search your memory before you answer. Store what the user wants kept.",
    )
    await agent.run("Keep in mind that I am allergic to walnuts.")
    return str(await agent.run("What must I not eat?"))  # which knows nothing of the first


if __name__ == "__main__":
    print(asyncio.run(main()))
