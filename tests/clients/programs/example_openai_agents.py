"""Run the example of OpenAI's Agents SDK with a scripted model."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage, set_tracing_disabled
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from docs.examples.with_openai_agents import main
from tests.clients.programs.scripted import Script, report


class Scripted(Model):
    def __init__(self, script: Script) -> None:
        self._script = script

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **named: Any) -> ModelResponse:  # noqa: A002 - the SDK's name
        tools = named["tools"] if "tools" in named else given[1]
        turn = self._script.turn({tool.name for tool in tools}, json.dumps(input, default=str))
        item: Any
        if isinstance(turn, str):
            text = ResponseOutputText(type="output_text", text=turn, annotations=[])
            item = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            item = ResponseFunctionToolCall(
                call_id=f"c{self._script.turns}", type="function_call", name=turn[0], arguments=json.dumps(turn[1])
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_given: Any, **_named: Any) -> AsyncIterator[Any]:
        raise NotImplementedError("the example does not stream")


if __name__ == "__main__":
    set_tracing_disabled(True)
    script = Script()
    report(script, asyncio.run(main(Scripted(script))))
