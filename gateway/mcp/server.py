"""Answer by the MCP SDK's server: what clients ask of it over HTTP, and over stdio beyond calls and lists.

One server object serves both protocol eras. No state is kept by transport session: the caller is known when the server
is made (a stdio session), or from the request (HTTP). No other module knows the SDK's server.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio
import mcp_types as types
import pydantic
from anyio.abc import TaskStatus
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from starlette.types import Receive, Scope, Send

from engramq.gateway.identity.authorization import CALLER, Caller
from engramq.gateway.identity.bearer import MCP_PATH
from engramq.gateway.mcp.audience import FULL, MORE_TOOLS
from engramq.gateway.mcp.listing import (
    JSON_TYPE,
    NAME,
    RECALL_PROMPT,
    RECALL_PROMPT_DESCRIPTION,
    RECALL_PROMPT_TASK,
    SERVER_INFO,
    Profile,
    instructions_for,
    list_for,
    recall_text,
    resource_call,
)
from engramq.gateway.mcp.wire import NO_MESSAGE, Refusal, as_request_id, dump
from engramq.gateway.router import CallerLeft, while_there
from engramq.gateway.service import Call, Service, ToolReply
from engramq.schemas import limits
from engramq.schemas.commands import FORMER_TOOLS, TOOLS, Tool

SdkContext = ServerRequestContext[dict[str, Any], Any]
McpServer = Server[dict[str, Any]]

INTRODUCTIONS: Final = frozenset({"initialize", "server/discover"})
_LISTS: Final[Mapping[str, type[types.PaginatedResult]]] = {
    "tools/list": types.ListToolsResult,
    "resources/list": types.ListResourcesResult,
    "resources/templates/list": types.ListResourceTemplatesResult,
    "prompts/list": types.ListPromptsResult,
}


def build_server(service: Service, profile: Profile, caller_of: Callable[[SdkContext], Caller]) -> McpServer:
    """Return a server that shows `profile` and answers by `service`; `caller_of` returns the caller of a request."""
    methods = _SdkMethods(service, profile, caller_of)
    server = Server(
        NAME,
        version=SERVER_INFO["version"],
        title=NAME,
        instructions=NAME,  # replaced for every caller
        on_call_tool=methods.call_tool,
        on_read_resource=methods.read_resource,
        on_get_prompt=methods.get_prompt,
    )
    for method in _LISTS:
        server.add_request_handler(method, types.PaginatedRequestParams, methods.show_list)
    server.middleware[:] = [methods.instruct]
    return server


def http_caller(ctx: SdkContext) -> Caller:
    """Return the caller of a request over HTTP, as the authentication before the application found; in both eras."""
    if ctx.request is None:
        raise TypeError("a request came without its HTTP scope, so its caller is unknown")
    caller = ctx.request.scope[CALLER]
    if not isinstance(caller, Caller):
        raise TypeError("a request came without authentication")
    return caller


class SdkApp:
    """The SDK's application at MCP_PATH, to be used within `running`.

    Every request stands alone in both eras, so that any replica can answer it. Replies are plain JSON. Host and Origin
    are checked by the caller, for every route alike.
    """

    def __init__(self, server: McpServer) -> None:
        self._app = server.streamable_http_app(
            streamable_http_path=MCP_PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=limits.BODY_BYTES,
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    def running(self) -> AbstractAsyncContextManager[object]:
        """Return the context in which it answers."""
        return self._app.router.lifespan_context(self._app)

    def body_of(self, message: dict[str, Any], body: bytes) -> bytes | Refusal:
        """Return the body of a message as the SDK takes it, or the refusal of what is none."""
        whole = message_of(message)
        if isinstance(whole, types.JSONRPCRequest):  # its id may have been written as 1.0
            return dump_model(whole)
        return whole if isinstance(whole, Refusal) else body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._app(scope, receive, send)


class _SdkMethods:
    """The handlers of the SDK's server for each method of MCP."""

    def __init__(self, service: Service, profile: Profile, caller_of: Callable[[SdkContext], Caller]) -> None:
        self._service = service
        self._profile = profile
        self._caller_of = caller_of

    async def instruct(self, ctx: SdkContext, call_next: CallNext) -> HandlerResult:
        """Tell a client that introduces itself what its caller is to know; the SDK has one text for all."""
        result = await call_next(ctx)
        if ctx.method in INTRODUCTIONS and isinstance(result, dict):
            instructions = instructions_for(self._profile, self._caller_of(ctx).principal)
            result = {**result, "instructions": instructions}
        return result

    async def show_list(self, ctx: SdkContext, _params: types.PaginatedRequestParams) -> HandlerResult:
        shown = list_for(ctx.method, self._profile, self._caller_of(ctx).principal)
        return _LISTS[ctx.method].model_validate(shown, by_name=False)

    async def call_tool(self, _ctx: SdkContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Refuse a call that wire.py leaves to the SDK, which found nothing else wrong with it."""
        if any(tool.name == params.name for tool in (*self._profile.tools, *self._profile.unlisted)):
            raise MCPError(types.INVALID_PARAMS, "The headers or _meta of this call are not those of one version.")
        unknown = f"Unknown tool: {params.name[:100]!a}"
        more = "" if self._profile.name == FULL else MORE_TOOLS
        raise MCPError(types.INVALID_PARAMS, ". ".join(filter(None, (unknown, FORMER_TOOLS.get(params.name, more)))))

    async def read_resource(self, ctx: SdkContext, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        reading = resource_call(uri)
        reply = None if reading is None else await self._call(ctx, TOOLS[reading.tool], reading.arguments)
        if reply is None or reply.body["status"] == "not_found":
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        if reply.is_error:
            raise MCPError(types.INTERNAL_ERROR, reply.body["error"], reply.body)
        contents = types.TextResourceContents(uri=uri, mime_type=JSON_TYPE, text=reply.text)
        return types.ReadResourceResult(contents=[contents])

    async def get_prompt(self, ctx: SdkContext, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != RECALL_PROMPT:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name[:100]!a}")
        task = (params.arguments or {}).get(RECALL_PROMPT_TASK, "")
        text = recall_text(task, self._profile, self._caller_of(ctx).principal)
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=RECALL_PROMPT_DESCRIPTION, messages=[message])

    async def _call(self, ctx: SdkContext, tool: Tool, arguments: Any) -> ToolReply:
        traceparent = (ctx.meta or {}).get("traceparent")
        call = Call(
            tool=tool,
            arguments=arguments,
            caller=self._caller_of(ctx),
            traceparent=traceparent if isinstance(traceparent, str) else None,
            tools=self._profile.tools,
            unlisted=self._profile.unlisted,
        )
        if ctx.request is None:  # a stdio session
            return await self._service.call(call)
        try:
            async with while_there(ctx.request.receive, is_read=not tool.write):
                return await self._service.call(call)
        except CallerLeft:
            raise MCPError(types.CONNECTION_CLOSED, "The caller has left.") from None


def message_of(message: object) -> types.JSONRPCMessage | Refusal:
    """Return a message as the SDK takes it, or the refusal of what is none."""
    try:
        return types.jsonrpc_message_adapter.validate_python(message, by_name=False)
    except pydantic.ValidationError:
        known = as_request_id(message.get("id")) if isinstance(message, dict) else None
        return Refusal(types.INVALID_REQUEST, NO_MESSAGE, known)


def dump_model(message: types.JSONRPCMessage) -> bytes:
    """Return a message of the SDK's as it is sent."""
    return dump(message.model_dump(by_alias=True, exclude_unset=True))


SendAnswer = Callable[[bytes, types.RequestId | None], Awaitable[None]]


class SdkStream:
    """The SDK's server for one client, message by message."""

    def __init__(self, service: Service, profile: Profile, caller: Caller, answer: SendAnswer) -> None:
        """`answer` takes what the server says, and the id of the request that it answers, if it answers one."""
        self._server = build_server(service, profile, lambda _ctx: caller)
        self._incoming, self._read_stream = anyio.create_memory_object_stream[SessionMessage | Exception]()
        self._answer = answer

    async def run(self, introduced: str, *, task_status: TaskStatus[None]) -> None:
        """Answer until cancelled; `introduced`: the version of a client whose introduction was answered before."""
        write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage]()
        options = self._server.create_initialization_options()
        async with anyio.create_task_group() as tasks, self._incoming, outgoing:
            tasks.start_soon(self._server.run, self._read_stream, write_stream, options)
            if introduced:
                await self.send(_introduction(introduced))
                await outgoing.receive()
            task_status.started()
            async for item in outgoing:
                said = item.message
                answered = said.id if isinstance(said, types.JSONRPCResponse | types.JSONRPCError) else None
                await self._answer(dump_model(said), answered)

    def read(self, message: dict[str, Any]) -> types.JSONRPCMessage | Refusal:
        """Return a message as `send` takes it, or the refusal of what is none."""
        return message_of(message)

    async def send(self, message: types.JSONRPCMessage) -> None:
        """Give the server a message of the client."""
        await self._incoming.send(SessionMessage(message))


def _introduction(protocol: str) -> types.JSONRPCRequest:
    params = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": {"name": NAME, "version": protocol}}
    return types.JSONRPCRequest(jsonrpc="2.0", id=0, method="initialize", params=params)
