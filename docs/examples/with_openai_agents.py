"""An agent of OpenAI's Agents SDK that remembers: `pip install openai-agents`, `engramq up`, OPENAI_API_KEY.

python with_openai_agents.py
"""

import asyncio
import os

from agents import Agent, Model, Runner
from agents.mcp import MCPServerStreamableHttp

URL = os.environ.get("ENGRAMQ_URL", "http://127.0.0.1:8765").removesuffix("/mcp") + "/mcp"


async def main(model: Model | str | None = None) -> str:
    """Tell the agent something, then ask it in another conversation; return what it answers."""
    async with MCPServerStreamableHttp({"url": URL}, cache_tools_list=True) as memory:
        agent = Agent(
            name="assistant",
            instructions="Search your memory before you answer. Store what the user wants kept.",
            mcp_servers=[memory],
            model=model,
        )
        await Runner.run(agent, "Keep in mind that I am allergic to walnuts.")
        result = await Runner.run(agent, "What must I not eat?")  # which knows nothing of the first
        return str(result.final_output)


if __name__ == "__main__":
    print(asyncio.run(main()))
