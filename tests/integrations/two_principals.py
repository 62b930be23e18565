"""Two principals at one door: what the one keeps to herself the other never reads, whatever he plants beside it.

Every way into engramq that keeps things under names of its own, or captures what is said, is held to these two stories.
"""

from typing import Protocol

from engramq.schemas.vocabulary import Scope, Visibility
from engramq.workers.auth.tokens import NewToken
from tests.gateway.test_identity_end_to_end import Served

SCOPES = (Scope.READ, Scope.WRITE)
KEY = "health"


class Door(Protocol):
    """A way in with one principal's token."""

    async def keep(self, key: str, text: str) -> None:
        """Keep a text under a key, or say it in a conversation."""
        ...

    async def read(self, key: str) -> str:
        """Return what is read there, or found by these words, as text."""
        ...


async def invite_both(here: Served, *, is_private: bool) -> None:
    """Give ada and bob tokens of one namespace; `is_private`: what hers stores is private unless it says otherwise."""
    visibility = Visibility.PRIVATE if is_private else None
    await here.invite("ada", "acme", NewToken(principal="ada", scopes=SCOPES, visibility=visibility))
    await here.invite("bob", "acme", NewToken(principal="bob", scopes=SCOPES))


async def keep_under_one_name(ada: Door, bob: Door) -> None:
    """Hold that nothing planted under the same name is read for a private text, or takes it along."""
    await ada.keep(KEY, "Ada sees a doctor")
    assert "doctor" not in await bob.read(KEY)
    await bob.keep(KEY, "bait of Bob")
    seen = await ada.read(KEY)
    assert ("doctor" in seen, "bait" in seen) == (True, False)
    await ada.keep(KEY, "Ada sees a doctor on Monday")
    seen = await ada.read(KEY)
    assert ("Monday" in seen, "bait" in seen) == (True, False)
    seen = await bob.read(KEY)
    assert ("doctor" in seen, "bait" in seen) == (False, True)


async def capture_apart(ada: Door, bob: Door) -> None:
    """Hold that what is said in one's conversation is found by nobody else."""
    await ada.keep(KEY, "my diagnosis is asthma")
    await bob.keep(KEY, "my diagnosis is measles")
    for own, reads, other in ((ada, "asthma", "measles"), (bob, "measles", "asthma")):
        seen = await own.read("my diagnosis")
        assert (reads in seen, other in seen) == (True, False)
