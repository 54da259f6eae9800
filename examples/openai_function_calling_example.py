"""
Contracts around the tool calls of an OpenAI model.

Runs without a key and without the SDK: the tool calls are dicts in the form of the API's. With the SDK, pass
``response.choices[0].message.tool_calls`` or, for the Responses API, ``response.output``.
"""

from collections.abc import Callable
from typing import Any

from openbox_agentrt.acel import Session, at_most_total, must_precede
from openbox_agentrt.doors.openai import guard_openai_tool_call, run_tool_calls


def verify_customer(customer_id: str) -> dict[str, Any]:
    """Check who the customer is."""
    return {"customer_id": customer_id, "verified": True}


def issue_refund(customer_id: str, amount: float) -> dict[str, Any]:
    """Send money back."""
    return {"customer_id": customer_id, "refunded": amount}


TOOLS: dict[str, Callable[..., Any]] = {"verify_customer": verify_customer, "issue_refund": issue_refund}


def build_session() -> Session:
    """A session in which refunds need a verified customer and have a budget."""
    session = Session()
    session.add_contract(must_precede("verify_customer", "issue_refund"))
    session.add_contract(at_most_total("issue_refund", "amount", limit=500))
    return session


def handle_tool_call(session: Session, tool_call: dict[str, Any]) -> Any:
    """Run one tool call. Raises `ContractViolation` if it may not run."""
    return guard_openai_tool_call(session, tool_call, TOOLS[tool_call["function"]["name"]])


def tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A tool call as the chat completions API returns it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def main() -> None:
    """One turn of a model that makes four kinds of mistakes, and what it is told."""
    turn = [
        tool_call("call_1", "issue_refund", '{"customer_id": "c1", "amount": 120}'),
        tool_call("call_2", "verify_customer", '{"customer_id": "c1"}'),
        tool_call("call_3", "issue_refund", '{"customer_id": "c1", "amount": 120}'),
        tool_call("call_4", "issue_refund", '{"customer_id": "c1", "amount": 400}'),
        tool_call("call_5", "issue_refund", '{"customer_id": "c1", "amount": 1, "amount": 380}'),
        tool_call("call_6", "close_account", "{}"),
    ]
    for message in run_tool_calls(build_session(), turn, TOOLS):
        print(message["tool_call_id"], message["content"])


if __name__ == "__main__":
    main()
