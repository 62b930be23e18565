"""Turn the requests that the MCP SDK's server takes into service calls; no other module knows that server.

One server object serves both protocol eras. No state is kept by transport session: the caller is known when the server
is made (a stdio session), or from the request (HTTP). Plain tool calls never come here: wire.py answers them.
"""

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any, Final

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.routing import Route
from starlette.types import ASGIApp

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.metadata import MCP_PATH
from engramq.gateway.mcp import resources
from engramq.gateway.mcp.audience import allowed, reader_of
from engramq.gateway.mcp.listing import Profile, instructions_for, listing_for
from engramq.gateway.mcp.schema import listed_schema
from engramq.gateway.service import Call, Service, ToolReply
from engramq.schemas import limits
from engramq.schemas.commands import TOOLS, Tool

Context = ServerRequestContext[dict[str, Any], Any]
McpServer = Server[dict[str, Any]]

NAME: Final = "engramq"
INTRODUCTIONS: Final = frozenset({"initialize", "server/discover"})


def build_server(service: Service, profile: Profile, caller_of: Callable[[Context], Caller]) -> McpServer:
    """Return a server that shows `profile` and answers by `service`; `caller_of` returns the caller of a request."""
    handlers = _Handlers(service, profile, caller_of)
    server = Server(
        NAME,
        version=version(NAME),
        title=NAME,
        instructions=NAME,  # replaced for every caller
        get_tool_input_schema=handlers.schema_of,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
    )
    server.middleware[:] = [handlers.instruct]
    return server


def http_caller(ctx: Context) -> Caller:
    """Return the caller of a request over HTTP, as the authentication before the application found; in both eras."""
    if ctx.request is None:
        raise TypeError("a request came without its HTTP scope, so its caller is unknown")
    caller = ctx.request.scope[CALLER]
    if not isinstance(caller, Caller):
        raise TypeError("a request came without authentication")
    return caller


def sdk_app(server: McpServer, routes: Sequence[Route]) -> ASGIApp:
    """Return the SDK's application at MCP_PATH, with `routes` beside it; it must be run with its lifespan.

    Every request stands alone in both eras, so that any replica can answer it. Replies are plain JSON. Host and Origin
    are checked by the caller, for every route alike.
    """
    return server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=limits.BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        custom_starlette_routes=list(routes),
    )


class _Handlers:
    """The handlers of one server."""

    def __init__(self, service: Service, profile: Profile, caller_of: Callable[[Context], Caller]) -> None:
        self._service = service
        self._tools = {tool.name: tool for tool in profile.tools}
        self._profile = profile
        self._caller_of = caller_of

    def schema_of(self, name: str) -> dict[str, Any] | None:
        tool = self._tools.get(name)
        return None if tool is None else listed_schema(tool)

    async def instruct(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Tell a client that introduces itself what its caller is to know; the SDK has one text for all."""
        result = await call_next(ctx)
        if ctx.method in INTRODUCTIONS and isinstance(result, dict):
            instructions = instructions_for(self._profile, self._caller_of(ctx).principal)
            result = {**result, "instructions": instructions}
        return result

    async def list_tools(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return listing_for(self._profile, self._caller_of(ctx).principal)

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name[:100]!a}")
        reply = await self._call(ctx, tool, params.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=reply.text)],
            structured_content=reply.body,
            is_error=reply.is_error,
        )

    async def list_resources(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        shown = (
            _resource(resources.GUIDE_URI, "guide", "Guide", "How to work with this memory"),
            _resource(
                resources.STATS_URI,
                "stats",
                "Memory statistics",
                "Counts of memories and links, and what waits in the queues",
            ),
        )
        return types.ListResourcesResult(resources=[one for one in shown if self._may_read(ctx, str(one.uri))])

    async def list_templates(
        self, ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        shown = (
            _template(resources.MEMORY_PREFIX + "{id}", "memory", "Memory", "One memory and its links"),
            _template(resources.GUIDE_PREFIX + "{topic}", "topic", "Guide to a tool", "When and how to use one tool"),
        )
        return types.ListResourceTemplatesResult(
            resource_templates=[one for one in shown if self._may_read(ctx, one.uri_template)]
        )

    def _may_read(self, ctx: Context, uri: str) -> bool:
        reading = resources.reading_of(uri)
        return reading is not None and allowed(TOOLS[reading.tool], self._caller_of(ctx).principal)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        reading = resources.reading_of(uri)
        reply = None if reading is None else await self._call(ctx, TOOLS[reading.tool], reading.arguments)
        if reply is None or reply.body["status"] == "not_found":
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        if reply.is_error:
            raise MCPError(types.INTERNAL_ERROR, reply.body["error"], reply.body)
        contents = types.TextResourceContents(uri=uri, mime_type=resources.JSON_TYPE, text=reply.text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, _ctx: Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        task = types.PromptArgument(name=resources.RECALL_PROMPT_TASK, description="What is to be done", required=False)
        prompt = types.Prompt(
            name=resources.RECALL_PROMPT,
            title="Recall before acting",
            description=resources.RECALL_PROMPT_DESCRIPTION,
            arguments=[task],
        )
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != resources.RECALL_PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]!a}")
        reader = reader_of(self._profile.tools, self._caller_of(ctx).principal)
        text = resources.recall_text((params.arguments or {}).get(resources.RECALL_PROMPT_TASK, ""), reader)
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=resources.RECALL_PROMPT_DESCRIPTION, messages=[message])

    async def _call(self, ctx: Context, tool: Tool, arguments: Any) -> ToolReply:
        traceparent = (ctx.meta or {}).get("traceparent")
        return await self._service.call(
            Call(
                tool=tool,
                arguments=arguments,
                caller=self._caller_of(ctx),
                traceparent=traceparent if isinstance(traceparent, str) else None,
                tools=self._profile.tools,
            )
        )


def _resource(uri: str, name: str, title: str, description: str) -> types.Resource:
    return types.Resource(uri=uri, name=name, title=title, description=description, mime_type=resources.JSON_TYPE)


def _template(uri: str, name: str, title: str, description: str) -> types.ResourceTemplate:
    return types.ResourceTemplate(
        uri_template=uri, name=name, title=title, description=description, mime_type=resources.JSON_TYPE
    )
