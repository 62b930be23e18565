"""LlamaIndex: its client connects for each call anew, and shows every optional parameter as nullable."""

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

from tests.agents.hosts import filled
from tests.clients.programs.calling import Job, Report, run
from tests.clients.programs.sessions import is_refusal


async def program(job: Job, report: Report) -> None:
    client = BasicMCPClient(job.url or job.command, args=job.arguments, env=job.environment)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}
    for tool in tools.values():
        report.convert(tool.metadata, lambda metadata: metadata.get_parameters_dict())
    for call in job.calls:
        output = await tools[call.tool].acall(**filled(report.tools[call.tool], call.arguments, job.fill))
        report.answered(output.raw_output.content[0].text, refused=is_refusal(output.raw_output))


if __name__ == "__main__":
    run(program)
