"""Look at the whole installation once, for status, doctor, /readyz, /metrics and the page.

Checks that only a worker can make (database, model, vectors) come with its answer to a ping.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeAlias

from engramq.gateway.identity.authorization import Caller
from engramq.gateway.queue.bus import Bus
from engramq.gateway.queue.look import SILENT_S, Look, NoLook
from engramq.schemas.checks import Check, CheckName, Health, MailboxState, degraded, failed, health_of, merged, passed
from engramq.schemas.clocks import CLOCK_S, clock_sentence
from engramq.schemas.commands import Ping, Pong
from engramq.schemas.envelope import Answer
from engramq.schemas.faults import EngramqError
from engramq.schemas.limits import BULK
from engramq.schemas.server_checks import database_check, redis_check
from engramq.schemas.vocabulary import WorkerKind

AskHealth: TypeAlias = Callable[[], Coroutine[Any, Any, Health]]

ANSWER_S: Final = 2.0  # in which a worker answers
STUCK_S: Final = 30.0  # a command that was due for so long, with workers alive, is stuck
STUCK_BULK_S: Final = 600.0  # likewise where callers wait as long as it takes


async def overview_of(bus: Bus, caller: Caller) -> Health:
    """Return what a look now finds, within about 8 s when nothing answers, else within milliseconds."""
    look, not_looked = None, ""
    try:
        look = await bus.look()
    except NoLook as problem:
        not_looked = str(problem)
    # Which process is wrong comes first: a worker sees a difference from PostgreSQL alone.
    checks = [] if look is None else [clock_check(look.ahead_s, look.clocks)]
    checks += await _redis_and_beyond(bus, caller, look, not_looked)
    if look is None:
        return health_of(merged(checks))
    checks = merged([*checks, queue_check(look.mailboxes), dead_letters_check(look.mailboxes)])
    return health_of(checks, look.mailboxes, look.clocks)


async def _redis_and_beyond(bus: Bus, caller: Caller, look: Look | None, not_looked: str) -> list[Check]:
    """Return the checks of Redis, and of what is reached through it as far as it is."""
    try:
        await bus.ready()
        answer = await bus.ask(
            Ping(database=True, checks=True),
            namespace=caller.namespace,
            principal=caller.principal,
            timeout_s=ANSWER_S,
            anywhere=True,
        )
    except EngramqError:
        refused = bus.refused or not_looked
        if refused or look is None:
            return [redis_check(refused, answers=False)]
        answer = None
    pong = answer.reply if isinstance(answer, Answer) and isinstance(answer.reply, Pong) else None
    refused = bus.refused or not_looked
    # While Redis takes no writes workers cannot say that they live.
    judged = [] if look is None or refused else look.mailboxes
    found = [redis_check(refused), worker_check(judged, pong)]
    if pong is not None:
        found += [database_check(pong.refused, reads=pong.reads), *pong.checks]
    return found


def worker_check(mailboxes: Sequence[MailboxState], pong: Pong | None) -> Check:
    """Check that a worker answers, and that somebody serves every mailbox."""
    absent = [mailbox.kind for mailbox in mailboxes if not mailbox.workers]
    kinds = f"No worker of the kind{'s' if len(absent) > 1 else ''} {', '.join(absent)} lives." if absent else ""
    if pong is None:
        lately = _silent_workers(sum(mailbox.workers for mailbox in mailboxes if mailbox.kind is WorkerKind.RECALL))
        unanswered = f"No worker answers.{lately}" if WorkerKind.RECALL not in absent else ""
        return failed(CheckName.WORKER, " ".join(filter(None, (unanswered, kinds))))
    return degraded(CheckName.WORKER, kinds) if absent else passed(CheckName.WORKER)


def _silent_workers(number: int) -> str:
    """Return what is known of workers that should have answered."""
    if number == 0:
        return ""
    told = "1 of the kind recall was seen" if number == 1 else f"{number} of the kind recall were seen"
    return f" {told} in the last {SILENT_S:.0f} s: {'it hangs' if number == 1 else 'they hang'}, or ended just now."


def queue_check(mailboxes: Sequence[MailboxState]) -> Check:
    """Check that no command has been due for long where workers live; where none do, `worker` says so."""
    stuck = [mailbox for mailbox in mailboxes if mailbox.workers and mailbox.oldest_s > _patience_s(mailbox.kind)]
    if not stuck:
        return passed(CheckName.QUEUE)
    told = [f"{_oldest_of(mailbox)} has waited for {mailbox.oldest_s:.0f} s." for mailbox in stuck]
    return degraded(CheckName.QUEUE, " ".join(told))


def dead_letters_check(mailboxes: Sequence[MailboxState]) -> Check:
    """Check that no command was given up."""
    dead = [f"{mailbox.kind} {mailbox.dead}" for mailbox in mailboxes if mailbox.dead]
    if not dead:
        return passed(CheckName.DEAD_LETTERS)
    return degraded(CheckName.DEAD_LETTERS, f"Commands were given up, by mailbox: {', '.join(dead)}.")


def clock_check(ahead_s: float, clocks: Mapping[str, float]) -> Check:
    """Check by how much the clock of Redis is ahead of this machine's, and which processes have wrong ones."""
    wrong = [clock_sentence("Redis", ahead_s, "this machine's")] if abs(ahead_s) > CLOCK_S else []
    wrong += [clock_sentence(name, ahead, "that of Redis") for name, ahead in sorted(clocks.items())]
    return degraded(CheckName.CLOCK, " ".join(wrong)) if wrong else passed(CheckName.CLOCK)


def _oldest_of(one: MailboxState) -> str:
    return f"The oldest of {one.depth:,} commands of {one.kind}" if one.depth > 1 else f"The one command of {one.kind}"


def _patience_s(kind: WorkerKind) -> float:
    return STUCK_BULK_S if kind in BULK else STUCK_S
