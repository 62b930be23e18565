"""Every Redis key, written once.

The queue is arq's: a mailbox is an arq queue (a zset of job ids by due time in milliseconds), a job's payload, lease
and try counter stand under arq's own keys.
"""

from typing import Final
from urllib.parse import quote

from engramq.schemas.vocabulary import WorkerKind

# arq's constants; a contract test compares them with the installed arq.
JOB_KEY: Final = "arq:job:"
LEASE_KEY: Final = "arq:in-progress:"
TRIES_KEY: Final = "arq:retry:"


def _part(text: str) -> str:
    """Encode what a user chose so that no character of it can end or forge a key."""
    return quote(text, safe="")


class Keys:
    """Every Redis key of one installation; `prefix` tells installations apart that share a server."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.reply_lists = f"{prefix}:reply-lists"  # zset: reply list in use -> when its gateway said so (seconds)
        self.cursor_secret = f"{prefix}:cursor-secret"  # string: the key that signs cursors

    def mailbox(self, kind: WorkerKind) -> str:
        """Zset, arq's queue: job id -> when it is due, in milliseconds."""
        return f"{self.prefix}:mailbox:{kind}"

    def wakeups(self, kind: WorkerKind) -> str:
        """List: one element for each ring."""
        return f"{self.prefix}:wakeups:{kind}"

    def depth(self, kind: WorkerKind) -> str:
        """Integer: commands waiting or running; means 0 while the mailbox is empty."""
        return f"{self.prefix}:depth:{kind}"

    def dead(self, kind: WorkerKind) -> str:
        """Hash: id -> dead letter."""
        return f"{self.prefix}:dead:{kind}"

    def dead_index(self, kind: WorkerKind) -> str:
        """Zset: id of a dead letter -> when it died, in milliseconds."""
        return f"{self.prefix}:dead-index:{kind}"

    def alive(self, kind: WorkerKind) -> str:
        """Zset: worker id -> when it was last seen, in seconds."""
        return f"{self.prefix}:alive:{kind}"

    def schedule(self, kind: WorkerKind, name: str) -> str:
        """String: who runs this periodic work now, or ran it last within its period."""
        return f"{self.prefix}:schedule:{kind}:{_part(name)}"

    def replies(self, gateway_id: str) -> str:
        """List: answers for one gateway process."""
        return f"{self.prefix}:replies:{gateway_id}"

    def note(self, command_id: str) -> str:
        """String: the Note of a command whose caller was told `pending`."""
        return f"{self.prefix}:note:{_part(command_id)}"

    def session_state(self, namespace: str, principal: str, session: str) -> str:
        """Hash of a session: instance, seen (ms), stored, recalled (ids, each with a newline), clock."""
        return f"{self.prefix}:session_state:{self.session(namespace, principal, session)}"

    def touched(self, namespace: str, principal: str, session: str) -> str:
        """Zset of a session: memory id -> order of its first touch."""
        return f"{self.prefix}:touched:{self.session(namespace, principal, session)}"

    def sessions(self, namespace: str) -> str:
        """Zset of a namespace: session (see `session`) -> when its breadcrumbs expire, in milliseconds."""
        return f"{self.prefix}:sessions:{_part(namespace)}"

    def session(self, namespace: str, principal: str, session: str) -> str:
        """Return the end that the keys of a session share."""
        return f"{_part(namespace)}:{_part(principal)}:{_part(session)}"

    def session_keys_of(self, session: str) -> tuple[str, str]:
        """Return the keys (session_state, touched) of a session as `sessions` lists it."""
        return f"{self.prefix}:session_state:{session}", f"{self.prefix}:touched:{session}"
