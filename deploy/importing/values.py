"""Values of other systems as the fields of a memory take them."""

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

from engramq.schemas import limits
from engramq.schemas.ids import format_time

_DIGEST_BYTES: Final = 16


def moment(given: object) -> str | None:
    """Return a time, a text or seconds since 1970, as a field takes it; None for what says nothing.

    A text that is no time is returned as it is, so that its row is rejected by name.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        try:
            return format_time(datetime.fromtimestamp(given, UTC))
        except (OverflowError, OSError, ValueError):
            return str(given)
    return given if isinstance(given, str) and given.strip() else None


def own_id(kind: str, *parts: object) -> str:
    """Return an external id: the format's name and what is unique in it; a long one ends in a digest of all of it."""
    whole = ":".join((kind, *map(str, parts)))
    if len(whole) <= limits.NAME_CHARS:
        return whole
    digest = hashlib.blake2b(whole.encode(errors="surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{whole[: limits.NAME_CHARS - len(digest) - 1]}#{digest}"


def tags(*given: object) -> list[str]:
    """Return the distinct words of lists and texts, in their order; of a text with commas each part. At most 50."""
    found: dict[str, None] = {}
    for one in given:
        several = one if isinstance(one, list) else str(one).split(",") if isinstance(one, str) else []
        found |= dict.fromkeys(word for each in several if (word := str(each).strip().removeprefix("#")))
    return list(found)[: limits.TAGS]


def without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that say something."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
