"""What became of a call, as what it returned says."""

from typing import Any

import mcp_types
import pytest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from openbox_agentrt.acel.events import Outcome
from openbox_agentrt.acel.outcome import outcome_of


def message(status: Any) -> ToolMessage:
    return ToolMessage("text", tool_call_id="c1", status=status)


def mcp_result(*, is_error: bool) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[], is_error=is_error)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        pytest.param(None, "ok", id="nothing"),
        pytest.param("isError", "ok", id="text"),
        pytest.param({"isError": True, "content": []}, "failed", id="an MCP result as a mapping"),
        pytest.param({"is_error": True}, "failed", id="in Python's spelling"),
        pytest.param({"isError": "yes"}, "ok", id="a field of that name that is no flag"),
        pytest.param(mcp_result(is_error=True), "failed", id="an MCP result"),
        pytest.param(mcp_result(is_error=False), "ok", id="an MCP result that is none"),
        pytest.param(message("error"), "failed", id="a LangChain message"),
        pytest.param(message("success"), "ok", id="a LangChain message that is none"),
        pytest.param(("text", [message("error")]), "failed", id="content and artifact"),
        pytest.param(Command(update={"messages": [message("error")]}), "failed", id="a command's message"),
        pytest.param(Command(update={"messages": message("success")}), "ok", id="a command's one message"),
        pytest.param([{"isError": True}], "ok", id="records that the tool returns as data"),
        pytest.param({"status": "error"}, "ok", id="only the user knows"),
    ],
)
def test_what_is_known_of_results(result: object, outcome: Outcome) -> None:
    """A result that says that it is an error is a call that failed."""
    assert outcome_of(result) == outcome


def test_a_list_inside_itself() -> None:
    """It ends."""
    endless: list[Any] = []
    endless.append(endless)

    assert outcome_of(endless) == "ok"


def test_the_users_hook_decides() -> None:
    """It knows what no other does, and is asked alone."""
    assert outcome_of({"code": 500}, lambda result: "failed" if result["code"] >= 500 else "ok") == "failed"
    assert outcome_of({"isError": True}, lambda _: "ok") == "ok"


@pytest.mark.parametrize("said", [True, None, "done", b"ok"])
def test_a_hook_that_says_another_word(said: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody knows then that the call worked."""
    assert outcome_of("x", lambda _: said) == "unknown"
    assert "expected one of ok, failed, aborted, unknown" in caplog.text


def test_a_hook_that_raises(caplog: pytest.LogCaptureFixture) -> None:
    """The call has run all the same: its result is not lost, and allows nothing."""

    def hook(result: Any) -> Outcome:
        raise KeyError("code")

    assert outcome_of({}, hook) == "unknown"
    assert "outcome hook raised" in caplog.text
