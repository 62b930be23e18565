"""Which embedder makes the vectors of a home: the one that made some last, unless a start names another.

So nobody turns a store to another model by leaving a variable out. The home's worker writes the file. Imported by the
stdio relay: standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping

from engramq.deploy import settings
from engramq.deploy.home import Home
from engramq.schemas.kept_embedder import KeptEmbedder, kept_in


def kept_embedder(home: Home) -> KeptEmbedder:
    """Return the embedder that made vectors of the home last, nothing where none did."""
    try:
        return kept_in(home.embedder.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return KeptEmbedder()


def with_embedder(home: Home, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables, with the home's embedder and its endpoint where they name none.

    The endpoint comes with the name: texts that went to a server of one's own are shown to no other.
    """
    named = dict(environment)
    if not named.get(settings.EMBEDDER) and (kept := kept_embedder(home)).name:
        named[settings.EMBEDDER] = kept.name
        if kept.url and not named.get(settings.EMBEDDER_URL):
            named[settings.EMBEDDER_URL] = kept.url
    return named
