"""Say which embedder is chosen, whether its endpoint can be asked, and how a home keeps the choice.

The stdio relay loads this: standard library only.
"""

from typing import Final, NamedTuple

_SERVED: Final = "openai:"


def endpoint_problem(embedder: str, url: str, key: str) -> str | None:
    """Return what is wrong with an embedder for which neither an endpoint nor a key is set, None for any other.

    It would ask the vendor's public endpoint, show it what is stored, and be refused.
    """
    if not embedder.startswith(_SERVED) or url or key:
        return None
    return (
        f"ENGRAMQ_EMBEDDER={embedder!r} has neither ENGRAMQ_EMBEDDER_URL nor ENGRAMQ_EMBEDDER_KEY: set the URL of an "
        "endpoint of your own, or the key for OpenAI's (OPENAI_API_KEY serves too)."
    )


_LONGEST: Final = 2_000  # characters of a line; what is longer was not written by `encode_choice`


class KeptEmbedder(NamedTuple):
    """As ENGRAMQ_EMBEDDER and ENGRAMQ_EMBEDDER_URL say it; nothing where none is kept."""

    name: str = ""
    url: str = ""


def encode_choice(kept: KeptEmbedder) -> str:
    """Return what the file holds."""
    return f"{kept.name}\n{kept.url}\n"


def kept_in(text: str) -> KeptEmbedder:
    """Return what a file says; nothing where `encode_choice` has not written it."""
    name, _, rest = text.partition("\n")
    url, end, more = rest.partition("\n")
    is_ours = name and end and not more and all(line.isprintable() and len(line) <= _LONGEST for line in (name, url))
    return KeptEmbedder(name, url) if is_ours else KeptEmbedder()
