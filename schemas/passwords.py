"""Show addresses without their passwords: of databases, Redis servers and collectors."""

import re
from typing import Final

# By patterns, since a wrong URL has to be shown too: before the host, and in the query as libpq and redis-py take it.
_BEFORE_HOST: Final = re.compile(r"(?<=://)([^/?#:@]*):[^/?#]*@")
_STARS: Final = "***"
_IN_QUERY: Final = re.compile(r"([?&][^=&#]*password=)[^&#]+", re.IGNORECASE)


def without_password(address: str) -> str:
    """Return the same address with the passwords, if any, starred out."""
    return _IN_QUERY.sub(rf"\1{_STARS}", _BEFORE_HOST.sub(rf"\1:{_STARS}@", address))


def can_be_used(address: str) -> bool:
    """Say whether there is an address, with its password if it has one."""
    return bool(address) and f":{_STARS}@" not in address and f"={_STARS}" not in address
