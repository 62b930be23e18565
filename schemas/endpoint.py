"""Whether an embedder that somebody else serves can be reached. Imported by the stdio relay: standard library only."""

from typing import Final

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
