"""What contracts learn of the results that libraries wrap: the data inside, whatever the wrapping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langgraph.types import Command
from mcp_types import CallToolResult, TextContent

from openbox_agentrt.acel import Session, came_from

TEXT = '[{"iban": "DE02"}]'


@dataclass
class Contact:
    iban: str


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(ToolMessage(TEXT, tool_call_id="1"), id="a message"),
        pytest.param(ToolMessage([{"type": "text", "text": TEXT}], tool_call_id="1"), id="blocks"),
        pytest.param(
            Command(update={"messages": [ToolMessage(TEXT, tool_call_id="1")]}), id="a command with a message"
        ),
        pytest.param(CallToolResult(content=[TextContent(type="text", text=TEXT)]), id="an MCP result"),
        pytest.param(
            CallToolResult(content=[], structured_content={"result": [{"iban": "DE02"}]}),
            id="a structured MCP result",
        ),
        pytest.param([Contact("DE02")], id="dataclasses"),
        pytest.param((Contact("DE02"),), id="a tuple"),
    ],
)
def test_the_data_inside_counts(result: Any) -> None:
    """As the object of the library itself, committed to a session by hand."""
    sources = [{"tool": "contacts", "path": path} for path in ("*.iban", "result.*.iban")]
    session = Session(contracts=[came_from("pay", "to", sources)])
    session.call("contacts", result=result)

    assert not session.would("pay", {"to": "DE02"})
    assert session.would("pay", {"to": "DE99"})
