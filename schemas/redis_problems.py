"""Put Redis' refusals into words that say how to mend them: missing rights, TLS handshakes and others.

deploy/redis.acl gives exactly the rights in COMMANDS; a test compares both with the scripts and runs the product as
such a user.
"""

import logging
import re
import ssl
import time
from collections.abc import Sequence
from typing import Final

from engramq.schemas.keys import JOB_KEY, LEASE_KEY, TRIES_KEY, Keys

NOT_ALLOWED: Final = "Redis does not let this user"
ACL_IN_SCRIPT: Final = "ACL failure in script"  # how an error of a script begins whose command was refused

KEY: Final = "{key}"
# Each with arguments that Redis takes in; none is carried out when rights are looked at.
COMMANDS: Final[tuple[tuple[str, ...], ...]] = (
    # of connections
    ("PING",),
    ("INFO", "server"),
    ("SCRIPT", "LOAD", "return 1"),
    ("EVAL", "return 1", "1", KEY),
    ("EVALSHA", "0" * 40, "1", KEY),
    ("TIME",),
    # of jobs, mailboxes, replies, sessions
    ("GET", KEY),
    ("SET", KEY, "1"),
    ("MGET", KEY),
    ("DEL", KEY),
    ("EXISTS", KEY),
    ("EXPIRE", KEY, "1"),
    ("PEXPIRE", KEY, "1"),
    ("PTTL", KEY),
    ("INCR", KEY),
    ("INCRBY", KEY, "1"),
    ("DECR", KEY),
    ("DECRBY", KEY, "1"),
    ("HGET", KEY, "f"),
    ("HGETALL", KEY),
    ("HMGET", KEY, "f"),
    ("HSET", KEY, "f", "1"),
    ("HDEL", KEY, "f"),
    ("HEXISTS", KEY, "f"),
    ("HINCRBY", KEY, "f", "1"),
    ("HKEYS", KEY),
    ("HSTRLEN", KEY, "f"),
    ("LLEN", KEY),
    ("LPUSH", KEY, "1"),
    ("RPUSH", KEY, "1"),
    ("LTRIM", KEY, "0", "1"),
    ("LRANGE", KEY, "0", "1"),
    ("LREM", KEY, "1", "1"),
    ("BLPOP", KEY, "1"),
    ("BLMPOP", "1", "1", KEY, "LEFT"),
    ("ZADD", KEY, "1", "m"),
    ("ZREM", KEY, "m"),
    ("ZCARD", KEY),
    ("ZCOUNT", KEY, "0", "1"),
    ("ZRANGE", KEY, "0", "1"),
    ("ZREVRANGE", KEY, "0", "1"),
    ("ZRANGEBYSCORE", KEY, "0", "1"),
    ("ZREMRANGEBYRANK", KEY, "0", "1"),
    ("ZREMRANGEBYSCORE", KEY, "0", "1"),
    ("ZSCORE", KEY, "m"),
    # what a mailbox takes, and what was erased
    ("MEMORY", "USAGE", KEY),
    ("UNWATCH",),
    ("BGREWRITEAOF",),
)
TRANSACTION: Final[tuple[tuple[str, ...], ...]] = (("WATCH", KEY), ("MULTI",), ("EXEC",))


def looked_at(keys: Keys) -> list[tuple[str, ...]]:
    """Return every command on a key of the installation, and a read of each kind of key besides.

    These are arq's, and with lanes, whose prefix has braces, the one without them that is there too.
    """
    mine = f"{keys.prefix}:rights"
    plain = keys.prefix.strip("{}").partition(":")[0] if keys.prefix.startswith("{") else keys.prefix
    others = (*(f"{name}rights" for name in (JOB_KEY, LEASE_KEY, TRIES_KEY)), f"{plain}:rights")
    return [*_on(mine, COMMANDS), *(("GET", key) for key in others)]


def make_empty_transaction(keys: Keys) -> list[tuple[str, ...]]:
    """Return an empty transaction."""
    return _on(f"{keys.prefix}:rights", TRANSACTION)


def _on(key: str, commands: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(key if word == KEY else word for word in command) for command in commands]


def missing_right(answer: str) -> str:
    """Return as a sentence what Redis answers to a command that a user may not run, or a key that it may not touch."""
    if command := re.search(r"run the '([a-z|]+)' command", answer):
        return f"{NOT_ALLOWED} run {command[1].upper().replace('|', ' ')}."
    if "key" in answer:
        return f"{NOT_ALLOWED} use the keys of this installation."
    return f"{NOT_ALLOWED} do that."


def together(refusals: Sequence[str]) -> str:
    """Return several such sentences as one; nothing for none."""
    distinct = list(
        dict.fromkeys(refusal.removeprefix(f"{NOT_ALLOWED} ").rstrip(".") for refusal in refusals if refusal)
    )
    runs = [right.removeprefix("run ") for right in distinct if right.startswith("run ")]
    others = [right for right in distinct if not right.startswith("run ")]
    parts = ([f"run {', '.join(runs)}"] if runs else []) + others
    return f"{NOT_ALLOWED} {' or '.join(parts)}." if parts else ""


FOREIGN_CA: Final = "Redis shows a certificate of a CA that is not trusted here."
OTHER_NAME: Final = "Redis shows a certificate of another host name."
EXPIRED: Final = "Redis shows a certificate that is not valid now."
NO_TLS: Final = "Redis does not speak TLS there."
ONLY_TLS: Final = "Redis speaks only TLS there."
CLIENT_REFUSED: Final = "Redis wants a client certificate, or another one."
CLOSES: Final = "Redis closes the connection after the TLS handshake; it may want a client certificate."
BAD_FILES: Final = "A certificate or key file of the Redis URL cannot be used."

_NAME_BOTH: Final = "Name both in ENGRAMQ_REDIS_URL: `?ssl_certfile=/path/cert.pem&ssl_keyfile=/path/key.pem`."
MENDS: Final = {
    FOREIGN_CA: "Name its CA in ENGRAMQ_REDIS_URL: `?ssl_ca_certs=/path/ca.pem`.",
    OTHER_NAME: "Name the host in ENGRAMQ_REDIS_URL as its certificate does.",
    EXPIRED: "Renew its certificate, and see that the clocks are right.",
    NO_TLS: "Write redis:// in ENGRAMQ_REDIS_URL, or its port for TLS.",
    ONLY_TLS: "Write rediss:// in ENGRAMQ_REDIS_URL.",
    CLIENT_REFUSED: _NAME_BOTH,
    CLOSES: _NAME_BOTH,
    BAD_FILES: "See that each file of ssl_ca_certs, ssl_certfile and ssl_keyfile is PEM and that the key fits.",
}


# redis-py's words for ENOENT and EACCES on the way to a host, not to a socket: only a file that the URL names can be
# what is not there, or may not be read.
_NO_FILE: Final = re.compile(r"Error (2|13) connecting to [^/]")
# OpenSSL's numbers of what is wrong with a certificate (x509_vfy.h).
_NAMES: Final = {62, 64}  # of another host, of another address
_TIMES: Final = {9, 10}  # not yet valid, expired
# Words of OpenSSL's reasons: what the server says of us, or what its first bytes are.
_BY_REASON: Final = {
    "WRONG_VERSION_NUMBER": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "CERTIFICATE_REQUIRED": CLIENT_REFUSED,
    "ALERT_UNKNOWN_CA": CLIENT_REFUSED,
    "ALERT_BAD_CERTIFICATE": CLIENT_REFUSED,
    "ALERT_CERTIFICATE": CLIENT_REFUSED,
    "ALERT_HANDSHAKE_FAILURE": CLIENT_REFUSED,
    "NO_CERTIFICATE_OR_CRL_FOUND": BAD_FILES,
    "KEY_VALUES_MISMATCH": BAD_FILES,
    "PEM LIB": BAD_FILES,
    "PEM_LIB": BAD_FILES,
}


def handshake_problem(problem: object) -> str:
    """Return what was wrong with a TLS handshake, as a sentence; nothing where that was not the matter."""
    seen = problem if isinstance(problem, BaseException) else None
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            code = seen.verify_code
            return OTHER_NAME if code in _NAMES else EXPIRED if code in _TIMES else FOREIGN_CA
        if isinstance(seen, ssl.SSLError):
            reason = str(seen).upper().replace("SSLV3_", "").replace("TLSV13_", "").replace("TLSV1_", "")
            return next((sentence for word, sentence in _BY_REASON.items() if word in reason), "")
        seen = seen.__cause__ or seen.__context__
    text = str(problem)
    if _NO_FILE.match(text):
        return BAD_FILES
    # A server that takes TLS alone answers plain bytes by an alert: content type 21, version 3.
    return ONLY_TLS if "\x15" in text or "\\x15" in text else ""


_NOT_LET_IN: Final = "Redis wants a password, or another one."
# What a server that is there refuses with: by the name of the driver's class where it has one (this module imports no
# driver), else by the answer's first word.
_REFUSALS: Final = {
    "OutOfMemoryError": "Redis is out of memory.",
    "ReadOnlyError": "Redis is a read-only replica.",
    "MasterDownError": "Redis is a replica that has lost its master.",
    "AuthenticationError": _NOT_LET_IN,
    "BusyLoadingError": "Redis is still loading its data.",
    "MaxConnectionsError": "Redis has no connection left.",
    "ClusterDownError": "The Redis Cluster is down: some of its slots have no master.",
    "TryAgainError": "The Redis Cluster is moving the keys to another master.",
    "AskError": "The Redis Cluster is moving the keys to another master.",
    "NoMaster": "The Redis Cluster is down: some of its slots have no master.",
    "MasterNotFoundError": "The Sentinels cannot be reached, or know no master of that name now.",
}
_REFUSAL_WORDS: Final = {
    "MISCONF": "Redis cannot write to its disk.",
    "NOREPLICAS": "Redis has too few replicas to take writes.",
    "NOAUTH": _NOT_LET_IN,
    "Authentication": _NOT_LET_IN,  # required: as the driver's faster parser has it
    "DENIED": "Redis does not take connections from here.",
}
LOG_AGAIN_S: Final = 60.0


def refusal_of(problem: object) -> str:
    """Return what a server refuses, as a sentence; nothing where it cannot be reached or made another error."""
    classes = [kind.__name__ for kind in type(problem).__mro__]
    if sentence := next((_REFUSALS[name] for name in classes if name in _REFUSALS), ""):
        return sentence
    if "RedisError" not in classes:
        return handshake_problem(problem) if isinstance(problem, OSError) else ""
    text = str(problem)
    if "NoPermissionError" in classes or ACL_IN_SCRIPT in text:
        return missing_right(text)
    return _REFUSAL_WORDS.get(text.partition(" ")[0], "") or handshake_problem(problem)


def doubt_of(problem: object) -> str:
    """Return what a server refuses, or may refuse without saying so: for who looks, not for who decides by it."""
    return refusal_of(problem) or (CLOSES if type(problem).__name__ == "ClosedAfterHandshake" else "")


class RefusalLog:
    """Logs what a server refuses: when that begins, and then once a minute."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._logged = ""
        self._logged_at = 0.0

    def note(self, problem: object) -> str:
        """Return what is refused, if anything is; see `refusal_of`."""
        name = refusal_of(problem)
        now = time.monotonic()
        if name and (name != self._logged or now >= self._logged_at + LOG_AGAIN_S):
            self._log.error("Redis refuses", extra={"error": name})
            self._logged, self._logged_at = name, now
        return name
