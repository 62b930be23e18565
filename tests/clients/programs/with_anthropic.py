"""Anthropic's SDK: its own helper makes runnable tools of a session's, and its runner calls them."""

from anthropic.lib.tools._beta_functions import ToolError
from anthropic.lib.tools.mcp import async_mcp_tool

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run
from tests.clients.programs.sessions import opened


async def program(job: Job, report: Report) -> None:
    async with opened(job) as session:
        runnable = {}
        for tool in (await session.list_tools()).tools:
            report.convert(tool, lambda item: async_mcp_tool(item, session).to_dict()["input_schema"])
            runnable[tool.name] = async_mcp_tool(tool, session)
        for call in job.calls:
            arguments = filled(report.tools[call.tool], call.arguments, job.fill)
            try:
                content, refused = await runnable[call.tool].call(arguments), False
            except ToolError as refusal:
                content, refused = refusal.content, True
            report.answered(content[0]["text"], refused=refused)


if __name__ == "__main__":
    run(program)
