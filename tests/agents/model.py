"""A model of the Anthropic, OpenAI and Gemini APIs for tests: it stores what a prompt asks it to, and writes one line.

"Please remember: X" makes it call the tool store_memory with X as content, under whatever name the program offers that
tool; any other prompt, and the tool's result, makes it write ANSWER.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.model_api import ModelHandler, serving

ANSWER: Final = "Understood, all of that is noted."
ORDER: Final = re.compile(r"Please remember: ([^\"\\<]+)")
RESULT: Final = re.compile(r'"(tool_result|function_call_output|functionResponse)"')
OPENAI_DONE: Final = {"input_tokens": 9, "output_tokens": 9, "total_tokens": 18}


class Model:
    """What the programs sent, in order, as the text of their requests."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []

    def request_of(self, text: str) -> str:
        """Return the first request that holds the text; empty when none does."""
        return next((request for request in self.requests if text in request), "")


@contextmanager
def running_model() -> Iterator[Model]:
    """Serve the three APIs on loopback for as long as the block lasts."""
    model = Model()
    with serving(_Handler, model) as model.url:
        yield model


class _Handler(ModelHandler):
    def answer(self) -> None:
        text = self.body().decode()
        if "generateContent" in self.path or "streamGenerateContent" in self.path:
            events = [_gemini(text)]
        elif self.path.partition("?")[0].endswith("/responses"):
            events = _openai(text)
        elif self.path.partition("?")[0].endswith("/messages"):
            events = _anthropic(text)
        else:
            self.reply(404, b"{}")
            return
        self.state.requests.append(text)
        named = "".join(
            (f"event: {event['type']}\n" if "type" in event else "") + f"data: {json.dumps(event)}\n\n"
            for event in events
        )
        self.reply(200, named.encode(), "text/event-stream")


def _to_store(turns: list[dict[str, Any]]) -> str:
    """Return what the last prompt asks to remember; empty when nothing, or when the tool has answered already."""
    last = json.dumps(turns, ensure_ascii=False)
    orders = list(ORDER.finditer(last))
    if not orders or RESULT.search(last, orders[-1].end()):
        return ""
    return orders[-1][1].strip()


def _tool_named(text: str) -> str:
    """Return the name under which a request offers store_memory."""
    offered = re.search(r'"name":\s*"((?:[\w.-]*_)?store_memory)"', text)
    assert offered is not None, "store_memory is not offered"
    return offered[1]


def _anthropic(text: str) -> list[dict[str, Any]]:
    request = json.loads(text)
    content = _to_store(request["messages"]) if request.get("tools") else ""  # none: a title is asked for
    if content:
        block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": _tool_named(text), "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps({"content": content})}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": ANSWER}
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
    }  # fmt: skip
    ending = {"stop_reason": "tool_use" if content else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def _openai(text: str) -> list[dict[str, Any]]:
    content = _to_store(json.loads(text)["input"])
    if content:
        _tool_named(text)
        item: dict[str, Any] = {
            "type": "function_call", "id": "fc_1", "call_id": "call_1", "namespace": "mcp__engramq",
            "name": "store_memory", "arguments": json.dumps({"content": content}),
        }  # fmt: skip
    else:
        parts = [{"type": "output_text", "text": ANSWER, "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": parts}
    return [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": OPENAI_DONE}},
    ]


def _gemini(text: str) -> dict[str, Any]:
    content = _to_store(json.loads(text)["contents"])
    part: dict[str, Any] = (
        {"functionCall": {"name": _tool_named(text), "args": {"content": content}}} if content else {"text": ANSWER}
    )
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9}}
