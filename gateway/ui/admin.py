"""Show operators their part of the page: audit, approvals and tokens."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from engramq.gateway.budget import Body
from engramq.gateway.ui.bulk_actions import BulkQuestion, Verdicts, group_entries, take_back
from engramq.gateway.ui.memory import SEEN, explain_conflict, require_look, undo_among
from engramq.gateway.ui.request import PageCallRefused, PageRequest, unless_refused
from engramq.schemas import limits
from engramq.schemas.faults import FaultCode, invalid
from engramq.schemas.ids import format_time, new_token, token_digest, uuid7
from engramq.schemas.vocabulary import AuditAction, Decision, ProposalState, Scope

AUDIT_ROWS: Final = 50
_NUMBER: Final = re.compile(r"\d{1,19}", re.ASCII)  # as many digits as AUDIT_ID_MAX has
AUDIT_FILTERS: Final = ("target", "actor", "action", "since", "until")


async def take_back_many(page: PageRequest) -> Response:
    """Take back an action on many; asks first."""
    return await show_audit(page, await take_back(page, page.request.path_params["together"]))


async def show_audit(page: PageRequest, decided: Verdicts | BulkQuestion | None = None) -> Response:
    """Show the entries that pass the filters in the address."""
    filters = {name: page.query(name) for name in AUDIT_FILTERS}
    found = page.ask("audit", limit=AUDIT_ROWS, cursor=page.query("cursor"), **filters)
    shown, refusal = await unless_refused(found, {"entries": [], "next_cursor": None})
    return page.render(
        "audit.html",
        status=400 if refusal else 200,
        filters=filters,
        shown=shown,
        refusal=refusal,
        entries=group_entries(shown["entries"]),
        decided=decided,
        undo_of=undo_among(shown["entries"]),
        actions=list(AuditAction),
    )


async def restore_in_graph(page: PageRequest) -> Response:
    """Bring back what a deletion in the graph took."""
    audit_id = page.request.path_params["audit_id"]
    if _NUMBER.fullmatch(audit_id) is None:
        return page.missing()
    reply = await page.ask("restore_graph", audit_id=int(audit_id))
    if reply["status"] == "restored":
        return page.go("/ui/audit", done="graph_restored")
    if reply["status"] in ("pending", "already_restored"):
        return page.go("/ui/audit", done=reply["status"])
    return page.render("closed.html", status=409, reply=reply)


_OPEN: Final = ProposalState.PENDING


async def show_proposals(page: PageRequest, refusal: Body | None = None) -> Response:
    """Show proposals; without `state` in the address those that wait."""
    asked = page.query("state")
    state = asked if asked in set(ProposalState) or asked == "all" else str(_OPEN)
    shown = await page.ask("list_proposals", state=None if state == "all" else state, cursor=page.query("cursor"))
    status = 200 if refusal is None else 409
    states = list(ProposalState)
    return page.render("consent.html", status=status, shown=shown, state=state, states=states, refusal=refusal)


async def decide_proposal(page: PageRequest) -> Response:
    """Record what this visitor says to a proposal."""
    proposal_id, decision = page.request.path_params["proposal_id"], page.entry("decision")
    if decision == Decision.APPROVE:
        require_look(page.entry(SEEN))
    try:
        reply = await page.ask(
            "decide_proposal",
            proposal_id=proposal_id,
            decision=decision if decision in set(Decision) else "",
            reason=page.entry("reason"),
            seen=page.entry(SEEN),
        )
    except PageCallRefused as refused:
        return await show_proposals(page, explain_conflict(refused))
    if reply["status"] == "not_found":
        return page.missing("proposal")
    if reply["status"] == "closed" or "hint" in reply:  # it had ended, or this visitor had approved it
        return page.render("closed.html", status=409, reply=reply)
    return page.go("/ui/consent", done=reply["status"])


LIFETIMES_D: Final = (7, 30, 90, 365)


async def create_token(page: PageRequest) -> Response:
    """Make a token and show it. It comes into being here, and nothing but its digest leaves this process."""
    days = page.entry("days")
    if days not in {str(days) for days in LIFETIMES_D}:
        raise invalid("days", f"A token lasts {', '.join(map(str, LIFETIMES_D))} days.", "Choose one of these.")
    secret = new_token()
    try:
        reply = await page.ask(
            "create_token",
            token_sha256=token_digest(secret),
            principal=page.entry("principal"),
            scopes=[scope for scope in Scope if scope in page.form.get("scopes", [])],
            untrusted=page.entry("apart") == "1",
            project=page.entry("project"),
            label=page.entry("label"),
            expires_at=format_time(datetime.now(UTC) + timedelta(days=int(days))),
            idempotency_key=page.entry("once"),
        )
    except PageCallRefused as refused:
        if refused.body["code"] == FaultCode.IDEMPOTENCY_CONFLICT:  # the page was loaded anew
            return page.go("/ui/tokens", done="made_before")
        return await show_tokens(page, status=refused.status, refusal=refused.body)
    if reply["status"] != "created":  # nobody knows whether it will be
        return page.go("/ui/tokens", done="pending")
    return await show_tokens(page, secret=secret, made=reply["token"])


async def revoke_token(page: PageRequest) -> Response:
    """Let a token count no longer."""
    token_id = page.request.path_params["token_id"]
    reply = await page.ask("revoke_token", token_id=token_id, reason=page.entry("reason"))
    if reply["status"] == "not_found":
        return page.missing("token")
    return page.go("/ui/tokens", done=reply["status"])


async def show_tokens(
    page: PageRequest, *, status: int = 200, refusal: Body | None = None, secret: str = "", made: Body | None = None
) -> Response:
    """Show the tokens of the namespace, and the form that makes one."""
    listed = await page.ask("list_tokens")
    return page.render(
        "tokens.html",
        status=status,
        tokens=listed["tokens"],
        omitted=listed["omitted"],
        once=uuid7(),
        now=format_time(datetime.now(UTC)),
        secret=secret,
        made=made,
        refusal=refusal,
        scopes=[scope for scope in Scope if page.may(scope)],
        lifetimes=LIFETIMES_D,
        usual=limits.TOKEN_USUAL_DAYS,
    )
