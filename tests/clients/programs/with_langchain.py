"""LangChain's adapters: tools are loaded by its client, and called as an agent's tool node calls them."""

from operator import attrgetter

from langchain_mcp_adapters.client import MultiServerMCPClient

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run


async def program(job: Job, report: Report) -> None:
    http = {"transport": "streamable_http", "url": job.url}
    stdio = {"transport": "stdio", "command": job.command, "args": job.arguments, "env": job.environment}
    client = MultiServerMCPClient({"engramq": http if job.url else stdio})
    tools = {tool.name: tool for tool in await client.get_tools()}
    for tool in tools.values():
        report.convert(tool, attrgetter("tool_call_schema"))
    for number, call in enumerate(job.calls):
        arguments = filled(report.tools[call.tool], call.arguments, job.fill)
        asked = {"type": "tool_call", "id": str(number), "name": call.tool, "args": arguments}
        message = await tools[call.tool].ainvoke(asked)
        report.answered(message.content[0]["text"], refused=message.status == "error")


if __name__ == "__main__":
    run(program)
