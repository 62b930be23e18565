"""Anthropic's Messages API for tests: a model that works through the memory tool's documented examples, one a turn.

The SDKs' own tool runners send the results of the commands, which `Conversation.results` keeps.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tests.model_api import ModelHandler, serving

NOTES: Final = "/memories/notes.txt"
_FOLDER: Final = (
    "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
)


def _command(command: str, expected: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    return {"command": command, **arguments}, expected


def _create(path: str, text: str) -> tuple[dict[str, Any], str]:
    return _command("create", f"File created successfully at: {path}", path=path, file_text=text)


# Each command with its documented answer. The page's own examples, the files that they take for granted before them.
EXAMPLES: Final = [
    _command("view", f"{_FOLDER}\n0B\t/memories", path="/memories"),
    _create(NOTES, "Meeting notes:\n- Discussed project timeline\n- Next steps defined\n"),
    _command("create", f"Error: File {NOTES} already exists", path=NOTES, file_text="x"),
    _command(
        "view",
        f"Here's the content of {NOTES} with line numbers:\n"
        "     1\tMeeting notes:\n     2\t- Discussed project timeline\n     3\t- Next steps defined\n     4\t",
        path=NOTES,
    ),
    _command(
        "view",
        f"Here's the content of {NOTES} with line numbers:\n     2\t- Discussed project timeline",
        path=NOTES,
        view_range=[2, 2],
    ),
    _create("/memories/preferences.txt", "Favorite food: soup\nFavorite color: blue\n"),
    _command(
        "str_replace",
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tFavorite food: soup\n     2\tFavorite color: green\n     3\t",
        path="/memories/preferences.txt",
        old_str="Favorite color: blue",
        new_str="Favorite color: green",
    ),
    _command(
        "str_replace",
        "No replacement was performed. Multiple occurrences of old_str `Favorite` in lines: 1, 2. "
        "Please ensure it is unique",
        path="/memories/preferences.txt",
        old_str="Favorite",
        new_str="Worst",
    ),
    _command(
        "str_replace",
        "No replacement was performed, old_str `purple` did not appear verbatim in /memories/preferences.txt.",
        path="/memories/preferences.txt",
        old_str="purple",
        new_str="red",
    ),
    _create("/memories/todo.txt", "- Buy milk\n- Write tests\n- Sleep\n"),
    _command(
        "insert",
        "The file /memories/todo.txt has been edited.",
        path="/memories/todo.txt",
        insert_line=2,
        insert_text="- Review memory tool documentation\n",
    ),
    _command(
        "insert",
        "Error: Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 4]",
        path="/memories/todo.txt",
        insert_line=9,
        insert_text="- Nothing\n",
    ),
    _create("/memories/old_file.txt", "old"),
    _command("delete", "Successfully deleted /memories/old_file.txt", path="/memories/old_file.txt"),
    _command("delete", "Error: The path /memories/old_file.txt does not exist", path="/memories/old_file.txt"),
    _create("/memories/draft.txt", "draft"),
    _command(
        "rename",
        "Successfully renamed /memories/draft.txt to /memories/final.txt",
        old_path="/memories/draft.txt",
        new_path="/memories/final.txt",
    ),
    _command(
        "rename",
        "Error: The destination /memories/todo.txt already exists",
        old_path="/memories/final.txt",
        new_path="/memories/todo.txt",
    ),
    _command(
        "view", "The path /memories/draft.txt does not exist. Please provide a valid path.", path="/memories/draft.txt"
    ),
    _command(
        "view", "Error: Path /memories/../etc/passwd would escape /memories directory", path="/memories/../etc/passwd"
    ),
    _command(
        "view",
        f"{_FOLDER}\n180B\t/memories\n5B\t/memories/final.txt\n65B\t/memories/notes.txt\n"
        "42B\t/memories/preferences.txt\n68B\t/memories/todo.txt",
        path="/memories",
    ),
]
# What all of them write, and an archiving of all files after them: stores and, of edits, what they replace.
RECEIPTS: Final = 5 + 2 * 2 + 1 + 2 + 4


@dataclass
class Conversation:
    """What the model was offered, and the results that it got, each with whether it was an error."""

    url: str
    examples: Sequence[tuple[dict[str, Any], str]]
    tools: list[dict[str, Any]] = field(default_factory=list)
    results: list[tuple[str, bool]] = field(default_factory=list)


@contextmanager
def running_api(examples: Sequence[tuple[dict[str, Any], str]] = EXAMPLES) -> Iterator[Conversation]:
    """Serve the API on loopback for as long as the block lasts; its model plays the examples once."""
    conversation = Conversation("", examples)
    with serving(_Handler, conversation) as conversation.url:
        yield conversation


class _Handler(ModelHandler):
    def answer(self) -> None:
        request, conversation = json.loads(self.body()), self.state
        goes_on = request.get("thread", {}).get("type") == "continue"  # with what is new alone
        conversation.tools = request.get("tools", conversation.tools)
        conversation.results = (conversation.results if goes_on else []) + [
            (_text_of(block["content"]), block.get("is_error", False))
            for message in request["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        self.reply(200, json.dumps(_answer(conversation, request["model"])).encode())


def _text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)


def _answer(conversation: Conversation, model: str) -> dict[str, Any]:
    turn = len(conversation.results)
    is_over = turn == len(conversation.examples)
    use: dict[str, Any] = {"type": "text", "text": "Noted."}
    if not is_over:
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "memory", "input": conversation.examples[turn][0]}
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [use],
        "stop_reason": "end_turn" if is_over else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }
