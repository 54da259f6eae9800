"""The shop that the demo's agent works for, and its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_rt import CancellationToken, ToolDefinition, ToolHandler, ToolRegistry, ToolSideEffect

Arguments = Mapping[str, Any]

INSTRUCTIONS = (
    "You work for the support of a small shop. Use the tools: lookup an order, refund an order, "
    "backup a record, delete a record. When a tool answers with an error, follow what it says is needed."
)


class Shop:
    """
    Orders and records in memory, and what the agent has done to them.

    Attributes:
        orders: State of every order by its number.
        records: Content of every record by its id.
        refunded: Amounts paid back, in order.
        backups: Ids of records that have a backup.
    """

    def __init__(self) -> None:
        self.orders = {"1042": "on its way", "1043": "delivered", "1044": "delivered"}
        self.records = {"draft-7": "an old draft", "customer-1001": "a customer"}
        self.refunded: list[float] = []
        self.backups: set[str] = set()

    async def lookup(self, arguments: Arguments, token: CancellationToken | None) -> dict[str, Any]:
        number = str(arguments["order_id"])
        return {"order_id": number, "state": self.orders.get(number, "unknown")}

    async def refund(self, arguments: Arguments, token: CancellationToken | None) -> dict[str, Any]:
        self.refunded.append(arguments["amount"])
        return {"order_id": arguments["order_id"], "refunded": arguments["amount"]}

    async def backup(self, arguments: Arguments, token: CancellationToken | None) -> dict[str, Any]:
        self.backups.add(str(arguments["record_id"]))
        return {"record_id": arguments["record_id"], "backed_up": True}

    async def delete(self, arguments: Arguments, token: CancellationToken | None) -> dict[str, Any]:
        self.records.pop(str(arguments["record_id"]), None)
        return {"record_id": arguments["record_id"], "deleted": True}

    def tools(self) -> ToolRegistry:
        """Register the shop's tools with Agent-RT. Nothing here knows of governance."""
        order = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
        payment = {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order_id", "amount"],
        }
        record = {
            "type": "object",
            "properties": {"record_id": {"type": "string"}},
            "required": ["record_id"],
        }
        registry = ToolRegistry()
        tools: tuple[tuple[str, str, dict[str, Any], ToolSideEffect, ToolHandler], ...] = (
            ("lookup", "Look an order up.", order, "read", self.lookup),
            ("refund", "Pay money back for an order.", payment, "consequential", self.refund),
            ("backup", "Back a record up.", record, "write", self.backup),
            ("delete", "Delete a record.", record, "destructive", self.delete),
        )
        for name, about, schema, side_effect, handler in tools:
            registry.register(
                ToolDefinition(name=name, description=about, input_schema=schema, side_effect=side_effect),
                handler=handler,
            )
        return registry
