"""Google's Gen AI SDK: a session among the tools of a question. Only the model at the other end is ours.

The SDK converts the tools, sends them to the model, calls what the model asks for, and tells the model the answer.
"""

import json
from typing import Any

import httpx
from google import genai
from google.genai import types
from google.genai._mcp_utils import mcp_to_gemini_tools

from tests.agents.hosts import Fill, filled
from tests.clients.programs.calling import Call, Job, Report, run
from tests.clients.programs.sessions import opened, schema_of


class Model:
    """Asks for one call after the other, whatever it is told, and keeps what it was sent."""

    def __init__(self, calls: list[Call], schemas: dict[str, Any], how: Fill) -> None:
        self._parts = [
            {"functionCall": {"name": call.tool, "args": filled(schemas[call.tool], call.arguments, how)}}
            for call in calls
        ]
        self.sent: list[Any] = []

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.sent.append(json.loads(request.content))
        part = self._parts.pop(0) if self._parts else {"text": "Done."}
        return httpx.Response(200, json={"candidates": [{"content": {"role": "model", "parts": [part]}}]})


def declared(tool: Any) -> Any:
    """Return the declaration of a tool; raises when the SDK would drop anything that the schema says."""
    schema = types.JSONSchema(**schema_of(tool))
    types.Schema.from_json_schema(json_schema=schema, raise_error_on_unsupported_field=True)
    (converted,) = mcp_to_gemini_tools([tool])
    return converted.model_dump(mode="json")


async def program(job: Job, report: Report) -> None:
    async with opened(job) as session:
        listed = (await session.list_tools()).tools
        for tool in listed:
            report.convert(tool, declared)
        if report.failed:
            return  # the question would fail with it
        model = Model(job.calls, {tool.name: schema_of(tool) for tool in listed}, job.fill)
        async with httpx.AsyncClient(transport=httpx.MockTransport(model)) as http:
            client = genai.Client(api_key="none", http_options=types.HttpOptions(httpx_async_client=http))
            # A dictionary: a config object would be copied deeply, which the session does not survive.
            config = {"tools": [session], "automatic_function_calling": {"maximum_remote_calls": len(job.calls) + 1}}
            await client.aio.models.generate_content(model="gemini-none", contents="Go on.", config=config)
        sent = [declaration for tool in model.sent[0]["tools"] for declaration in tool["functionDeclarations"]]
        report.tools = {item["name"]: item["parameters"] for item in sent}
        for turn in model.sent[-1]["contents"]:
            for part in turn["parts"]:
                if "functionResponse" in part:
                    response = part["functionResponse"]["response"]
                    ((told, result),) = response.items()
                    report.answered(result["content"][0]["text"], refused=told == "error")


if __name__ == "__main__":
    run(program)
