"""A crew of CrewAI that remembers: `pip install crewai "crewai-tools[mcp]"`, `engramq up`, OPENAI_API_KEY.

python with_crewai.py
"""

import os

from crewai import LLM, Agent, BaseLLM, Crew, Task
from crewai_tools import MCPServerAdapter

URL = os.environ.get("ENGRAMQ_URL", "http://127.0.0.1:8765").removesuffix("/mcp") + "/mcp"


def main(model: BaseLLM | None = None) -> str:
    """Tell a crew something, then ask another one; return what that answers."""
    with MCPServerAdapter({"url": URL, "transport": "streamable-http"}) as tools:
        agent = Agent(
            role="Assistant",
            goal="Answer from memory, and keep what the user wants kept.",
            backstory="You search your memory before you answer.",
            tools=tools,
            llm=model or LLM(model="openai/gpt-5-mini"),
        )
        for said in ("Keep in mind that I am allergic to walnuts.", "What must I not eat?"):
            task = Task(description=said, expected_output="A short answer.", agent=agent)
            answer = Crew(agents=[agent], tasks=[task]).kickoff()
        return str(answer)


if __name__ == "__main__":
    print(main())
