"""How many tokens of o200k a text has, counted without a network."""

import warnings
from functools import cache
from typing import Any


def tokens(text: str) -> int:
    """Return the number of tokens that the text is, special ones not counted as such."""
    return len(_encoding().encode_ordinary(text))


@cache
def _encoding() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how the package opens its own files
        import bpe_openai  # noqa: PLC0415 - reads its tables, for those alone who count

        return bpe_openai.get_encoding("o200k_base")
