"""An agent of LangChain that remembers: `pip install langchain langchain-openai langchain-mcp-adapters`, `engramq up`.

OPENAI_API_KEY=... python with_langchain.py
"""

import asyncio
import os

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_mcp_adapters.client import MultiServerMCPClient

URL = os.environ.get("ENGRAMQ_URL", "http://127.0.0.1:8765").removesuffix("/mcp") + "/mcp"


async def main(model: BaseChatModel | str = "openai:gpt-5-mini") -> str:
    """Tell the agent something, then ask it in another conversation; return what it answers."""
    client = MultiServerMCPClient({"engramq": {"transport": "streamable_http", "url": URL}})
    agent = create_agent(
        model,
        tools=await client.get_tools(),
        system_prompt="Search your memory before you answer. Store what the user wants kept.",
    )
    await agent.ainvoke({"messages": [{"role": "user", "content": "Keep in mind that I am allergic to walnuts."}]})
    asked = {"messages": [{"role": "user", "content": "What must I not eat?"}]}  # which knows nothing of the first
    result = await agent.ainvoke(asked)
    return str(result["messages"][-1].text)


if __name__ == "__main__":
    print(asyncio.run(main()))
