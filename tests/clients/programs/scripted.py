"""What a model would say that is told a fact and, in another conversation, asked for it: one turn after the other."""

import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

FACT = f"The user is allergic to walnuts, file {os.getpid()}"  # found by nobody else


@dataclass
class Script:
    """Each turn is a call of a tool, or a text that ends the conversation. `seen`: what the last result said."""

    turns: int = 0
    tools: set[str] = field(default_factory=set)
    seen: str = ""

    def turn(self, offered: set[str], seen: str = "") -> tuple[str, dict[str, Any]] | str:
        """Return the next turn; `offered`: the tools that the model was shown; `seen`: what it was told last."""
        self.tools |= offered
        self.turns += 1
        match self.turns:
            case 1:
                return "store_memory", {"content": FACT, "source": "explicit"}
            case 2:
                return "I shall keep that in mind."
            case 3:
                return "search_memories", {"query": "what must the user not eat, allergy"}
            case _:
                self.seen = seen
                return "No walnuts." if FACT in seen else f"I do not know: {seen[:300]}"


def report(script: Script, answer: str) -> None:
    """Print how it went."""
    sys.stdout.write(json.dumps({"answer": answer, "turns": script.turns, "tools": sorted(script.tools)}) + "\n")
