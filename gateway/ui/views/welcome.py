"""Signing in and out, and what a visitor is told whose request is refused."""

import re
from typing import Final

from starlette.responses import Response

from engramq.gateway.ui.visit import Refused, Visit
from engramq.schemas.checks import Check

_HERE: Final = re.compile(r"/ui(?:/[\w./-]*)?", re.ASCII)
_START: Final = "/ui"


async def ask(visit: Visit) -> Response:
    """Show the form that takes a token; who is known already goes on."""
    if visit.visitor.caller is not None:
        return visit.go(_place(visit.query("next")))
    return visit.page("sign_in.html", next=_place(visit.query("next")), problem="")


async def sign_in(visit: Visit) -> Response:
    """Let somebody in by the token of the form."""
    place = _place(visit.entry("next"))
    made = await visit.site.door.let_in(visit.request, visit.entry("token"))
    if made is None:
        problem = "The token is unknown, expired, revoked or not valid here."
        return visit.page("sign_in.html", status=401, next=place, problem=problem)
    response = visit.go(place)
    visit.site.door.remember(visit.request, response, made)
    return response


async def sign_out(visit: Visit) -> Response:
    """Let the cookie stand for nothing any more."""
    await visit.site.door.let_go(visit.visitor)
    return visit.go("/ui/sign-in", done="signed_out")


async def nothing(visit: Visit) -> Response:
    """Say that there is no such page."""
    return visit.page("missing.html", status=404)


async def refused(visit: Visit, refusal: Refused) -> Response:
    """Show why a request was refused, and where nothing is answered, what of the installation is missing."""
    trouble: list[Check] = []
    if refusal.status == 503:
        trouble = [check for check in (await visit.site.look()).checks if check.state != "ok"]
    template = "refusal_part.html" if visit.is_partial else "refused.html"
    response = visit.page(template, status=refusal.status, refusal=refusal.body, trouble=trouble)
    if isinstance(wait_s := refusal.body.get("retry_after_s"), float):
        response.headers["retry-after"] = str(max(1, round(wait_s)))
    return response


def _place(wanted: str) -> str:
    """Return where to go after signing in: a page of ours, and no other."""
    return wanted if _HERE.fullmatch(wanted) and "//" not in wanted else _START
