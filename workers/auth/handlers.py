"""Whose a bearer token is: what gateways ask for before they serve a caller."""

from collections.abc import Mapping
from dataclasses import dataclass

from engramq.schemas.commands import Authenticate, Command, Identity
from engramq.workers.auth.tokens import owner_of
from engramq.workers.db.database import Store
from engramq.workers.queue.contract import Handler, Job, Outcome


@dataclass(frozen=True, slots=True)
class Doorman:
    """The handler, of the kind recall."""

    store: Store

    async def authenticate(self, job: Job) -> Outcome:
        """Carry out Authenticate. Unknown, revoked and expired tokens are answered alike."""
        command = job.envelope.command
        assert isinstance(command, Authenticate)
        owner = await owner_of(self.store, command.token_sha256)
        if owner is None:
            return Outcome(Identity(status="unknown"))
        return Outcome(
            Identity(
                status="success",
                token_id=str(owner.token_id),
                namespace=owner.namespace,
                principal=owner.principal,
                scopes=owner.scopes,
                untrusted=owner.untrusted,
                expires_at=None if owner.expires_at is None else owner.expires_at.timestamp(),
            )
        )


def handlers(store: Store) -> Mapping[type[Command], Handler]:
    """Return the handlers of commands on identity."""
    return {Authenticate: Doorman(store).authenticate}
