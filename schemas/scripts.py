"""The Lua scripts that both halves of the queue run in Redis: each is one atomic step and one round trip.

They stand in schemas/lua, each with what it takes and returns; `prelude.lua` comes before all of them. Times are
milliseconds of the server's clock. Keys are passed by name, or built from a prefix that was passed; all are of one
lane. Behind KEYS comes the lane's guard, if it has one: see schemas/keys.py.
"""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

POISON_TRIES: Final = 2
SESSIONS_OF_ONE: Final = 4_000  # that a principal may have breadcrumbs in; with the next one, the longest unused goes
LONG_SESSIONS: Final = 100  # that keep all the ids they touched; 110 KB each, at most
SHORT_SESSION: Final = 50  # ids that the others keep; 8 KB with what was recalled
_NUMBERS: Final = {
    # How long a command must have waited to show that the workers are busy: with room they take it within a few ms.
    "WAITING_MS": 50,
    "FADE_MS": 2_500,  # of busy time, after which what was served counts for a third
    "KNOWN_MS": 1_000,  # of busy time, before which nothing is refused
    "FRESH_MS": 10_000,  # after which a rate that nobody has seen since may be wrong: workers may have come or gone
    "RATE_TTL_MS": 60_000,  # how long it is kept to go on from
    # Answers that wait for one gateway: so many are always kept; beyond, while there are fewer bytes.
    "FEW_REPLIES": 64,
    "REPLY_BYTES": 64 * 1024 * 1024,
    "OWED_BYTES": 2_000,  # of times in which a session was only read by the gateway: no command has told them
    "POISON_TRIES": POISON_TRIES,
    "SESSIONS_OF_ONE": SESSIONS_OF_ONE,
    "LONG_SESSIONS": LONG_SESSIONS,
    "SHORT_SESSION": SHORT_SESSION,
    "HEARD_MS": 1_000,  # by which an answer is read, from when it was sent
    "TURNS_AT_ONCE": 1_000,  # jobs that one claim gives a turn: 2 ms; until all have theirs, none is claimed
    "TURNS_TTL_S": 3_600,  # of the turns of namespaces, once nothing is claimed
    "CLOCKS_TTL_S": 600,  # of what was said of clocks, once nobody says anything
    "ABANDONED_MS": 10_000,  # by which a worker has learnt that nobody waits for its job, as it renews the lease
    "STAY_AWAY_MS": 8_000,  # longest time that a refused caller is asked to wait, without that quarter
}


class Script(msgspec.Struct, frozen=True):
    """A script's text and the digest by which EVALSHA calls it."""

    text: str
    sha: str


def _lua(name: str) -> str:
    """Return a script without its comments, with the numbers put in."""
    lines = (Path(__file__).with_name("lua") / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    text = "".join(f"{line}\n" for line in lines if not line.startswith("--"))
    for number in sorted(_NUMBERS, key=len, reverse=True):
        text = text.replace(number, str(_NUMBERS[number]))
    return text


_PRELUDE: Final = _lua("prelude")


def _script(name: str, *, flags: str = "allow-oom") -> Script:
    # A Redis at maxmemory still lets what is in it drain, be read and be cleaned up; only new writes are refused.
    text = f"#!lua flags={flags}\n{_PRELUDE}{_lua(name)}" if flags else f"#!lua\n{_PRELUDE}{_lua(name)}"
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


ENQUEUE_WRITES: Final = _script("enqueue", flags="")
ENQUEUE_READS: Final = _script("enqueue")
ABANDON: Final = _script("abandon")
CLAIM: Final = _script("claim")
RENEW: Final = _script("renew")
RELEASE: Final = _script("release")
WAKE: Final = _script("wake")
SETTLE: Final = _script("settle")
BEGIN_SESSION: Final = _script("begin_session")
READ_SESSION: Final = _script("read_session")
KEEP_PAGE_SESSION: Final = _script("keep_page_session", flags="")
SCRUB_SESSION: Final = _script("scrub_session")
MARK_ERASED: Final = _script("mark_erased")
UNMARK_ERASED: Final = _script("unmark_erased")
SCRUB_JOB: Final = _script("scrub_job")
REVIVE: Final = _script("revive")
DROP_LETTERS: Final = _script("drop_letters")
KEEP_SCHEDULE: Final = _script("keep_schedule")
REGISTER: Final = _script("register")
COUNT_PRESENT: Final = _script("count_present", flags="no-writes,allow-stale")
LOOK: Final = _script("look", flags="no-writes,allow-stale")  # a server that takes no writes runs it, too
