"""The parameters of a `rediss://` URL: redis-py's own, as PostgreSQL's are libpq's. Whatever opens the URL takes them.

The name in the server's certificate is compared too, which redis-py 5 leaves out unless it is told to.
"""

from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

# For redis-py's clients: else each connection names the library, which a user of the least rights may not.
UNNAMED: Final[dict[str, Any]] = {"lib_name": None, "lib_version": None}

TLS_SCHEME: Final = "rediss"
FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
CHECK_NAME: Final = "ssl_check_hostname"
CHOICES: Final = {"ssl_cert_reqs": ("required", "optional", "none"), CHECK_NAME: ("true", "false")}


def checked(url: str) -> str:
    """Return a Redis URL with the host's name checked unless it says otherwise; raises ValueError for bad parameters.

    Other URLs than `rediss` are returned as they are.
    """
    parts = urlsplit(url)
    given = {name: value for name, value in parse_qsl(parts.query, keep_blank_values=True) if name.startswith("ssl_")}
    if not parts.scheme.startswith(TLS_SCHEME):
        if given:
            raise ValueError(f"must begin with {TLS_SCHEME}:// for {min(given)} to count")
        return url
    for name, value in given.items():
        _check(name, value)
    if ("ssl_certfile" in given) != ("ssl_keyfile" in given):
        raise ValueError("must name ssl_certfile and ssl_keyfile, both or neither")
    if CHECK_NAME in given or given.get("ssl_cert_reqs", "required") != "required":
        return url
    return f"{url}{'&' if parts.query else '?'}{CHECK_NAME}=true"


def _check(name: str, value: str) -> None:
    if name in CHOICES:
        if value.lower() not in CHOICES[name]:
            raise ValueError(f"must have {name} as {' or '.join(CHOICES[name])}")
    elif name not in FILES:
        raise ValueError(f"takes of TLS only {', '.join((*FILES, *CHOICES))}")
    elif not Path(value).is_absolute():
        raise ValueError(f"must name in {name} a file by its absolute path")
