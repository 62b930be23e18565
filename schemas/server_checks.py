"""Check Redis and PostgreSQL by what they refuse: one function for each server, given what it answered."""

from typing import Final

from engramq.schemas.checks import DATABASE_AWAY, REDIS_AWAY, Check, CheckName, degraded, failed, passed
from engramq.schemas.redis_problems import MENDS as TLS_MENDS
from engramq.schemas.redis_problems import NOT_ALLOWED

_REDIS_MENDS: Final = {
    "Redis is out of memory.": "Raise its maxmemory, or see in `engramq status` which mailbox is not served.",
    "Redis is a read-only replica.": "Set ENGRAMQ_REDIS_URL to the master.",
    "Redis is a replica that has lost its master.": "Set ENGRAMQ_REDIS_URL to the master.",
    "Redis wants a password, or another one.": "Set ENGRAMQ_REDIS_URL to redis://USER:PASSWORD@HOST:PORT/0.",
    "Redis is still loading its data.": "Wait: it goes on by itself.",
    "Redis has no connection left.": "Raise its maxclients, or end clients that nobody needs.",
    "Redis cannot write to its disk.": "Make room on its disk, or see its log for why it cannot write.",
    "Redis has too few replicas to take writes.": "Start its replicas, or set min-replicas-to-write to 0.",
    "The Redis Cluster is down: some of its slots have no master.": "See CLUSTER INFO; give each of the 16384 slots a "
    "master that lives (redis-cli --cluster check, --cluster fix).",
    "The Redis Cluster is moving the keys to another master.": "Wait: calls go on when the slot has moved.",
    "Redis does not take connections from here.": "Give it a password, or let it take connections (protected-mode).",
    **TLS_MENDS,
}
_RIGHTS_MEND: Final = "Give that user what deploy/redis.acl lists, with ENGRAMQ_KEY_PREFIX where it says engramq."
_DATABASE_MENDS: Final = {
    "The database is read-only.": "Set ENGRAMQ_DATABASE_URL to the primary, or let the database take writes.",
    "The database's disk is full.": "Make room on the disk of PostgreSQL.",
    "The database has no connection left.": "Raise its max_connections, or end clients that nobody needs.",
    "The database is out of memory.": "See the server's log; give the machine more memory.",
    "The database shows a certificate of a CA that is not trusted here.": (
        "Name its CA in the workers' ENGRAMQ_DATABASE_URL: `sslrootcert=/path/ca.pem`."
    ),
    "The database shows a certificate of another host name.": (
        "Name the host in the workers' ENGRAMQ_DATABASE_URL as its certificate does."
    ),
    "The database does not speak TLS.": "Turn its TLS on (`ssl = on`), or take sslmode out of ENGRAMQ_DATABASE_URL.",
    "The database refused the workers' password.": "Correct the password in the workers' ENGRAMQ_DATABASE_URL.",
}


def redis_check(refused: str, *, answers: bool = True) -> Check:
    """Check what Redis refuses (a sentence; empty: nothing), and whether reads get through."""
    mend = _RIGHTS_MEND if refused.startswith(NOT_ALLOWED) else _REDIS_MENDS.get(refused, "")
    if not answers:
        return failed(CheckName.REDIS, refused or REDIS_AWAY, mend)
    return degraded(CheckName.REDIS, refused, mend) if refused else passed(CheckName.REDIS)


def database_check(refused: str, *, reads: bool) -> Check:
    """Check what the database refuses (a sentence; empty: nothing), and whether reads get through."""
    mend = _DATABASE_MENDS.get(refused, "")
    if not reads:
        return failed(CheckName.DATABASE, refused or DATABASE_AWAY, mend)
    return degraded(CheckName.DATABASE, refused, mend) if refused else passed(CheckName.DATABASE)
