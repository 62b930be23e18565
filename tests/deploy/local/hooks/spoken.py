"""Lines of Codex and Gemini CLI in which somebody speaks, of the forms that the clients write, and what is said."""

import json
from typing import Any

Line = dict[str, Any]


def at(second: int) -> str:
    """Return a moment."""
    return f"2026-11-02T10:{second // 60:02}:{second % 60:02}.250Z"


def event(second: int, kind: str, text: str) -> Line:
    """Return an event of Codex."""
    return {"timestamp": at(second), "type": "event_msg", "payload": {"type": kind, "message": text}}


def message(second: int, role: str, text: str, *, bare: bool = False) -> Line:
    """Return a message of Codex."""
    block = "input_text" if role == "user" else "output_text"
    said = {"type": "message", "role": role, "content": [{"type": block, "text": text}]}
    return said if bare else {"timestamp": at(second), "type": "response_item", "payload": said}


def ask(second: int, questions: list[Line], answers: Line, *, name: str = "request_user_input") -> list[Line]:
    """Return the lines of a tool that asks the user."""
    call = {"type": "function_call", "name": name, "call_id": "c", "arguments": json.dumps({"questions": questions})}
    output = {"type": "function_call_output", "call_id": "c", "output": json.dumps(answers)}
    return [
        {"timestamp": at(second + number), "type": "response_item", "payload": payload}
        for number, payload in enumerate((call, output))
    ]


def goal(source: str, text: str) -> str:
    """Return what the model is told of a goal."""
    return f'<codex_internal_context source="{source}">\n{text}\n</codex_internal_context>'


def meta(second: int, session: str, **more: Any) -> Line:
    """Return the line with which a session of Codex begins."""
    return {"timestamp": at(second), "type": "session_meta", "payload": {"id": session, "cwd": "/tea", **more}}


OLD: list[Line] = [{"id": "A", "timestamp": at(0), "instructions": None, "git": {}}, {"record_type": "state"}]
CONTEXT = "<environment_context>\nCurrent working directory: /tea\nApproval policy: never\n</environment_context>"
BLUE, BLUE_TOO = "The kettle must be blue.", "Blue it is."
GOAL = 'Descale it every "Monday" \\ Friday.'
TEAS = [{"id": "tea", "question": "Which tea?"}, {"id": "cup", "question": "Which cup?"}, {"id": "time"}]
CHOSEN = {"answers": {"tea": {"answers": ["Mint", "user_note: never black tea"]}, "cup": {"answers": ["Blue"]}}}
CODEX_SAID: dict[str, tuple[list[Line], list[str]]] = {
    "before there were events": (
        [
            *OLD,
            message(1, "user", CONTEXT, bare=True),
            message(2, "user", BLUE, bare=True),
            {"record_type": "state"},
            message(3, "assistant", BLUE_TOO, bare=True),
        ],
        [BLUE, BLUE_TOO],
    ),
    "messages without events": (
        [
            meta(0, "A"),
            message(1, "user", f"# AGENTS.md instructions for /tea\n\n<INSTRUCTIONS>\n{BLUE}\n</INSTRUCTIONS>"),
            message(1, "developer", "<permissions instructions>\nNone.\n</permissions instructions>"),
            message(2, "user", BLUE),
            message(3, "assistant", BLUE_TOO),
        ],
        [BLUE, BLUE_TOO],
    ),
    "what the model is told without events": (
        [
            meta(0, "A"),
            message(1, "user", "<skill>\n<name>brew</name>\n<path>/brew.md</path>\nBoil it.\n</skill>"),
            message(2, "user", "<subagent_notification>\n{}\n</subagent_notification>"),
            message(3, "user", BLUE),
        ],
        [BLUE],
    ),
    "words within an editor": (
        [
            meta(0, "A"),
            event(
                1,
                "user_message",
                "# Context from my IDE setup:\n\n## Active file: tea.py\n\n## Open tabs:\n- tea.py: tea.py\n\n"
                f"## My request for Codex:\n{BLUE}",
            ),
            event(2, "user_message", f"# Files mentioned by the user:\n\n## My request for Codex:\n{BLUE_TOO}\n"),
        ],
        [BLUE, BLUE_TOO],
    ),
    "events and messages": (
        [
            meta(0, "A"),
            message(1, "user", "Injected."),
            message(2, "user", BLUE),
            event(2, "user_message", BLUE),
            event(3, "agent_message", BLUE_TOO),
            message(3, "assistant", BLUE_TOO),
        ],
        [BLUE, BLUE_TOO],
    ),
    "answers to questions": (
        [meta(0, "A"), event(1, "user_message", BLUE), *ask(2, TEAS, CHOSEN), *ask(4, TEAS, {"answers": {}})],
        [BLUE, "Which tea?\nMint, never black tea\nWhich cup?\nBlue"],
    ),
    "what only looks like an answer": (
        [meta(0, "A"), event(1, "user_message", BLUE), *ask(2, TEAS, CHOSEN, name="exec_command")],
        [BLUE],
    ),
    "a goal of the user": (
        [
            meta(0, "A"),
            message(1, "user", goal("user_goal", f"User set the goal: {json.dumps(GOAL)}")),
            message(2, "user", goal("goal", f"Continue to {BLUE}")),
            event(3, "agent_message", BLUE_TOO),
            message(4, "user", goal("user_goal", 'User set goal status: "paused".')),
        ],
        [f"/goal {GOAL}", BLUE_TOO],
    ),
    "a goal that nobody answers": ([meta(0, "A"), message(1, "user", goal("goal", BLUE))], []),
    "in the same millisecond": (
        [meta(0, "A"), *(event(1, "agent_message", text) for text in ("One.", "Two.", "Two."))],
        ["One.", "Two.", "Two."],
    ),
}


def say(second: int, kind: str, text: str, *, key: str = "", **more: Any) -> Line:
    """Return a message of Gemini CLI."""
    content: Any = text if kind == "gemini" and not key else [{"text": text}]
    return {"id": key or f"m{second}", "timestamp": at(second), "type": kind, "content": content, **more}


def call(name: str, output: str, **arguments: Any) -> Line:
    """Return a call of a tool of Gemini CLI."""
    result = [{"functionResponse": {"id": "c", "name": name, "response": {"output": output}}}]
    return {"id": "c", "name": name, "args": arguments, "status": "success", "timestamp": at(9), "result": result}


SESSION: Line = {"sessionId": "S", "projectHash": "c0", "startTime": at(0), "kind": "main"}
OWN = "<session_context>\nToday is Monday.\n</session_context>"
ANSWERS = json.dumps({"answers": {"0": "Mint", "1": "Blue, please"}})
REJECTED = "Plan rejected. User feedback: Without sugar.\n\nThe plan is stored at: /plan.md\nRevise the plan."
SHELL = "I ran the following shell command:\n```sh\nls\n```\n\nThis produced the following result:\n```\ntea\n```"


def copy(second: int, *said: tuple[str, str]) -> list[Line]:
    """Return what Gemini CLI writes of what was said once somebody refuses a tool."""
    lines = [say(second, kind, text, key=f"{second}-{number}") for number, (kind, text) in enumerate(said)]
    lines[0]["content"].insert(0, {"text": OWN})
    return [*lines, {"$set": {"messages": lines}}]


GEMINI_SAID: dict[str, tuple[list[Line], list[str]]] = {
    "answers to questions": (
        [
            SESSION,
            say(1, "user", BLUE),
            say(2, "gemini", ""),
            say(2, "gemini", "", toolCalls=[call("ask_user", ANSWERS, questions=[*TEAS[:2]])]),
        ],
        [BLUE, "Which tea?\nMint\nWhich cup?\nBlue, please"],
    ),
    "words about a plan": (
        [SESSION, say(2, "gemini", BLUE_TOO, toolCalls=[call("exit_plan_mode", REJECTED)])],
        [BLUE_TOO, "Without sugar."],
    ),
    "what a tool has read": (
        [SESSION, say(2, "gemini", BLUE_TOO, toolCalls=[call("read_file", REJECTED), call("sh", ANSWERS)])],
        [BLUE_TOO],
    ),
    "a copy after a refused tool": (
        [
            SESSION,
            {"$set": {"messages": [say(0, "user", OWN, key="own")]}},
            *(say(1, "user", BLUE), say(2, "gemini", BLUE_TOO)),
            *(say(3, "user", "Go on."), say(4, "gemini", "Yes."), say(5, "user", "Boil it.")),
            *copy(6, ("user", BLUE), ("gemini", BLUE_TOO), ("user", "Go on."), ("gemini", "Yes.")),
            *(say(7, "user", "Go on."), say(8, "gemini", "Yes."), say(9, "user", "Boil it.")),
            *copy(10, ("user", BLUE), ("gemini", BLUE_TOO), *(("user", "Go on."), ("gemini", "Yes.")) * 2),
            say(11, "user", "Go on."),
        ],
        [BLUE, BLUE_TOO, "Go on.", "Yes.", "Boil it.", "Go on.", "Yes.", "Boil it.", "Go on."],
    ),
    "a copy of what was said elsewhere": (
        [SESSION, say(1, "user", BLUE), *copy(2, ("user", BLUE), ("gemini", "Elsewhere."))],
        [BLUE, "Elsewhere."],
    ),
    "a copy of what was typed otherwise": (
        [
            SESSION,
            say(1, "user", "Brew: tea", displayContent=[{"text": "/brew tea"}]),
            *copy(2, ("user", "Brew: tea")),
        ],
        ["/brew tea"],
    ),
    "a command of the shell": ([SESSION, say(1, "user", SHELL), say(2, "user", BLUE)], [BLUE]),
}
