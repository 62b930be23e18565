"""Puts the page beside another application."""

from redis.asyncio import Redis
from starlette.types import ASGIApp

from engramq.gateway.identity.bearer import Authenticator
from engramq.gateway.identity.local_peer import Account
from engramq.gateway.identity.signed_in import SignedIn
from engramq.gateway.service import Service
from engramq.gateway.ui.door import Door
from engramq.gateway.ui.page import BesidePage, Page
from engramq.gateway.ui.visit import AskOverview
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Auth, Settings


def beside_page(
    app: ASGIApp,
    service: Service,
    look: AskOverview,
    *,
    authenticator: Authenticator,
    account: Account | None,
    redis: Redis,
    keys: Keys,
    settings: Settings,
) -> ASGIApp:
    """Return the application with the page beside it.

    `look` finds how the installation is, `account` whose processes need no token.
    """
    door = Door(SignedIn(redis, keys), authenticator, account, public_url=settings.public_url)
    page = Page(
        service, door, look, has_tokens=settings.auth is not Auth.JWT, needs_sign_in=settings.auth is not Auth.NONE
    )
    return BesidePage(app, page)
