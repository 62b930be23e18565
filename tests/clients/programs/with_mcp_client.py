"""The Python SDK of version 2, by its `Client`, which speaks the newest revision that the server has."""

from mcp import Client, StdioServerParameters

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run


async def program(job: Job, report: Report) -> None:
    relay = StdioServerParameters(command=job.command, args=job.arguments, env=job.environment)
    async with Client(job.url or relay) as client:
        report.protocol = client.protocol_version
        for tool in (await client.list_tools()).tools:
            report.tools[tool.name] = tool.input_schema
        for call in job.calls:
            result = await client.call_tool(call.tool, filled(report.tools[call.tool], call.arguments, job.fill))
            (block,) = result.content
            assert block.type == "text"
            report.answered(block.text, refused=bool(result.is_error))


if __name__ == "__main__":
    run(program)
