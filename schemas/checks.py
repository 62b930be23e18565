"""Check an installation: what each check looks at, how to mend what it finds, and the state that `up`, /readyz and
the page show. One table for every part of it.

The process that can look makes the check: a worker (database, model), a gateway (queue, workers), `engramq doctor` on
its machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, Literal, NamedTuple

import msgspec

from engramq.schemas.vocabulary import WorkerKind


class Check(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that has to be right. `told` says what is wrong and `mend` how to mend it, both as sentences.

    `failed`: nothing is answered without it. `degraded`: reads are, or it will soon be felt.
    """

    name: str
    state: Literal["ok", "degraded", "failed"] = "ok"
    told: str = ""
    mend: str = ""


class MailboxState(msgspec.Struct, frozen=True, kw_only=True):
    """One mailbox. `depth`: commands waiting or running; `oldest_s`: how long the oldest has been due, 0 without one.

    `per_s`: how fast it is served, None while that is unknown; `dead`: dead letters; `workers`: how many live.
    """

    kind: WorkerKind
    depth: int
    oldest_s: float
    per_s: float | None
    dead: int
    workers: int


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an installation, or one of its workers, is. `status` is the worst that the checks found.

    `unavailable`: calls are not answered, and `missing` names what they lack. `degraded`: reads are. `refused` holds a
    sentence on each server that is there and refuses. `clocks`: processes whose clocks are wrong, with by how many
    seconds these are ahead of Redis' (negative: behind).
    """

    status: Literal["ready", "degraded", "unavailable"]
    missing: list[str] = []
    refused: list[str] = []
    checks: list[Check] = []
    mailboxes: list[MailboxState] = []
    clocks: dict[str, float] = {}

    def without_details(self) -> "Health":
        """Return what everybody may know: the checks that did not pass alone."""
        troubles = [check for check in self.checks if check.state != "ok"]
        return Health(self.status, self.missing, self.refused, troubles)


class CheckName(StrEnum):
    """The things that are checked, each after those that it needs."""

    SETTINGS = "settings"
    HOME = "home"
    DISK = "disk"
    LEFTOVERS = "leftovers"
    STACK = "stack"
    PORT = "port"
    GATEWAY = "gateway"
    REDIS = "redis"
    CLOCK = "clock"
    DATABASE = "database"
    PGVECTOR = "pgvector"
    SCHEMA = "schema"
    MODEL = "model"
    VECTORS = "vectors"
    WORKER = "worker"
    QUEUE = "queue"
    DEAD_LETTERS = "dead_letters"
    HOOKS = "hooks"


class CheckSubject(NamedTuple):
    """The subject of a check, and the mend that it names where its caller knows no better one."""

    looks_at: str
    mend: str


CHECKS: Final[Mapping[CheckName, CheckSubject]] = {
    CheckName.SETTINGS: CheckSubject(
        "The ENGRAMQ_* variables can be read, and URLs are URLs.", "Correct the variable; docs/settings.md lists all."
    ),
    CheckName.HOME: CheckSubject(
        "The home belongs to this user, and nobody else can write to it.",
        "Close it: `engramq doctor --fix`, or chmod go-w.",
    ),
    CheckName.DISK: CheckSubject(
        "The file system of the home has room.",
        "Make room on it; stores are refused while it is full, and go on by themselves afterwards.",
    ),
    CheckName.LEFTOVERS: CheckSubject(
        "No sockets and no record of processes that are dead.", "Remove them: `engramq doctor --fix`."
    ),
    CheckName.STACK: CheckSubject(
        "The processes of the home's supervisor are ready.",
        "See its log in the home's folder logs. `engramq down`, then `engramq up` starts all anew.",
    ),
    CheckName.PORT: CheckSubject(
        "The port of HTTP is free, or a gateway of ours has it.",
        "Set ENGRAMQ_PORT to another one, or end the program that listens there.",
    ),
    CheckName.GATEWAY: CheckSubject(
        "A gateway answers.", "Start one: `engramq gateway`, or set ENGRAMQ_HOST and ENGRAMQ_PORT to where it listens."
    ),
    CheckName.REDIS: CheckSubject(
        "Redis answers and takes writes.", "See that it runs and that ENGRAMQ_REDIS_URL is right."
    ),
    CheckName.CLOCK: CheckSubject(
        "The clocks of this machine, of workers and gateways, of Redis and of PostgreSQL agree.",
        "Set the clocks by NTP: times of commands are compared across machines.",
    ),
    CheckName.DATABASE: CheckSubject(
        "PostgreSQL lets the workers in, answers and takes writes.",
        "See that it runs and that ENGRAMQ_DATABASE_URL is right.",
    ),
    CheckName.PGVECTOR: CheckSubject(
        "The database has pgvector 0.8 or later.",
        "Install it on the server (Debian: postgresql-NN-pgvector), then CREATE EXTENSION vector as a superuser.",
    ),
    CheckName.SCHEMA: CheckSubject(
        "The database's schema is this version's.", "Run `engramq migrate` with a URL of the database's owner."
    ),
    CheckName.MODEL: CheckSubject(
        "The model that makes the vectors can be used.",
        "Install engramq again; e5: `engramq model build e5`; an endpoint: see that ENGRAMQ_EMBEDDER_URL answers.",
    ),
    CheckName.VECTORS: CheckSubject(
        "All vectors are of the model that runs, or are being made anew.",
        "Run a worker of the kind upkeep with the same ENGRAMQ_EMBEDDER as the others.",
    ),
    CheckName.WORKER: CheckSubject(
        "Workers of every kind live, and one answers.",
        "Start them: `engramq worker --all`, or `engramq worker KIND`. One that waits for a server says so in its log.",
    ),
    CheckName.QUEUE: CheckSubject(
        "No command waits for long while workers live.",
        "See the workers' logs for what they do; start more workers of that kind if they are only busy.",
    ),
    CheckName.DEAD_LETTERS: CheckSubject(
        "No command was given up.",
        "See why: `engramq dead list`; then `engramq dead retry ID` or `engramq dead drop ID`.",
    ),
    CheckName.HOOKS: CheckSubject(
        "Transcripts of clients with hooks are understood, and their hooks are of this release.",
        "Install a later engramq: it captures what was said since, for as long as the client keeps its transcripts.",
    ),
}

_ANEW: Final = "`engramq down`, then `engramq up` starts all anew"
# Mends where a home's supervisor runs the server: its address is no setting there.
AT_HOME: Final[Mapping[CheckName, str]] = {
    CheckName.GATEWAY: f"See gateway.log in the home's folder logs. {_ANEW}.",
    CheckName.REDIS: f"See redis.log in the home's folder logs. {_ANEW}.",
    CheckName.DATABASE: f"See postgres.log in the home's folder logs. {_ANEW}.",
    CheckName.SCHEMA: f"{_ANEW}, and brings the schema up to date.",
    CheckName.WORKER: f"See worker.log in the home's folder logs. {_ANEW}.",
    CheckName.QUEUE: f"See worker.log in the home's folder logs; `engramq worker --all` adds one. {_ANEW}.",
}
_OF_SERVER: Final = {CheckName.REDIS: "redis", CheckName.DATABASE: "database", CheckName.SCHEMA: "database"}

# Told of a server that is not there, or says nothing.
REDIS_AWAY: Final = "Redis cannot be reached."
DATABASE_AWAY: Final = "The database does not answer."
_AWAY: Final = (REDIS_AWAY, DATABASE_AWAY)
_SERVERS: Final = (CheckName.REDIS, CheckName.DATABASE)

_STATES: Final = ("ok", "degraded", "failed")


def passed(name: CheckName, told: str = "") -> Check:
    """Return the check of something that is right; `told` says how it stands, where that is worth a sentence."""
    return Check(name=name.value, told=told)


def failed(name: CheckName, told: str, mend: str = "") -> Check:
    """Return the check of something without which nothing is answered; `mend` empty: the table's."""
    return Check(name=name.value, state="failed", told=told, mend=mend or CHECKS[name].mend)


def degraded(name: CheckName, told: str, mend: str = "") -> Check:
    """Return the check of something that reads do not need, or that will soon be felt."""
    return Check(name=name.value, state="degraded", told=told, mend=mend or CHECKS[name].mend)


def at_home(checks: Iterable[Check], *, redis: bool, database: bool) -> list[Check]:
    """Return checks with the mends of a home where it runs the server in question; one that names more stays.

    `redis`, `database`: whether they are the home's. Workers and gateways are its own when any of them is.
    """
    own = {"redis": redis, "database": database, "processes": redis or database}
    found = []
    for check in checks:
        name = CheckName(check.name)
        is_usual = check.state != "ok" and check.mend == CHECKS[name].mend
        if is_usual and name in AT_HOME and own[_OF_SERVER.get(name, "processes")]:
            found.append(msgspec.structs.replace(check, mend=AT_HOME[name]))
        else:
            found.append(check)
    return found


def merged(checks: Iterable[Check]) -> list[Check]:
    """Return one check of each name, the worst, in the order of the table. The first counts among several as bad."""
    worst: dict[CheckName, Check] = {}
    for check in checks:
        known = worst.setdefault(CheckName(check.name), check)
        if _STATES.index(check.state) > _STATES.index(known.state):
            worst[CheckName(check.name)] = check
    return [worst[name] for name in CheckName if name in worst]


def health_of(
    checks: Sequence[Check], mailboxes: Sequence[MailboxState] = (), clocks: Mapping[str, float] | None = None
) -> Health:
    """Return the health that checks make, beside what else was looked at."""
    troubles = [check for check in checks if check.state != "ok"]
    return Health(
        status_of(checks),
        missing=[check.name for check in troubles if check.state == "failed"],
        refused=[check.told for check in troubles if check.name in _SERVERS and check.told not in _AWAY],
        checks=list(checks),
        mailboxes=list(mailboxes),
        clocks=dict(clocks or {}),
    )


def status_of(checks: Iterable[Check]) -> Literal["ready", "degraded", "unavailable"]:
    """Return the worst that checks found."""
    states = {check.state for check in checks}
    if "failed" in states:
        return "unavailable"
    return "degraded" if "degraded" in states else "ready"
