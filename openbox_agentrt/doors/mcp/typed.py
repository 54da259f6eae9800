"""
The arguments of a call as the server will read them.

A server of the SDK validates arguments into the types of its function: ``"7"`` becomes 7, the text of a list
the list, and what is left out its default. Contracts judge what comes of that. Of a server without types they
judge what was sent, once it fits the schema that the tool was listed with.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..._plain.arguments import plain_arguments
from ..unfit import fault_of
from .calls import ServerCall
from .handed_over import JudgedValues
from .schema import read_by_schema

if TYPE_CHECKING:
    from mcp.server.context import CallNext, ServerRequestContext

_MAX_PAGES = 100


class UnfitForServerError(ValueError):
    """
    The server's own types do not take the arguments, in its words. The call did not run.

    Attributes:
        fault: Why, without the values of the call.
    """

    def __init__(self, text: str, fault: str) -> None:
        super().__init__(text)
        self.fault = fault


class ServerArguments:
    """Read the arguments of calls as their server will."""

    def __init__(self) -> None:
        # Schemas by tool, of servers without types. Listed again for a tool that is not there.
        self._listed: dict[str, Any] = {}

    async def read(
        self, call: ServerCall, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> ServerCall:
        """
        Give a call with the arguments that will run.

        Raises:
            UnfitForServerError: The types of the tool do not take them.
            OffSchemaError: They do not fit the schema that the tool was listed with.
            Exception: Whatever a validator of the server's own raises.
        """
        metadata = _metadata_of(_typed_server(call_next), call.tool)
        if hasattr(metadata, "validate_arguments"):
            judged = _validated(call, metadata)
            args = plain_arguments(judged.values)
            return replace(call, args=args, aliases=_aliases_of(metadata), judged=judged)
        schema = await self._schema(call.tool, ctx, call_next)
        return replace(call, args=read_by_schema(call.args, schema))

    async def _schema(self, tool: str, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> object:
        if tool not in self._listed:
            async for name, schema in _list(ctx, call_next):
                self._listed[name] = schema
        return self._listed.get(tool)


async def _list(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> Any:
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    # The protocol's version stands in it, since the current revision has no handshake.
    params = {name: value for name, value in (ctx.params or {}).items() if name == "_meta"}
    for _ in range(_MAX_PAGES):
        try:
            page = await call_next(replace(ctx, method="tools/list", params=params))
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            # It lists no tools, so there is nothing that they were listed with.
            return
        tools = page.get("tools") if isinstance(page, dict) else None
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                yield tool["name"], tool.get("inputSchema")
        cursor = page.get("nextCursor") if isinstance(page, dict) else None
        if cursor is None:
            return
        params = {**params, "cursor": cursor}


def _validated(call: ServerCall, metadata: Any) -> JudgedValues:
    from pydantic import ValidationError

    try:
        return JudgedValues(metadata, call.args)
    except ValidationError as error:
        text = f"Error executing tool {call.tool}: {error}"
        raise UnfitForServerError(text, fault_of(error)) from error


def _metadata_of(server: Any, tool: str) -> Any:
    """Find what a typed server knows of the arguments of a tool; None if it has no such tool."""
    found: Any = server
    for name in ("_tool_manager", "get_tool"):
        found = getattr(found, name, None)
    return getattr(None if found is None else found(tool), "fn_metadata", None)


def _aliases_of(metadata: Any) -> dict[str, str]:
    """Say under which names a model takes what its fields hold, where these are others."""
    fields = getattr(getattr(metadata, "arg_model", None), "model_fields", {})
    aliases: dict[str, str] = {}
    for name, field in fields.items():
        choices = getattr(field.validation_alias, "choices", [field.validation_alias])
        alias = next((choice for choice in choices if isinstance(choice, str)), None)
        if alias is not None and alias != name and field.alias is None:
            aliases[name] = alias
    return aliases


def _typed_server(call_next: Any) -> Any:
    """
    Find the SDK's typed server behind the rest of a chain; None if it is another one.

    The SDK has no public way there. Where this one ends, the listed schema is what arguments have to fit.
    """
    from mcp.server.mcpserver import MCPServer

    while isinstance(call_next, functools.partial):
        call_next = call_next.args[-1]
    runner = _held_by(call_next, "self")
    find = getattr(getattr(runner, "server", None), "get_request_handler", None)
    entry = None if find is None else find("tools/call")
    handler = getattr(entry, "handler", None)
    if not hasattr(handler, "__self__"):
        # Extensions stand around it.
        handler = _held_by(handler, "handler")
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, MCPServer) else None


def _held_by(function: Callable[..., Any] | None, name: str) -> Any:
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    if code is None or cells is None or name not in code.co_freevars:
        return None
    return cells[code.co_freevars.index(name)].cell_contents
