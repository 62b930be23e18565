"""What `engramq tenant delete` is to do, checked before anything is started."""

from engramq.gateway.cli.checked import checked
from engramq.schemas.commands import DeleteTenant


def deletion(reason: str | None) -> DeleteTenant:
    """Return the command that deletes a namespace; raises CommandFailed naming what is wrong."""
    return checked({} if reason is None else {"reason": reason}, DeleteTenant)
