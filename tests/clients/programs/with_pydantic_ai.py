"""Pydantic AI: an agent with the server as a toolset. Only the model is ours: it asks for one call after the other."""

import json
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run


async def program(job: Job, report: Report) -> None:
    calls = iter(job.calls)

    def answer(_messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        report.tools = {tool.name: tool.parameters_json_schema for tool in info.function_tools}
        call = next(calls, None)
        if call is None:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(call.tool, filled(report.tools[call.tool], call.arguments, job.fill))])

    transport = job.url or StdioTransport(job.command, job.arguments, env=job.environment)
    agent = Agent(FunctionModel(answer), toolsets=[MCPToolset(transport)], retries=len(job.calls))
    async with agent:
        result = await agent.run("Go on.")
    for message in result.all_messages():
        for part in message.parts:
            if isinstance(part, ToolReturnPart | RetryPromptPart) and part.tool_name:
                report.answered(_text(part.content), refused=getattr(part, "outcome", "retried") != "success")


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


if __name__ == "__main__":
    run(program)
