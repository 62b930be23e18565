"""Run the example of Pydantic AI with a scripted model."""

import asyncio

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from docs.examples.with_pydantic_ai import main
from tests.clients.programs.scripted import Script, report

if __name__ == "__main__":
    script = Script()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = ModelMessagesTypeAdapter.dump_json(messages).decode()
        turn = script.turn({tool.name for tool in info.function_tools}, told)
        return ModelResponse(parts=[TextPart(turn) if isinstance(turn, str) else ToolCallPart(*turn)])

    report(script, asyncio.run(main(FunctionModel(answer))))
