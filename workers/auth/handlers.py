"""Say whose a bearer token is, which gateways ask before they serve a caller; make, list and revoke tokens."""

from uuid import UUID

from msgspec import UNSET

from engramq.schemas import commands, limits
from engramq.schemas.envelope import Envelope
from engramq.schemas.faults import FaultCode, missing, refuse
from engramq.schemas.fields import or_none
from engramq.schemas.ids import format_time, parse_uuid
from engramq.schemas.records import TokenRecord
from engramq.schemas.vocabulary import Thing
from engramq.workers.auth.tokens import By, NewToken, Token, admit, identify, list_first, shut_out
from engramq.workers.db.transaction import Transaction
from engramq.workers.runner import Context, handles, handles_without_transaction
from engramq.workers.trust import require_admin


@handles_without_transaction(commands.Authenticate)
async def authenticate(command: commands.Authenticate, context: Context) -> commands.Identity:
    """Say whose a token is."""
    return await identify(context.store, command.token_sha256)


@handles(commands.ListTokens)
async def list_tokens(tx: Transaction, _command: commands.ListTokens, context: Context) -> commands.TokenList:
    """List the tokens of the namespace, those that count first."""
    require_admin(context.envelope.principal, "Seeing the tokens")
    tokens, total = await list_first(tx, limits.TOKENS)
    return commands.TokenList(tokens=[_record(token) for token in tokens], omitted=total - len(tokens))


@handles(commands.CreateToken)
async def create_token(tx: Transaction, command: commands.CreateToken, context: Context) -> commands.TokenCreated:
    """Let somebody in. Its id is the command's, so that a repeated command makes no second one.

    Raises EngramqError with `forbidden` for scopes that the maker lacks, and for a name of the other trust.
    """
    envelope = context.envelope
    require_admin(envelope.principal, "Making a token")
    beyond = [scope for scope in command.scopes if scope not in envelope.principal.scopes]
    if beyond:
        raise refuse(
            FaultCode.FORBIDDEN,
            f"A token may do no more than who makes it, and {envelope.principal.name!r} lacks {', '.join(beyond)}.",
            recovery="Leave these scopes out, or run `engramq token create` where the database is.",
        )
    wanted = NewToken(
        principal=command.principal,
        scopes=command.scopes,
        untrusted=command.untrusted,
        project=or_none(command.project),
        label=or_none(command.label),
        expires_at=command.expires_at,
    )
    made = await admit(tx, wanted, UUID(envelope.id), command.token_sha256, _actor_of(envelope))
    return commands.TokenCreated(token=_record(made))


@handles(commands.RevokeToken)
async def revoke_token(tx: Transaction, command: commands.RevokeToken, context: Context) -> commands.TokenRevoked:
    """Let a token of the namespace count no longer."""
    require_admin(context.envelope.principal, "Revoking a token")
    token_id = parse_uuid(command.token_id)
    by = _actor_of(context.envelope, None if command.reason is UNSET else command.reason)
    found = None if token_id is None else await shut_out(tx, token_id, by)
    if found is None:
        return commands.TokenRevoked(status="not_found", **missing(Thing.TOKEN))
    token, changed = found
    return commands.TokenRevoked(status="revoked" if changed else "already_revoked", token=_record(token))


def _actor_of(envelope: Envelope, reason: str | None = None) -> By:
    return By(envelope.principal.name, UUID(envelope.id), reason)


def _record(token: Token) -> TokenRecord:
    return TokenRecord(
        token_id=str(token.id),
        principal=token.principal,
        scopes=list(token.scopes),
        untrusted=token.untrusted,
        project=token.project,
        label=token.label,
        created_by=token.created_by,
        created_at=format_time(token.created_at),
        expires_at=None if token.expires_at is None else format_time(token.expires_at),
        revoked_at=None if token.revoked_at is None else format_time(token.revoked_at),
    )
