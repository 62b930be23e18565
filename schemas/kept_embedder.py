"""How a home's file says which embedder made its vectors: the name, then the URL of its endpoint, a line each.

Imported by the stdio relay: standard library only.
"""

from typing import Final, NamedTuple

_LONGEST: Final = 2_000  # characters of a line; what is longer was not written by `text_of`


class KeptEmbedder(NamedTuple):
    """As ENGRAMQ_EMBEDDER and ENGRAMQ_EMBEDDER_URL say it; nothing where none is kept."""

    name: str = ""
    url: str = ""


def text_of(kept: KeptEmbedder) -> str:
    """Return what the file holds."""
    return f"{kept.name}\n{kept.url}\n"


def kept_in(text: str) -> KeptEmbedder:
    """Return what a file says; nothing where `text_of` has not written it."""
    name, _, rest = text.partition("\n")
    url, end, more = rest.partition("\n")
    is_ours = name and end and not more and all(one.isprintable() and len(one) <= _LONGEST for one in (name, url))
    return KeptEmbedder(name, url) if is_ours else KeptEmbedder()
