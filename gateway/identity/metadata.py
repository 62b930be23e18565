"""What a client without a token is told: where its kind of token comes from (RFC 9728), and how to present it."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from engramq.schemas.settings import Auth, Settings
from engramq.schemas.vocabulary import Scope

MCP_PATH: Final = "/mcp"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
METADATA_PATHS: Final = (METADATA_PATH, METADATA_PATH + MCP_PATH)


class Resource:
    """This server as its clients address it: by ENGRAMQ_PUBLIC_URL, else as they did, whose Host was checked."""

    def __init__(self, settings: Settings) -> None:
        self._public_url = settings.public_url
        # Tokens of our own come from `engramq token create`, from no server.
        self._issuers = [settings.jwt_issuer] if settings.auth is Auth.JWT else []

    def challenge(self, request: HTTPConnection, *, error: str = "") -> str:
        """Return the WWW-Authenticate header of a 401; `error` says what was wrong with a token that was presented."""
        said = [
            f'resource_metadata="{self._base(request)}{METADATA_PATH}{MCP_PATH}"',
            f'scope="{Scope.READ} {Scope.WRITE}"',
        ]
        if error:
            said = [f'error="{error}"', 'error_description="The token is unknown, expired or not valid here"', *said]
        return f"Bearer {', '.join(said)}"

    def routes(self) -> Sequence[Route]:
        """Return the routes of the metadata, which need no authentication."""
        return [Route(path, self._metadata, methods=["GET"]) for path in METADATA_PATHS]

    async def _metadata(self, request: Request) -> JSONResponse:
        described = {
            "resource": self._base(request) + MCP_PATH,
            "resource_name": "engramq",
            "scopes_supported": list(Scope),
            "bearer_methods_supported": ["header"],
        }
        if self._issuers:
            described["authorization_servers"] = self._issuers
        return JSONResponse(described)

    def _base(self, request: HTTPConnection) -> str:
        return self._public_url or f"{request.url.scheme}://{request.url.netloc}"
