"""What a principal has to be allowed by the worker too, whoever sent the command: gateways check scopes as well."""

from engramq.schemas.envelope import Principal
from engramq.schemas.faults import FaultCode, refuse
from engramq.schemas.vocabulary import Scope


def require_admin(principal: Principal, doing: str) -> None:
    """Raise EngramqError with `forbidden` for all but trusted ones with the scope admin; `doing` begins a sentence."""
    if principal.untrusted or Scope.ADMIN not in principal.scopes:
        raise refuse(FaultCode.FORBIDDEN, f"{doing} needs the scope {Scope.ADMIN.value!r}.")
