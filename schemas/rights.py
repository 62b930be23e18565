"""The rights that engramq needs of a Redis user: every command that it sends, each on a key of the installation.

deploy/redis.acl gives exactly these; a test compares both with the scripts and runs the product as such a user.
"""

import re
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


def transaction(keys: Keys) -> list[tuple[str, ...]]:
    """Return an empty transaction."""
    return _on(f"{keys.prefix}:rights", TRANSACTION)


def _on(key: str, commands: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(key if word == KEY else word for word in command) for command in commands]


def missing_right(told: str) -> str:
    """Return as a sentence what Redis said of a command that a user may not run, or a key that it may not touch."""
    if command := re.search(r"run the '([a-z|]+)' command", told):
        return f"{NOT_ALLOWED} run {command[1].upper().replace('|', ' ')}."
    if "key" in told:
        return f"{NOT_ALLOWED} use the keys of this installation."
    return f"{NOT_ALLOWED} do that."


def together(refusals: Sequence[str]) -> str:
    """Return several such sentences as one; nothing for none."""
    distinct = list(dict.fromkeys(one.removeprefix(f"{NOT_ALLOWED} ").rstrip(".") for one in refusals if one))
    runs = [one.removeprefix("run ") for one in distinct if one.startswith("run ")]
    others = [one for one in distinct if not one.startswith("run ")]
    told = ([f"run {', '.join(runs)}"] if runs else []) + others
    return f"{NOT_ALLOWED} {' or '.join(told)}." if told else ""
