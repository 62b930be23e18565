"""The forms of ENGRAMQ_REDIS_URL, and the parameters of TLS in it.

`redis://`, `rediss://` and `unix://` name a server. `redis+cluster://host:port,host:port` and `rediss+cluster://` name
some nodes of a Redis Cluster; user, password and options stand where they stand in the URL of a server.
`redis+sentinel://host:port,host:port/SERVICE` and `rediss+sentinel://` name Sentinels and the master that they watch,
with a database behind it where that is not the first: user and password are the master's, `?sentinel_password=` and
`sentinel_username=` the Sentinels' own. The parameters of `rediss` are redis-py's.
"""

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

SINGLE: Final = ("redis://", "rediss://", "unix://")
CLUSTER: Final = ("redis+cluster://", "rediss+cluster://")
SENTINEL: Final = ("redis+sentinel://", "rediss+sentinel://")
FORMS: Final = (*SINGLE, *CLUSTER, *SENTINEL)
SENTINEL_PORT: Final = 26379
_OF_SENTINELS: Final = ("sentinel_username", "sentinel_password")
USUAL_PORT: Final = 6379

TLS_SCHEME: Final = "rediss"
FILES: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
CHECK_NAME: Final = "ssl_check_hostname"
CHOICES: Final = {"ssl_cert_reqs": ("required", "optional", "none"), CHECK_NAME: ("true", "false")}


class ServerPlace(NamedTuple):
    """The address of a server."""

    host: str
    port: int


def is_cluster(url: str) -> bool:
    """Say whether a URL names a Redis Cluster."""
    return url.startswith(CLUSTER)


class SentinelService(NamedTuple):
    """A service, the Sentinels that know its master, and how to get in: the URLs' hosts are not the ones to go to."""

    service: str
    sentinels: list[ServerPlace]
    master_url: str
    sentinel_url: str


def is_sentinel(url: str) -> bool:
    """Say whether a URL names Sentinels."""
    return url.startswith(SENTINEL)


def sentinels_of(url: str) -> SentinelService:
    """Return what a URL says of Sentinels; raises ValueError that says what is taken."""
    parts = urlsplit(url)
    service, _, database = parts.path.strip("/").partition("/")
    if not service or (database and not database.isdecimal()):
        raise ValueError("must name the master behind the addresses: redis+sentinel://host:port,host:port/NAME")
    user, at, hosts = parts.netloc.rpartition("@")
    given = parse_qsl(parts.query, keep_blank_values=True)
    own = {name: value for name, value in given if name in _OF_SENTINELS}
    shared = urlencode([(name, value) for name, value in given if name not in _OF_SENTINELS], safe="/")
    sentinel_user = ":".join(quote(own.get(name, ""), safe="") for name in _OF_SENTINELS) + "@" if own else ""
    scheme, sentinels = parts.scheme.partition("+")[0], [_place(host, SENTINEL_PORT) for host in hosts.split(",")]
    return SentinelService(
        unquote(service),
        sentinels,
        urlunsplit((scheme, f"{user}{at}sentinel", f"/{database}" if database else "", shared, "")),
        urlunsplit((scheme, f"{sentinel_user}sentinel", "", shared, "")),
    )


def read_servers(url: str) -> tuple[str, list[ServerPlace]]:
    """Return the URL of the first server of several that a URL names, and the addresses of all.

    Raises ValueError that says what is taken.
    """
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    names = hosts.split(",")
    if is_cluster(url) and parts.path not in {"", "/", "/0"}:
        raise ValueError("must name no database: a Redis Cluster has only the first")
    scheme = parts.scheme.partition("+")[0]
    return urlunsplit((scheme, f"{user}{at}{names[0]}", "", parts.query, "")), [_place(name) for name in names]


def _place(text: str, usual_port: int = USUAL_PORT) -> ServerPlace:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port or usual_port
    except ValueError:
        host, port = None, usual_port
    if not host:
        raise ValueError("must name nodes as host:port, with commas")
    return ServerPlace(host, port)


def with_name_check(url: str) -> str:
    """Return a Redis URL with the host's name checked unless it says otherwise; raises ValueError for bad parameters.

    redis-py 5 compares the name in the server's certificate only when it is asked to. Other URLs than `rediss` are
    returned as they are.
    """
    parts = urlsplit(url)
    given = {name: value for name, value in parse_qsl(parts.query, keep_blank_values=True) if name.startswith("ssl_")}
    if not parts.scheme.startswith(TLS_SCHEME):
        if given:
            raise ValueError(f"must begin with {TLS_SCHEME}:// for {min(given)} to count")
        return url
    for name, value in given.items():
        _check_parameter(name, value)
    if ("ssl_certfile" in given) != ("ssl_keyfile" in given):
        raise ValueError("must name ssl_certfile and ssl_keyfile, both or neither")
    if CHECK_NAME in given or given.get("ssl_cert_reqs", "required") != "required":
        return url
    return f"{url}{'&' if parts.query else '?'}{CHECK_NAME}=true"


def _check_parameter(name: str, value: str) -> None:
    if name in CHOICES:
        if value.lower() not in CHOICES[name]:
            raise ValueError(f"must have {name} as {' or '.join(CHOICES[name])}")
    elif name not in FILES:
        raise ValueError(f"takes of TLS only {', '.join((*FILES, *CHOICES))}")
    elif not Path(value).is_absolute():
        raise ValueError(f"must name in {name} a file by its absolute path")
