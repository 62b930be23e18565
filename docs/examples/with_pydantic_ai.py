"""An agent of Pydantic AI that remembers: `pip install "pydantic-ai-slim[mcp,openai]"`, `engramq up`, OPENAI_API_KEY.

python with_pydantic_ai.py
"""

import asyncio
import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models import Model

URL = os.environ.get("ENGRAMQ_URL", "http://127.0.0.1:8765").removesuffix("/mcp") + "/mcp"


async def main(model: Model | str = "openai:gpt-5-mini") -> str:
    """Tell the agent something, then ask it in another conversation; return what it answers."""
    agent = Agent(
        model,
        instructions="Search your memory before you answer. Store what the user wants kept.",
        toolsets=[MCPToolset(URL, tool_error_behavior="failed")],  # else the second refused call of a tool ends the run
    )
    async with agent:
        await agent.run("Keep in mind that I am allergic to walnuts.")
        result = await agent.run("What must I not eat?")  # which knows nothing of the first
        return str(result.output)


if __name__ == "__main__":
    print(asyncio.run(main()))
