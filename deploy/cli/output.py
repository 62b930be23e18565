"""Print what a command has: replies as JSON or text, refusals in one line, lists as tables or lines.

Texts of others are inert in all of them.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, Final, TypeVar

import click
import msgspec

from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.contents import split_by_relevance
from engramq.schemas.faults import FaultCode
from engramq.schemas.ids import format_time
from engramq.schemas.vocabulary import MemoryState, Partition, Verification

ListedItem = TypeVar("ListedItem")
ReplyBody = dict[str, Any]
MemoryBody = dict[str, Any]

ID_CHARS: Final = 13  # of an id in a table, unless more tells it from others there: its time in milliseconds
WIDE: Final = 90  # columns from which tags and the like have one of their own
NARROW: Final = 50  # columns below which a table has no place for contents, and each memory takes lines of its own
DATE_CHARS: Final = 10
# What `show` says, in this order, where a memory has it; the rest is for --json.
FIELDS: Final = (
    *("id", "external_id", "created_at", "created_by", "occurred_at", "speaker", "thread", "position", "project"),
    *("tags", "sector", "partition", "verification", "state", "standing", "source", "source_type", "confidence"),
    *("visibility", "valid_from", "valid_until", "expires_at", "supersedes", "superseded_by", "metadata", "digest"),
)


# What tools say to agents, and commands to people: first whole phrases, then the tools that a command stands for.
_AS_COMMANDS: Final = {
    FaultCode.INVALID_PARAMETER.recovery: "",
    "Call again in a few seconds; if it lasts, run `engramq status`.": "See `engramq status`.",
    "Wait retry_after_s seconds, then call again.": "Try again in a few seconds.",
    "report the command_id to the operator": "see `engramq doctor`",
    "Pass include_untrusted=true to see it": "--untrusted shows it",
    'get_memory with include_untrusted and detail="full"': "engramq show --untrusted",
    "get_memory with include_untrusted": "engramq show --untrusted",
    "forget_memory with erase": "engramq forget --erase",
    "give the new digest as seen": "give its digest by --seen",
    "Use a fresh idempotency_key for a different request.": "",
    "min_relevance 0": "--min-relevance 0",
    'project="*"': "--project '*'",
    "Call again": "Try again",
    "search_memories": "engramq search",
    "list_recent_memories": "engramq list",
    "get_memory": "engramq show",
    "store_memory": "engramq store",
    "verify_memory": "engramq verify",
    "memory_promote_to_trusted": "engramq promote",
    "update_memory": "engramq update",
    "share_memory": "engramq share",
    "unshare_memory": "engramq unshare",
    "supersede_memory": "engramq supersede",
    "forget_memory": "engramq forget",
    "restore_memory": "engramq restore",
}
# A sentence of advice that names what commands have nothing for.
_NO_COMMAND: Final = (
    r"graph_\w+|get_node_by_name|get_edge|list_proposals|begin_session|get_command|disconnect|if_exists"
)
_FOR_AGENTS: Final = re.compile(rf"[^.!?]*\b(?:{_NO_COMMAND})\b[^.!?]*[.!?]\s*")


def printable(text: str | None) -> str:
    """Return a text for a terminal, without control characters that its author may have put into it."""
    return "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text or "")


def quoted(text: str) -> str:
    """Return a chosen name so that it stays on its line whatever it holds."""
    return text if text.isprintable() and text.strip() == text and '"' not in text else ascii(text)


def join_parts(*parts: str) -> str:
    """Return the parts of a line that say anything."""
    return "  ".join(filter(None, parts))


def json_line(value: Any, **first: Any) -> str:
    """Return a dictionary, a dataclass or a Struct as JSON on one line, behind the fields of `first`."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    fields = {**first, **(value if isinstance(value, dict) else asdict(value))}
    times = {name: format_time(field) for name, field in fields.items() if isinstance(field, datetime)}
    return msgspec.json.encode(fields | times).decode()


def print_list(
    listed: Iterable[ListedItem],
    as_text: Callable[[ListedItem], str],
    *,
    as_json: bool,
    none: str,
    to_json: Callable[[ListedItem], str] = json_line,
) -> None:
    """Print what a command lists, one a line, each as it comes; where nothing comes, `none` goes to standard error."""
    is_empty = True
    for entry in listed:
        click.echo((to_json if as_json else as_text)(entry))
        is_empty = False
    if is_empty and not as_json:
        click.echo(none, err=True)


def print_reply(reply: ReplyBody, draw: Callable[[ReplyBody], None], *, as_json: bool) -> ExitCode:
    """Print a reply as JSON, just as it came, or by `draw`; returns how the command ends.

    Raises CommandFailed for a refusal, unless it is printed.
    """
    code = exit_code(reply)
    if as_json:
        click.echo(json.dumps(reply, ensure_ascii=False))
        return code
    refuse(reply)
    if reply["status"] != "not_found":
        draw(reply)
    for name in ("notice", "hint"):
        if reply.get(name):
            click.echo(printable(for_people(str(reply[name]))), err=True)
    if reply.get("degraded"):
        click.echo("The embedder did not answer: this is by words only.", err=True)
    return code


def exit_code(reply: ReplyBody) -> ExitCode:
    """Return how a command ends that got this reply."""
    match reply["status"]:
        case "invalid_parameter":
            return ExitCode.MISUSED
        case "error" | "not_found" | "refused":
            return ExitCode.FAILED
        case "pending":
            return ExitCode.MIDWAY
        case _:
            return ExitCode.DONE


def refuse(reply: ReplyBody) -> None:
    """Raise CommandFailed for a refusal, and for a write that is not done yet."""
    if reply["status"] in ("invalid_parameter", "error"):
        raise CommandFailed(refusal_text(reply["error"], reply.get("recovery", "")), exit_code(reply))
    if reply["status"] == "pending":
        command = printable(str(reply["command_id"]))
        raise CommandFailed(f"It is taken, and not done yet (command {command}). See engramq status.", ExitCode.MIDWAY)


def for_people(text: str) -> str:
    """Return what a tool tells an agent in the words of the commands."""
    return _in_commands(_FOR_AGENTS.sub("", text))


def refusal_text(error: str, recovery: str) -> str:
    """Return what a terminal shows of a refusal, in the words of the commands."""
    return printable(f"{_in_commands(error)} {for_people(recovery)}".strip())


def _in_commands(text: str) -> str:
    for tools, commands in _AS_COMMANDS.items():
        text = text.replace(tools, commands)
    return text.strip()


def draw_list(reply: ReplyBody) -> None:
    """Print memories: as a table that fits the terminal, or, where there is none, in whole lines with tabs between."""
    _draw(reply, reply["memories"], [])


def draw_hits(reply: ReplyBody) -> None:
    """Print what a search found as `draw_list` does, each hit with its relevance, the less likely ones under a line."""
    _draw(reply, *split_by_relevance(reply["memories"]), are_hits=True)


def _draw(reply: ReplyBody, memories: list[MemoryBody], unlikely: list[MemoryBody], *, are_hits: bool = False) -> None:
    if sys.stdout.isatty():
        if memories or unlikely:
            _draw_table(memories, unlikely, are_hits=are_hits)
    else:
        for memory in [*memories, *unlikely]:
            cells = [memory["id"], _when(memory), _marks(memory), printable(memory["content"])]
            click.echo("\t".join([*cells, *([_relevance(memory)] if are_hits else [])]))
    if reply.get("omitted"):
        click.echo("There are more than fit in one reply: ask for fewer.", err=True)


def draw_page(reply: ReplyBody) -> None:
    """Print memories as `draw_list` does, and how to go on."""
    draw_list(reply)
    if reply.get("next_cursor"):
        click.echo(f"There are more: --cursor {reply['next_cursor']}", err=True)


def _draw_table(memories: list[MemoryBody], unlikely: list[MemoryBody], *, are_hits: bool) -> None:
    from rich.console import Console  # noqa: PLC0415 - 0.1 s of imports, which a pipe does without
    from rich.table import Table  # noqa: PLC0415 - see Console
    from rich.text import Text  # noqa: PLC0415 - see Console

    console = Console(highlight=False, markup=False, emoji=False)
    is_wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ID", no_wrap=True, style="cyan")
    here = datetime.now().astimezone().tzinfo  # one zone for all rows, so that the heading is true of each
    assert here is not None
    # The time that a list is in the order of, or of hits when each happened.
    table.add_column(f"{'WHEN' if are_hits else 'STORED'} ({here.tzname(None)})", no_wrap=True)
    if are_hits:
        table.add_column("LIKELY", justify="right")
    if is_wide:
        table.add_column("MARKS", max_width=24)
    table.add_column("CONTENT", ratio=1)
    ids = [str(memory["id"]) for memory in [*memories, *unlikely]]
    # As many characters as tell the ids apart.
    chars = next((chars for chars in range(ID_CHARS, 36) if len({text[:chars] for text in ids}) == len(ids)), 36)
    for place, memory in enumerate([*memories, *unlikely]):
        if unlikely and place == len(memories):
            line = Text("-- less likely --", "dim")
            if console.width < NARROW:
                console.print(line)
            else:
                table.add_row(*[""] * (len(table.columns) - 1), line)
        chance = [Text(_relevance(memory))] if are_hits else []
        marks = [Text(_marks(memory), "yellow")] if is_wide else []
        moment = _local(_when(memory) if are_hits else str(memory["created_at"]), here)
        content = Text(" ".join(_lines(memory["content"])), overflow="fold")
        if console.width < NARROW:
            console.print(Text(memory["id"][:chars], "cyan"), no_wrap=True, crop=False, overflow="ignore")
            console.print(Text(" ".join((moment, *map(str, chance)))), content, sep="\n")
        else:
            table.add_row(Text(memory["id"][:chars]), Text(moment), *chance, *marks, content)
    if table.row_count:
        console.print(table)


def draw_memory(reply: ReplyBody, *, err: bool = False) -> None:
    """Print one memory with its links; on standard error where a command does something else with it."""
    memory, echo = reply["memory"], partial(click.echo, err=err)
    for name in FIELDS:
        if (value := memory.get(name)) not in (None, [], {}):
            if isinstance(value, list):
                value = ", ".join(map(str, value))
            elif isinstance(value, dict):
                value = "  ".join(f"{key}={field}" for key, field in value.items())
            echo(f"{_label(name)} {printable(str(value))}")
    if memory.get("warning"):
        echo(_label("warning") + " " + printable(memory["warning"]))
    echo()
    for line in _lines(memory["content"]):
        echo(line)
    if memory.get("evidence"):
        echo(f"\n{_label('evidence')}")
        for citation in memory["evidence"]:
            echo("  " + printable("  ".join(f"{key}={said}" for key, said in citation.items())))
    for heading, entries in (("links", reply.get("links")), ("replaces", reply.get("replaces"))):
        if entries:
            echo(f"\n{_label(heading)}")
            for entry in entries:
                cells = (entry.get("relation"), entry.get("memory_id") or entry.get("id"), entry.get("preview") or "")
                echo("  " + "  ".join(printable(str(cell)) for cell in cells if cell is not None))


def draw_still_hidden(reply: ReplyBody) -> None:
    """Name what a memory had replaced that is hidden now, and is hidden still; and what rests on it all the same."""
    for memory in reply.get("still_resting_on") or ():
        click.echo(f"Still resting on it: {memory['id']}  {printable(memory.get('preview'))}", err=True)
    if (more := reply.get("still_resting_count", 0) - len(reply.get("still_resting_on") or ())) > 0:
        click.echo(f"... and {more} more", err=True)
    for memory in reply.get("still_hidden") or ():
        named = f"{memory['id']}  {printable(memory.get('preview'))}"
        click.echo(f"Still hidden, since it had replaced it: {named}. engramq restore shows it.", err=True)


def draw_status(reply: ReplyBody) -> None:
    """Print what became of a memory, and what is hidden still or rests on it."""
    click.echo(reply["status"])
    draw_still_hidden(reply)


def _label(name: str) -> str:
    return click.style(f"{name}:", bold=True)  # which click leaves out where nobody sees it


def _local(text: str, zone: tzinfo) -> str:
    """Return a time to the minute, as clocks of that zone show it; what was given as a date is that date."""
    moment = datetime.fromisoformat(text)
    return (
        text[:DATE_CHARS] if text[DATE_CHARS:].startswith("T00:00:00") else f"{moment.astimezone(zone):%Y-%m-%d %H:%M}"
    )


def _when(memory: MemoryBody) -> str:
    return printable(str(memory.get("occurred_at") or memory["created_at"]))


def _relevance(memory: MemoryBody) -> str:
    """Return the chance that a hit helps; "" where the gateway does not tell it."""
    return f"{memory['relevance']:.2f}" if "relevance" in memory else ""


def _marks(memory: MemoryBody) -> str:
    """Return what sets a memory apart: untrusted, private, not active or disputed, its project, its tags."""
    marks: list[str] = [Partition.UNTRUSTED] if memory.get("partition") == Partition.UNTRUSTED else []
    marks += [str(memory["visibility"])] if memory.get("visibility") else []
    marks += [str(memory[name]) for name in ("state", "verification") if memory.get(name) not in _USUAL]
    marks += ["superseded"] if memory.get("superseded_by") else []
    marks += ["disputed"] if memory.get("differs_from") else []
    marks += [f"@{memory['project']}"] if memory.get("project") else []
    marks += [f"#{tag}" for tag in memory.get("tags") or ()]
    return printable(" ".join(marks))


_USUAL: Final = (None, MemoryState.ACTIVE, Verification.UNVERIFIED)


def _lines(text: str) -> list[str]:
    return [printable(line) for line in text.splitlines()]
