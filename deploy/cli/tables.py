"""Memories for people: a table on a terminal, a line for each elsewhere. What others wrote is inert in both."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

import click

from engramq.deploy.cli.door import Reply
from engramq.deploy.cli.output import printable
from engramq.schemas.vocabulary import MemoryState, Partition, Verification

Memory = dict[str, Any]

ID_CHARS: Final = 13  # of an id in a table, unless more tells it from others there: its time in milliseconds
WIDE: Final = 90  # columns from which tags and the like have one of their own
WEAK: Final = "weak"  # the field of a hit that probably does not answer, and its mark
NO_PROJECT: Final = "-"  # how a list names what is in none
TIME_CHARS: Final = 16  # to the minute
# What `show` says, in this order, where a memory has it; the rest is for --json.
FIELDS: Final = (
    *("id", "external_id", "created_at", "created_by", "occurred_at", "speaker", "thread", "position", "project"),
    *("tags", "sector", "partition", "verification", "state", "source", "source_type", "confidence"),
    *("valid_from", "valid_until", "expires_at", "supersedes", "superseded_by", "metadata"),
)


def draw_list(reply: Reply) -> None:
    """Print memories: as a table that fits the terminal, or, where there is none, in whole lines with tabs between."""
    memories = reply["memories"]
    if not sys.stdout.isatty():
        for memory in memories:
            click.echo("\t".join((memory["id"], _when(memory), _marks(memory), printable(memory["content"]))))
    elif memories:
        _draw_table(memories)
    if not memories:
        click.echo("No memories.", err=True)
    if reply.get("omitted"):
        click.echo("There are more than fit in one reply: ask for fewer.", err=True)


def draw_page(reply: Reply) -> None:
    """Print memories as `draw_list` does, and how to go on."""
    draw_list(reply)
    if reply.get("next_cursor"):
        click.echo(f"There are more: --cursor {reply['next_cursor']}", err=True)


def draw_projects(reply: Reply) -> None:
    """Print projects with their memories: as a table on a terminal, else in lines with tabs between."""
    projects = reply["projects"]
    names = [printable(one["project"]) if one["project"] is not None else NO_PROJECT for one in projects]
    if sys.stdout.isatty() and projects:
        marks = ["*" if one["project"] == reply["project"] and one["project"] else " " for one in projects]
        wide = max(map(len, names))
        click.echo(click.style(f"  {'PROJECT':<{wide}}  MEMORIES  UNTRUSTED", bold=True))
        for mark, name, one in zip(marks, names, projects, strict=True):
            click.echo(f"{mark} {name:<{wide}}  {one['memories']:>8}  {one['untrusted_count']:>9}")
    else:
        for name, one in zip(names, projects, strict=True):
            click.echo(f"{name}\t{one['memories']}\t{one['untrusted_count']}")
    if not projects:
        click.echo("No memories.", err=True)
    if reply["projects_omitted"]:
        click.echo(f"{reply['projects_omitted']} more have fewer memories than these.", err=True)


def _draw_table(memories: list[Memory]) -> None:
    from rich.console import Console  # noqa: PLC0415 - 0.1 s of imports, which a pipe does without
    from rich.table import Table  # noqa: PLC0415 - see Console
    from rich.text import Text  # noqa: PLC0415 - see Console

    console = Console(highlight=False, markup=False, emoji=False)
    is_wide = console.width >= WIDE
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("ID", no_wrap=True, style="cyan")
    table.add_column("WHEN", no_wrap=True)
    if is_wide:
        table.add_column("MARKS", max_width=24)
    table.add_column("CONTENT", ratio=1)
    ids = [str(one["id"]) for one in memories]
    chars = _telling(ids)
    for memory in memories:
        marks = [Text(_marks(memory), "yellow")] if is_wide else []
        cells = (Text(memory["id"][:chars]), Text(_when(memory)[:TIME_CHARS].replace("T", " ")), *marks)
        table.add_row(*cells, Text(" ".join(_lines(memory["content"])), overflow="fold"), style=_style(memory))
    console.print(table)


def _style(memory: Memory) -> str:
    return "dim" if memory.get(WEAK) else ""


def _telling(ids: list[str]) -> int:
    """Return how many characters tell the ids apart."""
    for chars in range(ID_CHARS, 36):
        if len({one[:chars] for one in ids}) == len(ids):
            return chars
    return 36


def draw_memory(reply: Reply) -> None:
    """Print one memory with its links, or that it is not there."""
    memory = reply.get("memory")
    if memory is None:
        click.echo("There is no such memory.", err=True)
        return
    for name in FIELDS:
        if memory.get(name) not in (None, [], {}):
            click.echo(f"{_label(name)} {printable(_said(memory[name]))}")
    if memory.get("warning"):
        click.echo(_label("warning") + " " + printable(memory["warning"]))
    click.echo()
    for line in _lines(memory["content"]):
        click.echo(line)
    for heading, entries in (("links", reply.get("links")), ("replaces", reply.get("replaces"))):
        if entries:
            click.echo(f"\n{_label(heading)}")
            for one in entries:
                told = (one.get("relation"), one.get("memory_id") or one.get("id"), one.get("preview") or "")
                click.echo("  " + "  ".join(printable(str(each)) for each in told if each is not None))


def _label(name: str) -> str:
    return click.style(f"{name}:", bold=True)  # which click leaves out where nobody sees it


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return "  ".join(f"{name}={each}" for name, each in value.items())
    return str(value)


def _when(memory: Memory) -> str:
    return printable(str(memory.get("occurred_at") or memory["created_at"]))


def _marks(memory: Memory) -> str:
    """Return what sets a memory apart: that it is weak, not trusted or not active, its project, its tags."""
    said: list[str] = [WEAK] if memory.get(WEAK) else []
    if memory.get("partition") == Partition.UNTRUSTED:
        said.append(Partition.UNTRUSTED)
    said += [str(memory[name]) for name in ("state", "verification") if memory.get(name) not in _USUAL]
    said += ["superseded"] if memory.get("superseded_by") else []
    said += [f"@{memory['project']}"] if memory.get("project") else []
    said += [f"#{tag}" for tag in memory.get("tags") or ()]
    return printable(" ".join(said))


_USUAL: Final = (None, MemoryState.ACTIVE, Verification.UNVERIFIED)


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield printable(line)
