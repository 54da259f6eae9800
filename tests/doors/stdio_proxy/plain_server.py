"""A server of the SDK that knows nothing of contracts."""

import asyncio
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server: MCPServer[Any] = MCPServer("plain", log_level="CRITICAL")


@server.tool()
def pay(amount: float) -> dict[str, Any]:
    return {"paid": amount}


@server.tool()
def backup() -> dict[str, Any]:
    return {"done": True}


@server.tool()
def broken_backup() -> dict[str, Any]:
    raise ToolError("disk full")


@server.tool()
def delete(name: str) -> dict[str, Any]:
    return {"deleted": name}


@server.tool()
async def slow() -> str:
    await asyncio.sleep(30)
    return "late"


@server.tool()
async def steps(ctx: Context[Any]) -> str:
    for step in (1, 2):
        await ctx.report_progress(step, 2)
    return "x" * 300_000


@server.resource("memo://a")
def memo() -> str:
    return "memo"


if __name__ == "__main__":
    server.run("stdio")
