"""Texts of others on a terminal."""


def printable(text: str | None) -> str:
    """Return a text for a terminal: whoever wrote it may have put control characters into it."""
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in text or "")
