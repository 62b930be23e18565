"""Run the example of LlamaIndex with a scripted model."""

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ChatResponseAsyncGen, LLMMetadata
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from pydantic import PrivateAttr

from docs.examples.with_llama_index import main
from tests.clients.programs.scripted import Script, report


class Scripted(MockLLM, FunctionCallingLLM):
    _script: Script = PrivateAttr()

    def __init__(self, script: Script) -> None:
        super().__init__()
        self._script = script

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True)

    def _prepare_chat_with_tools(self, tools: Sequence[Any], **named: Any) -> dict[str, Any]:
        return {"messages": named.get("chat_history") or [], "tools": {tool.metadata.name for tool in tools}}

    async def astream_chat_with_tools(
        self, tools: Sequence[Any], user_msg: Any = None, chat_history: Any = None, **_named: Any
    ) -> ChatResponseAsyncGen:
        told = str(chat_history[-1].content) if chat_history else str(user_msg)
        turn = self._script.turn({tool.metadata.name for tool in tools}, told)

        async def answered() -> Any:
            text = turn if isinstance(turn, str) else ""
            yield ChatResponse(message=ChatMessage(role="assistant", content=text), delta=text, raw={"turn": turn})

        return answered()

    def get_tool_calls_from_response(self, response: Any, **_named: Any) -> list[ToolSelection]:
        turn = response.raw["turn"]
        if isinstance(turn, str):
            return []
        return [ToolSelection(tool_id=f"c{self._script.turns}", tool_name=turn[0], tool_kwargs=turn[1])]


if __name__ == "__main__":
    script = Script()
    report(script, asyncio.run(main(Scripted(script))))
