"""Serve /metrics of a gateway: what its callers asked and got, and how every mailbox is, for Prometheus."""

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from engramq.gateway.bodies import Bodies
from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.limits import SharedWork
from engramq.gateway.overview import AskHealth
from engramq.gateway.router import METRICS_PATH
from engramq.schemas.checks import Health, MailboxState
from engramq.schemas.vocabulary import Scope, Status
from engramq.telemetry import catalog
from engramq.telemetry.catalog import CONTENT_TYPE, Figures, Metric

log = logging.getLogger(__name__)

LOOK_S: Final = 8.0  # for the look at queue and workers; Prometheus waits for 10 s unless it is told otherwise

_STATES: Final = {"ok": 0, "degraded": 1, "failed": 2}
_MAILBOXES: Final[Mapping[Metric, Callable[[MailboxState], float | None]]] = {
    catalog.DEPTH: lambda mailbox: mailbox.depth,
    catalog.OLDEST: lambda mailbox: mailbox.oldest_s,
    catalog.PER_SECOND: lambda mailbox: mailbox.per_s,
    catalog.DEAD: lambda mailbox: mailbox.dead,
    catalog.WORKERS: lambda mailbox: mailbox.workers,
}


class GatewayMetrics:
    """The figures of one gateway process. `called` counts each call; `waiting` returns how many wait.

    `bodies` are those of requests that it reads.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self._waiting = waiting
        self._figures = Figures(catalog.GATEWAY)
        self._looks: SharedWork[bytes] = SharedWork(1)
        self.bodies = Bodies(refused=self._figures.counters[(catalog.BODIES_REFUSED,)].inc)

    def count_call(self, tool: str, outcome: str, taken_s: float) -> None:
        """Count a call of a tool."""
        self._figures.counters[catalog.CALLS, tool, outcome].inc()
        self._figures.histograms[catalog.CALL_SECONDS, tool].observe(taken_s)

    def route(self, look: AskHealth, *, token: str, by_caller: bool) -> Route:
        """Return /metrics. Callers that ask at the same time share one look.

        `token`: what a scraper shows, if there is one. `by_caller`: its caller, whom authentication knows, needs the
        scope admin.
        """

        async def read() -> bytes:
            self._figures.tell(catalog.WAITING, self._waiting())
            self._figures.tell(catalog.BODIES, self.bodies.held)
            self._take_in(await self._overview(look))
            return self._figures.text()

        async def metrics(request: Request) -> Response:
            if refusal := _refusal(request, token, by_caller=by_caller):
                return refusal
            return Response(await self._looks.run("metrics", read), headers={"content-type": CONTENT_TYPE})

        return Route(METRICS_PATH, metrics)

    async def _overview(self, look: AskHealth) -> Health | None:
        with anyio.move_on_after(LOOK_S):
            return await look()
        log.warning("Metrics tell nothing of queue and workers: the look took too long")
        return None

    def _take_in(self, state: Health | None) -> None:
        figures = self._figures
        figures.tell(catalog.READY, 0 if state is None or state.status == "unavailable" else 1)
        checks = [] if state is None else state.checks
        figures.tell_all(catalog.CHECK, {(check.name,): _STATES[check.state] for check in checks})
        clocks = {} if state is None else state.clocks
        figures.tell_all(catalog.CLOCKS, {(process,): ahead for process, ahead in clocks.items()})
        for metric, value_of in _MAILBOXES.items():
            values = {
                (mailbox.kind.value,): value_of(mailbox) for mailbox in ([] if state is None else state.mailboxes)
            }
            figures.tell_all(metric, {kind: value for kind, value in values.items() if value is not None})


def _refusal(request: Request, token: str, *, by_caller: bool) -> JSONResponse | None:
    if by_caller:
        caller = request.scope.get(CALLER)
        if isinstance(caller, Caller) and Scope.ADMIN in caller.principal.scopes:
            return None
        error = "Metrics want a token with the scope admin, or ENGRAMQ_METRICS_TOKEN."
        return JSONResponse({"status": Status.ERROR, "error": error}, 403)
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if not token or (kind.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())):
        return None
    error = "Metrics want `Authorization: Bearer` with ENGRAMQ_METRICS_TOKEN."
    return JSONResponse({"status": Status.ERROR, "error": error}, 401, {"www-authenticate": "Bearer"})
