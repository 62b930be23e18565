"""The page over the whole pipeline, and visitors who read it as a browser without scripts does."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from engramq.gateway.http import bind
from engramq.gateway.run import Gateway
from engramq.gateway.service import Service
from engramq.schemas.keys import Keys
from engramq.schemas.settings import Settings
from engramq.schemas.vocabulary import ALL_SCOPES, Scope
from engramq.workers.auth.tokens import NewToken, create
from engramq.workers.db.database import Store
from tests.conftest import Database
from tests.gateway.conftest import gateway_over
from tests.gateway.ui.browsing import Browser
from tests.scenarios.stage import Agent, agent_of, running_workers, stage_settings

WHO = {
    "ada": NewToken(principal="ada", scopes=ALL_SCOPES),
    "grace": NewToken(principal="grace", scopes=ALL_SCOPES),
    "keeper": NewToken(principal="keeper", scopes=(Scope.READ, Scope.ADMIN)),
    "reader": NewToken(principal="reader", scopes=(Scope.READ,)),
    "researcher": NewToken(principal="researcher", scopes=(Scope.READ, Scope.WRITE), untrusted=True),
}


@dataclass
class Served:
    """A gateway with its page, the store behind it, and the tokens of those in WHO, all of one namespace."""

    port: int
    store: Store
    service: Service
    secrets: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    opened: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def agent(self, name: str) -> Agent:
        """Connect a client as one of those in WHO."""
        who = WHO[name]
        client = agent_of(
            self.service, "acme", who.principal, scopes=tuple(who.scopes), untrusted=who.untrusted, session=name
        )
        return await self.opened.enter_async_context(client)

    async def browser(self, name: str = "") -> Browser:
        """Open a browser, signed in as one of those in WHO if one is named."""
        browser = await self.opened.enter_async_context(Browser.on(self.port))
        if name:
            page = await browser.sign_in(self.secrets[name])
            assert page.status == 200, page.text
        return browser


@pytest.fixture
def settings(shared_store: Store, database: Database, redis_url: str, key_prefix: str) -> Settings:
    return stage_settings(database, redis_url, key_prefix)


@asynccontextmanager
async def listening(gateway: Gateway) -> AsyncIterator[int]:
    """Serve HTTP on a free port for as long as the block lasts."""
    with bind("127.0.0.1", 0) as bound:
        web = gateway.web().server()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(web.serve, [bound])
            yield bound.getsockname()[1]
            web.should_exit = True


@asynccontextmanager
async def served(settings: Settings, **variables: str) -> AsyncIterator[Served]:
    """Serve the page over the pipeline; `variables` are settings of the gateway."""
    door: dict[str, Any] = {"auth": "token", **variables}
    async with (
        running_workers(settings),
        await Store.open(settings.database_url) as store,
        gateway_over(settings.redis_url, Keys(settings.key_prefix), 20.0, **door) as gateway,
        listening(gateway) as port,
    ):
        made = Served(port, store, gateway.service)
        for name, wanted in WHO.items():
            made.secrets[name], token = await create(store, "acme", wanted, "operator")
            made.ids[name] = str(token.id)
        async with made.opened:
            yield made


@pytest.fixture
async def here(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as made:
        yield made


@pytest.fixture
async def agent(here: Served) -> Agent:
    return await here.agent("ada")


@pytest.fixture
async def browser(here: Served) -> Browser:
    return await here.browser("ada")


async def constitutive_edge(agent: Agent) -> dict[str, Any]:
    """Add an edge that only two principals together may change."""
    return await agent.call(
        "graph_add_edge",
        source_name="Finance",
        target_name="Refunds",
        relation="APPROVES",
        properties={"is_constitutive": True},
    )
