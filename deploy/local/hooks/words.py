"""Words of `schemas.vocabulary` that hooks need (importing that takes 12 ms; a test compares them), and fit texts."""

from typing import Final

UNTRUSTED: Final = "untrusted"
INVALID: Final = "invalid_parameter"


def storable(text: str) -> str:
    """Return a text as a memory can hold it: no NUL, and no half of a surrogate pair, which JSON may name."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
