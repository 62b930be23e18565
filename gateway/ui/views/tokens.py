"""Bearer tokens, for admins: listed, made (and shown this once), revoked."""

from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from engramq.gateway.rendering.budget import Body
from engramq.gateway.ui.visit import Refused, Visit
from engramq.schemas.faults import FaultCode, invalid
from engramq.schemas.ids import format_time, new_token, token_digest, uuid7
from engramq.schemas.vocabulary import Scope

LIFETIMES_D: Final = (7, 30, 90, 365)
_USUAL_D: Final = 90


async def show(visit: Visit) -> Response:
    """Show the tokens of the namespace, and the form that makes one."""
    return await _shown(visit)


async def create(visit: Visit) -> Response:
    """Make a token and show it. It comes into being here, and nothing but its digest leaves this process."""
    days = visit.entry("days")
    if days not in {str(one) for one in LIFETIMES_D}:
        raise invalid("days", f"A token lasts {', '.join(map(str, LIFETIMES_D))} days.", "Choose one of these.")
    secret = new_token()
    try:
        reply = await visit.ask(
            "create_token",
            token_sha256=token_digest(secret),
            principal=visit.entry("principal"),
            scopes=[scope for scope in Scope if scope in visit.form.get("scopes", [])],
            untrusted=visit.entry("apart") == "1",
            project=visit.entry("project"),
            label=visit.entry("label"),
            expires_at=format_time(datetime.now(UTC) + timedelta(days=int(days))),
            idempotency_key=visit.entry("once"),
        )
    except Refused as refused:
        if refused.body["code"] == FaultCode.IDEMPOTENCY_CONFLICT:  # the page was loaded anew
            return visit.go("/ui/tokens", done="made_before")
        return await _shown(visit, status=refused.status, refusal=refused.body)
    if reply["status"] != "created":  # nobody knows whether it will be
        return visit.go("/ui/tokens", done="pending")
    return await _shown(visit, secret=secret, made=reply["token"])


async def revoke(visit: Visit) -> Response:
    """Let a token count no longer."""
    token_id = visit.request.path_params["token_id"]
    reply = await visit.ask("revoke_token", token_id=token_id, reason=visit.entry("reason"))
    if reply["status"] == "not_found":
        return visit.page("missing.html", status=404, what="token")
    return visit.go("/ui/tokens", done=reply["status"])


async def _shown(
    visit: Visit, *, status: int = 200, refusal: Body | None = None, secret: str = "", made: Body | None = None
) -> Response:
    listed = await visit.ask("list_tokens")
    return visit.page(
        "tokens.html",
        status=status,
        tokens=listed["tokens"],
        omitted=listed["omitted"],
        once=uuid7(),
        now=format_time(datetime.now(UTC)),
        secret=secret,
        made=made,
        refusal=refusal,
        scopes=[scope for scope in Scope if visit.may(scope)],
        lifetimes=LIFETIMES_D,
        usual=_USUAL_D,
    )
