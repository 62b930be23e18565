"""A sector as a caller writes it: exactly one of the five words."""

from engramq.schemas.vocabulary import Sector


def sector_named(text: str) -> Sector | None:
    """Return the sector of exactly this name, None when there is none."""
    try:
        return Sector(text)
    except ValueError:
        return None


def wrong_sector(text: str) -> str:
    """Return what to say of a text that names no sector."""
    return f"Invalid sector: '{text}'. Must be one of: {', '.join(Sector)}"
