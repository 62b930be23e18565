"""Run the example of LangChain with a scripted model."""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from docs.examples.with_langchain import main
from tests.clients.programs.scripted import Script, report


class Scripted(BaseChatModel):
    script: Any
    offered: set[str] = set()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_named: Any) -> "Scripted":
        bound: Scripted = self.model_copy(update={"offered": {tool.name for tool in tools}})
        return bound

    def _generate(self, messages: list[BaseMessage], *_given: Any, **_named: Any) -> ChatResult:
        turn = self.script.turn(self.offered, str(messages[-1].content))
        said = AIMessage(turn if isinstance(turn, str) else "")
        if not isinstance(turn, str):
            call = {"name": turn[0], "args": turn[1], "id": f"c{self.script.turns}"}
            said = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=said)])


if __name__ == "__main__":
    script = Script()
    report(script, asyncio.run(main(Scripted(script=script))))
