"""Which memory is meant by the beginning of an id."""

from __future__ import annotations

import re
from typing import Final

from engramq.deploy.cli.door import Door
from engramq.deploy.cli.output import refuse
from engramq.schemas.command_line import CommandFailed, ExitCode
from engramq.schemas.vocabulary import MemoryState, Partition, Verification

# Ids begin with the time in milliseconds, 12 hex digits; 8 of them are a minute.
LEAST_DIGITS: Final = 8
PAGE: Final = 100
PAGES: Final = 50  # the newest 5,000 are looked through
BEGINNING: Final = re.compile(r"[0-9a-f]{8}(-([0-9a-f]{0,4}(-[0-9a-f]{0,4}){0,2}(-[0-9a-f]{0,12})?)?)?", re.IGNORECASE)
WHOLE: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def is_beginning(text: str) -> bool:
    """Say whether a text can be an id, or the beginning of one."""
    return BEGINNING.fullmatch(text) is not None


def memory_id(door: Door, text: str) -> str:
    """Return the id that a text is, or the one that begins with it; raises CommandFailed when there is not just one.

    Ids are in the order of time, and so is the list: it is read until it has passed the beginning.
    """
    if WHOLE.fullmatch(text):
        return text.lower()
    if not is_beginning(text):
        raise CommandFailed(f"{text!r} is no id, nor the first {LEAST_DIGITS} digits or more of one.", ExitCode.MISUSED)
    beginning, found, cursor = text.lower(), list[str](), None
    for _ in range(PAGES):
        ids, cursor = _page(door, cursor)
        found += [one for one in ids if one.startswith(beginning)]
        if cursor is None or all(one < beginning for one in ids):
            break
    else:
        if not found:
            raise CommandFailed(f"No id of the newest {PAGES * PAGE} begins with {text}. Give the whole id.")
    if len(found) == 1:
        return found[0]
    if not found:
        raise CommandFailed(f"No memory has an id that begins with {text}.")
    several = ", ".join(found[:5]) + (" and more" if len(found) > 5 else "")
    raise CommandFailed(f"{len(found)} ids begin with {text}: {several}. Give more of it.", ExitCode.MISUSED)


def _page(door: Door, cursor: str | None) -> tuple[list[str], str | None]:
    """Return the next ids, newest first, whatever their state, and where the list goes on."""
    every = {
        "partitions": list(Partition),
        "states": list(MemoryState),
        "verifications": list(Verification),
        "include_superseded": True,
        "project": "*",
    }
    reply = door.call("list_recent_memories", {**every, "limit": PAGE, "max_chars": 200_000, "cursor": cursor})
    refuse(reply)
    return [str(one["id"]) for one in reply["memories"]], reply["next_cursor"]
