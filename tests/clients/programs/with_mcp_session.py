"""The Python SDK itself, by `ClientSession`, which versions 1 and 2 have alike."""

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run
from tests.clients.programs.sessions import is_refusal, opened, schema_of


async def program(job: Job, report: Report) -> None:
    async with opened(job) as session:
        for tool in (await session.list_tools()).tools:
            report.tools[tool.name] = schema_of(tool)
        for call in job.calls:
            result = await session.call_tool(call.tool, filled(report.tools[call.tool], call.arguments, job.fill))
            report.answered(result.content[0].text, refused=is_refusal(result))


if __name__ == "__main__":
    run(program)
