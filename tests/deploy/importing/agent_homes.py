"""Past sessions of coding agents, in small, as their released versions leave them below a person's folder.

The forms are those of Claude Code 2.1.197, Codex 0.169.0, Gemini CLI 0.61.0, OpenCode 1.18.33, Copilot CLI 1.0.102,
Qwen Code 0.24.4, pi 1.6.0, Cline 3.0.65 and Continue 1.5.47, which were run; what is said is our own. Cursor was never
run: its form is as others have described it.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Final

USER: Final = "user"
ASSISTANT: Final = "assistant"
SAID: Final = (
    (USER, "We deploy the zebra server on Fridays."),
    (ASSISTANT, "Then I shall wait for Friday."),
)
TOOL_OUTPUT: Final = "drwxr-xr-x crocodiles"
BY_SUBAGENT: Final = "A subagent counts the giraffes."
SUMMED_UP: Final = "This session is continued from an earlier one about pelicans."
DAY: Final = "2026-03-02"
Turns = Iterable[tuple[str, str]]


def moment(number: int) -> str:
    return f"{DAY}T10:{number // 60:02}:{number % 60:02}.250Z"


def lines_of(lines: Iterable[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def claude_code(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, a turn of a subagent and a compaction."""
    place = home / ".claude" / "projects" / folder.replace("/", "-").replace(" ", "-")
    place.mkdir(parents=True, exist_ok=True)
    common = {"isSidechain": False, "userType": "external", "cwd": folder, "sessionId": session, "version": "2.1.197"}

    def line(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
        named = {"uuid": f"{session}-{number}", "timestamp": moment(number)}
        return {**common, "type": kind, "message": {"role": kind, "content": content}, **named, **more}

    lines: list[dict[str, Any]] = [
        {"type": "queue-operation", "operation": "enqueue", "timestamp": moment(0), "sessionId": session}
    ]
    for number, (speaker, text) in enumerate(turns):
        lines.append(line(number, speaker, text if speaker == USER else [{"type": "text", "text": text}]))
    lines += [
        line(900, ASSISTANT, [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]),
        line(901, USER, [{"type": "tool_result", "tool_use_id": "toolu_1", "content": TOOL_OUTPUT}]),
        line(902, ASSISTANT, [{"type": "text", "text": BY_SUBAGENT}], isSidechain=True),
        line(903, USER, SUMMED_UP, isCompactSummary=True, isVisibleInTranscriptOnly=True),
        line(904, USER, "<command-name>/clear</command-name>", isMeta=True),
    ]
    path = place / f"{session}.jsonl"
    path.write_text(lines_of(lines))
    subagents = place / session / "subagents"
    subagents.mkdir(parents=True)
    (subagents / "agent-1.jsonl").write_text(lines_of([line(905, USER, BY_SUBAGENT, isSidechain=True)]))
    return path


def codex(home: Path, folder: str, session: str, turns: Turns = SAID, source: Any = "cli") -> Path:
    """Write a session, with a tool's output and a compaction."""
    place = home / ".codex" / "sessions" / DAY.replace("-", "/")
    place.mkdir(parents=True, exist_ok=True)
    meta = {"id": session, "timestamp": moment(0), "cwd": folder, "cli_version": "0.169.0", "source": source}
    lines: list[tuple[str, dict[str, Any]]] = [("session_meta", meta)]
    for number, (speaker, text) in enumerate(turns):
        kind, block = ("UserMessage", "text") if speaker == USER else ("AgentMessage", "Text")
        item = {"type": kind, "id": f"{session}-{number}", "content": [{"type": block, "text": text}]}
        message = {"type": "message", "role": speaker, "content": [{"type": "input_text", "text": text}]}
        lines += [("response_item", message), ("event_msg", {"type": "item_completed", "item": item})]
    lines += [
        ("response_item", {"type": "function_call_output", "call_id": "call_1", "output": TOOL_OUTPUT}),
        ("compacted", {"message": SUMMED_UP}),
    ]
    path = place / f"rollout-{DAY}T10-00-00-{session}.jsonl"
    path.write_text(
        lines_of(
            {"timestamp": moment(at), "type": kind, "payload": payload} for at, (kind, payload) in enumerate(lines)
        )
    )
    return path


def gemini(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a thought, a tool's output, and one of a subagent beside it."""
    place = home / ".gemini" / "tmp" / Path(folder).name
    (place / "chats" / session).mkdir(parents=True)
    (place / ".project_root").write_text(folder)
    head = {"sessionId": session, "projectHash": "c09115", "startTime": moment(0), "lastUpdated": moment(0)}
    lines: list[dict[str, Any]] = [{**head, "kind": "main"}]
    for number, (speaker, text) in enumerate(turns):
        common = {"id": f"{session}-{number}", "timestamp": moment(number)}
        if speaker == USER:
            lines.append({**common, "type": "user", "content": [{"text": text}]})
        else:
            message = {**common, "type": "gemini", "content": text, "thoughts": [{"subject": "?"}], "model": "gemini-3"}
            call = {"id": "1", "name": "list_directory", "result": TOOL_OUTPUT}
            lines += [message, {"$set": {"lastUpdated": moment(number)}}, {**message, "toolCalls": [call]}]
    path = place / "chats" / f"session-{DAY}T10-00-{session[:8]}.jsonl"
    path.write_text(lines_of(lines))
    by_subagent = {"id": "s1", "timestamp": moment(9), "type": "user", "content": [{"text": BY_SUBAGENT}]}
    (place / "chats" / session / "s.jsonl").write_text(lines_of([{**head, "kind": "subagent"}, by_subagent]))
    return path


def gemini_object(home: Path, folder: str, session: str) -> Path:
    """Write a session as Gemini CLI wrote it before it wrote lines: one JSON object."""
    lines = [json.loads(line) for line in gemini(home, folder, session).read_text().splitlines()]
    path = next((home / ".gemini" / "tmp" / Path(folder).name / "chats").glob("session-*.jsonl"))
    path.unlink()
    path = path.with_suffix(".json")
    path.write_text(json.dumps({**lines[0], "messages": [line for line in lines[1:] if "id" in line]}))
    return path


def milliseconds(number: int) -> int:
    return int(datetime.fromisoformat(moment(number)).timestamp() * 1000)


OPENCODE: Final = """
create table if not exists session (id text primary key, parent_id text, directory text, time_created integer);
create table if not exists message (id text primary key, session_id text, time_created integer, data text);
create table if not exists part (id text primary key, message_id text, session_id text, data text);
"""
CURSOR: Final = """
create table if not exists ItemTable (key text unique on conflict replace, value blob);
create table if not exists cursorDiskKV (key text unique on conflict replace, value blob);
"""


def opencode(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session into the database, with a tool's output, a file that was read, a summary, and a subagent's."""
    path = home / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(OPENCODE)
        for key, parent in ((session, None), (f"{session}-agent", session)):
            database.execute("insert into session values (?, ?, ?, ?)", (key, parent, folder, milliseconds(0)))
        for message, data, parts in _opencode_messages(session, turns):
            at = data["time"]["created"]
            database.execute("insert into message values (?, ?, ?, ?)", (message, session, at, json.dumps(data)))
            for number, part in enumerate(parts):
                row = (f"{message}-{number}", message, session, json.dumps(part, separators=(",", ":")))
                database.execute("insert into part values (?, ?, ?, ?)", row)
        by_subagent = json.dumps({"role": "user", "time": {}})
        database.execute(
            "insert into message values (?, ?, ?, ?)",
            (f"{session}-sub", f"{session}-agent", milliseconds(9), by_subagent),
        )
        text = json.dumps({"type": "text", "text": BY_SUBAGENT})
        database.execute("insert into part values (?, ?, ?, ?)", ("sub", f"{session}-sub", f"{session}-agent", text))
    return path


def _opencode_messages(session: str, turns: Turns) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    for number, (speaker, text) in enumerate(turns):
        at = milliseconds(number)
        parts: list[dict[str, Any]] = [
            {"type": "step-start"},
            {"type": "text", "text": text},
            {"type": "text", "text": TOOL_OUTPUT, "synthetic": True},
            {"type": "tool", "state": {"output": TOOL_OUTPUT, "text": "text"}},
        ]
        times = {"created": at} if speaker == USER else {"created": at, "completed": at}
        yield f"msg_{session}{number}", {"role": speaker, "time": times}, parts
    at = milliseconds(80)
    summary = {"role": ASSISTANT, "summary": True, "time": {"created": at, "completed": at}}
    yield f"msg_{session}98", summary, [{"type": "text", "text": SUMMED_UP}]
    yield f"msg_{session}99", {"role": ASSISTANT, "time": {"created": at}}, [{"type": "text", "text": "Half an ans"}]


def opencode_files(home: Path, folder: str, session: str) -> Path:
    """Write the same session as OpenCode wrote it before it had a database: a file for each part."""
    storage = home / ".local" / "share" / "opencode" / "storage"
    path = storage / "session" / "global" / f"{session}.json"
    files: dict[Path, dict[str, Any]] = {path: {"id": session, "directory": folder, "time": {}}}
    for message, data, parts in _opencode_messages(session, SAID):
        files[storage / "message" / session / f"{message}.json"] = data
        files |= {storage / "part" / message / f"{number}.json": part for number, part in enumerate(parts)}
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))
    return path


def cursor(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session into the database, with a tool's output and a thought, and one of a subagent."""
    user = home / ".config" / "Cursor" / "User"
    path = user / "globalStorage" / "state.vscdb"
    window = user / "workspaceStorage" / f"w{session}"
    for place in (path.parent, window):
        place.mkdir(parents=True, exist_ok=True)
    (window / "workspace.json").write_text(json.dumps({"folder": f"file://{folder.replace(' ', '%20')}"}))
    bubbles: list[tuple[str, dict[str, Any]]] = [
        (f"b{number}", {"type": 1 if who == USER else 2, "text": text}) for number, (who, text) in enumerate(turns)
    ]
    bubbles.append(("tool", {"type": 2, "text": "", "toolFormerData": {"result": TOOL_OUTPUT}}))
    composer: dict[str, Any] = {
        "composerId": session, "createdAt": milliseconds(0),
        "fullConversationHeadersOnly": [{"bubbleId": key} for key, _ in bubbles],
    }  # fmt: skip
    other = f"{session}-agent"
    rows: dict[str, Any] = {
        f"composerData:{session}": composer,
        f"composerData:{other}": {"composerId": other, "isSubagent": True},
        f"bubbleId:{other}:b0": {"type": 1, "text": BY_SUBAGENT},
        **{
            f"bubbleId:{session}:{key}": {**bubble, "bubbleId": key, "createdAt": moment(number)}
            for number, (key, bubble) in enumerate(bubbles)
        },
    }
    _write_cursor(path, "cursorDiskKV", rows)
    listed = {"composer.composerData": {"allComposers": [{"composerId": session}, {"composerId": other}]}}
    _write_cursor(window / "state.vscdb", "ItemTable", listed)
    return path


def _write_cursor(path: Path, table: str, rows: dict[str, Any]) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(CURSOR)
        for key, value in rows.items():
            database.execute(f"insert into {table} values (?, ?)", (key, json.dumps(value)))


def copilot(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, a notice of the program, and a turn of a subagent."""
    path = home / ".copilot" / "session-state" / session / "events.jsonl"
    path.parent.mkdir(parents=True)

    def line(number: int, kind: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"type": kind, "data": data, "id": f"{session}-{number}", "timestamp": moment(number), **more}

    lines = [line(0, "session.start", {"sessionId": session, "context": {"cwd": folder}})]
    for number, (speaker, text) in enumerate(turns):
        lines.append(line(number, f"{speaker}.message", {"content": text, "transformedContent": f"<t>1</t> {text}"}))
    lines += [
        line(900, "assistant.message", {"content": "", "toolRequests": [{"name": "bash"}]}),
        line(901, "tool.execution_complete", {"success": True, "result": {"content": TOOL_OUTPUT}}),
        line(902, "system.notification", {"content": "The shell has ended."}),
        line(903, "assistant.message", {"content": BY_SUBAGENT}, agentId="a1"),
    ]
    path.write_text(lines_of({**each, "parentId": None} for each in lines))
    return path


def qwen(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, a compaction and a turn of a subagent."""
    path = home / ".qwen" / "projects" / folder.replace("/", "-") / "chats" / f"{session}.jsonl"
    path.parent.mkdir(parents=True)

    def line(number: int, kind: str, whose: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
        named = {"uuid": f"{session}-{number}", "sessionId": session, "timestamp": moment(number), "cwd": folder}
        return {**named, "type": kind, "provenance": whose, "message": {"role": "user", "parts": list(parts)}, **more}

    lines = [
        line(number, speaker, "real_user" if speaker == USER else "assistant_output", {"text": text})
        for number, (speaker, text) in enumerate(turns)
    ]
    lines += [
        line(900, ASSISTANT, "assistant_output", {"functionCall": {"name": "run_shell_command"}}),
        line(901, "tool_result", "tool_result", {"functionResponse": {"response": {"output": TOOL_OUTPUT}}}),
        line(902, "system", "system", subtype="chat_compression", systemPayload={"text": SUMMED_UP}),
        line(903, ASSISTANT, "subagent", {"text": BY_SUBAGENT}),
    ]
    path.write_text(lines_of(lines))
    return path


def pi(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, a compaction and an answer that was broken off."""
    place = home / ".pi" / "agent" / "sessions" / f"-{folder.replace('/', '-')}--"
    place.mkdir(parents=True)

    def entry(number: int, role: str, text: str, **more: Any) -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": text}], "timestamp": milliseconds(number), **more}
        return {"type": "message", "id": f"{number:08x}", "timestamp": moment(number), "message": message}

    lines = [{"type": "session", "version": 3, "id": session, "timestamp": moment(0), "cwd": folder}]
    lines += [entry(number, speaker, text) for number, (speaker, text) in enumerate(turns)]
    lines += [
        entry(900, "toolResult", TOOL_OUTPUT),
        entry(901, ASSISTANT, "Half an answ", stopReason="aborted"),
        {"type": "compaction", "id": "c0", "timestamp": moment(902), "summary": SUMMED_UP},
    ]
    path = place / f"{DAY}T10-00-00-250Z_{session}.jsonl"
    path.write_text(lines_of(lines))
    return path


def cline(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, a file that was named, a compaction beside, and one of a subagent."""
    place = home / ".cline" / "data" / "sessions" / session
    place.mkdir(parents=True)

    def message(number: int, role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
        return {"id": f"{session}-{number}", "role": role, "content": list(blocks), "ts": milliseconds(number)}

    def typed(text: str) -> dict[str, Any]:
        return {"type": "text", "text": f'<user_input mode="act">{text}</user_input>'}

    said = [
        message(number, speaker, typed(text) if speaker == USER else {"type": "text", "text": text})
        for number, (speaker, text) in enumerate(turns)
    ]
    said += [
        message(900, ASSISTANT, {"type": "tool_use", "id": "call_1", "name": "run_commands", "input": {}}),
        message(901, USER, {"type": "tool_result", "tool_use_id": "call_1", "name": "run_commands", "content": "ls"}),
        message(902, USER, {"type": "file", "path": "ls.txt", "content": TOOL_OUTPUT}),
    ]
    head = {"version": 1, "origin": {"source": "cli"}}
    path = place / f"{session}.messages.json"
    path.write_text(json.dumps({**head, "agent": "lead", "sessionId": session, "messages": said}, indent=2))
    (place / f"{session}.json").write_text(json.dumps({"session_id": session, "cwd": folder}))
    (place / f"{session}.compaction.json").write_text(json.dumps({"messages": [message(903, USER, typed(SUMMED_UP))]}))
    by_subagent = {"agent": "subagent", "sessionId": f"{session}__agent_1", "messages": [message(904, USER)]}
    (place / "agent_1.messages.json").write_text(json.dumps({**head, **by_subagent}))
    return path


def continue_dev(home: Path, folder: str, session: str, turns: Turns = SAID) -> Path:
    """Write a session, with a tool's output, and a summary where a compaction has taken the turns before it out."""
    place = home / ".continue" / "sessions"
    place.mkdir(parents=True, exist_ok=True)
    history: list[dict[str, Any]] = [
        {"message": {"role": ASSISTANT, "content": SUMMED_UP}, "contextItems": [], "conversationSummary": SUMMED_UP}
    ]
    history += [{"message": {"role": speaker, "content": text}, "contextItems": []} for speaker, text in turns]
    shown = {"status": "done", "toolCall": {"function": {"name": "Bash"}}, "output": [{"content": TOOL_OUTPUT}]}
    history.append({"message": {"role": ASSISTANT, "content": ""}, "contextItems": [], "toolCallStates": [shown]})
    head = {"sessionId": session, "title": "Untitled Session", "workspaceDirectory": folder}
    path = place / f"{session}.json"
    path.write_text(json.dumps({**head, "history": history}, indent=2))
    (place / "sessions.json").write_text(json.dumps([{**head, "dateCreated": "1772445600250", "messageCount": 2}]))
    return path


WRITERS: Final = {
    "claude-code": claude_code, "codex": codex, "gemini": gemini, "cursor": cursor, "opencode": opencode,
    "copilot": copilot, "qwen": qwen, "pi": pi, "cline": cline, "continue": continue_dev,
}  # fmt: skip
