"""OpenAI's Agents SDK with strict schemas: it connects by its own server classes and calls by its function tools."""

import json

from agents import Agent, RunContextWrapper
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp, MCPUtil
from agents.tool_context import ToolContext

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run

BOUND_S = 30.0


async def program(job: Job, report: Report) -> None:
    if job.url is None:
        relay = {"command": job.command, "args": job.arguments, "env": job.environment}
        server = MCPServerStdio(relay, client_session_timeout_seconds=BOUND_S)
    else:
        server = MCPServerStreamableHttp({"url": job.url}, client_session_timeout_seconds=BOUND_S)
    async with server:
        agent = Agent(name="tester", mcp_servers=[server])
        tools = {
            tool.name: tool
            for tool in await MCPUtil.get_function_tools(
                server, convert_schemas_to_strict=True, run_context=RunContextWrapper(None), agent=agent
            )
        }
        report.tools = {name: tool.params_json_schema for name, tool in tools.items()}
        report.strict = [name for name, tool in tools.items() if tool.strict_json_schema]
        for number, call in enumerate(job.calls):
            arguments = json.dumps(filled(report.tools[call.tool], call.arguments, job.fill))
            context = ToolContext(None, tool_name=call.tool, tool_call_id=str(number), tool_arguments=arguments)
            output = await tools[call.tool].on_invoke_tool(context, arguments)
            text = output["text"] if isinstance(output, dict) else output
            report.answered(text, refused=json.loads(text)["status"] in {"error", "invalid_parameter"})


if __name__ == "__main__":
    run(program)
