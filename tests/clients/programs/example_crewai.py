"""Run the example of CrewAI with a scripted model."""

import json
from typing import Any

from crewai import BaseLLM

from docs.examples.with_crewai import main
from tests.clients.programs.scripted import Script, report


class Scripted(BaseLLM):
    def __init__(self, script: Script) -> None:
        super().__init__(model="scripted")
        object.__setattr__(self, "_script", script)

    def call(self, messages: Any, tools: Any = None, *_given: Any, **named: Any) -> Any:
        """Answer in the words that CrewAI reads calls of tools from."""
        told = str(messages)
        turn = self._script.turn({name for name in ("store_memory", "search_memories") if name in told}, told)
        if isinstance(turn, str):
            return f"Thought: I now know the final answer\nFinal Answer: {turn}"
        return f"Thought: I use my memory.\nAction: {turn[0]}\nAction Input: {json.dumps(turn[1])}"

    def supports_function_calling(self) -> bool:
        return False


if __name__ == "__main__":
    script = Script()
    report(script, main(Scripted(script)))
