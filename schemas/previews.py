"""The beginning of a content, to know a memory by."""

from typing import Final

CUT: Final = "…"


def preview_of(text: str, limit: int) -> str:
    """Return a text on one line, at most `limit` characters of it, cut at a word and then with `…` at its end.

    White space counts as one space. A word that fills more than half of the line is cut within.
    """
    line = " ".join(text.split(None, limit))  # more words than that do not fit
    if len(line) <= limit:
        return line
    room = limit - len(CUT)
    end = room if line[room] == " " else line.rfind(" ", 0, room)
    return line[: end if end > room // 2 else room].rstrip() + CUT
