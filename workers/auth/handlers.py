"""Says whose a bearer token is: what gateways ask before they serve a caller."""

from engramq.schemas.commands import Authenticate, Identity
from engramq.workers.auth.tokens import owner_of
from engramq.workers.handling import Context, handles_without_transaction


@handles_without_transaction(Authenticate)
async def authenticate(command: Authenticate, context: Context) -> Identity:
    """Find the owner of a token. Unknown, revoked and expired tokens are answered alike."""
    owner = await owner_of(context.store, command.token_sha256)
    if owner is None:
        return Identity(status="unknown")
    return Identity(
        status="success",
        token_id=str(owner.token_id),
        namespace=owner.namespace,
        principal=owner.principal,
        scopes=owner.scopes,
        untrusted=owner.untrusted,
        expires_at=None if owner.expires_at is None else owner.expires_at.timestamp(),
        project=owner.project or "",
    )
