"""The proxy judges arguments in the types that the server listed its tools with."""

import json
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, any_of, at_most_n_times, at_most_total, matching
from openbox_agentrt.doors.stdio_proxy import Passage, StdioGate
from openbox_agentrt.evidence import EvidenceFile, read_entries
from openbox_agentrt.evidence.calls import calls_in
from openbox_agentrt.evidence.logs import merged_entries

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}, "to": {"default": "eve"}}}


def line(**body: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **body}).encode() + b"\n"


def call(number: Any = 1, tool: str = "pay", meta: Any = None, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return line(id=number, method="tools/call", params=params if meta is None else {**params, "_meta": meta})


def ask(gate: StdioGate, raw: bytes) -> dict[str, Any]:
    """The question that the gate has before it can judge this line."""
    passage = gate.from_client(raw)
    assert passage.again
    assert not gate.answered.is_set()
    question: dict[str, Any] = json.loads(passage.to_server)
    assert question["method"] == "tools/list"
    return question


def tell(gate: StdioGate, question: dict[str, Any], *names: str, **more: Any) -> None:
    tools = [{"name": name, "inputSchema": AMOUNT} for name in names]
    assert gate.from_server(line(id=question["id"], result={"tools": tools, **more})) == b""
    assert gate.answered.is_set()


def refusal(passage: Passage) -> str:
    assert not passage.to_server
    text: str = json.loads(passage.to_client)["result"]["content"][0]["text"]
    return text


def test_the_server_is_asked_before_the_first_call() -> None:
    """The client sees nothing of it, and the call passes as it came."""
    gate = StdioGate(Session())

    tell(gate, ask(gate, call(amount=5)), "pay")

    assert gate.from_client(call(amount=5)) == Passage(to_server=call(amount=5))
    assert gate.from_client(call(2, amount=5)) == Passage(to_server=call(2, amount=5))


def test_text_in_the_place_of_a_number_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """It says which argument, to the log as well, and nothing counts."""
    session = Session(contracts=[at_most_n_times("pay", 1)])
    gate = StdioGate(session)
    tell(gate, ask(gate, call(amount="5")), "pay")

    told = refusal(gate.from_client(call(amount="5")))

    assert "argument 'amount' is a text, and the tool declares a number" in told
    assert "argument 'amount' is a text" in caplog.text
    assert gate.from_client(call(amount=5)).to_server


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
@pytest.mark.parametrize("record", ["violations", "steps"])
def test_a_call_that_is_not_as_listed_is_in_the_evidence(tmp_path: Path, mode: Any, record: Any) -> None:
    """Its type or a misspelt key, with what was sent as far as it may be seen; in shadow, marked so."""
    path = tmp_path / "log.jsonl"
    with EvidenceFile(path, redact_fields=["card"], record=record) as file:
        session = Session(
            contracts=[at_most_total("pay", "amount", 100)], evidence=file.for_session("s"), mode=mode
        )
        gate = StdioGate(session, schemas={"pay": AMOUNT})
        passed = [
            gate.from_client(call(1, amount="5", card="4111-1111")).to_server,
            gate.from_client(call(2, AMOUNT=5)).to_server,
        ]

    found = [
        entry
        for entry in read_entries(path)
        if entry.type == "violation" and entry.data["spec"] == "the call is as its tool was listed"
    ]
    assert [bool(line) for line in passed] == [mode == "shadow"] * 2
    assert [(one.data["tool"], one.data["mode"], one.data["blocked"]) for one in found] == [
        ("pay", mode, mode == "enforce")
    ] * 2
    assert "argument 'amount' is a text" in found[0].data["fault"]
    assert "another spelling of 'amount'" in found[1].data["fault"]
    assert found[0].data["args"]["amount"] == "5"
    assert "4111-1111" not in path.read_text(encoding="utf-8")
    told = [
        one
        for one in calls_in(merged_entries([path]))
        if "the call is as its tool was listed" in one.contracts
    ]
    assert [one.verdict for one in told] == ["refused" if mode == "enforce" else "would refuse"] * 2


def test_the_default_of_a_schema_is_judged() -> None:
    """A client that leaves an argument out gets no further than one that sends it."""
    gate = StdioGate(Session(contracts=[at_most_n_times(matching("pay", "eve", field="to"), 0)]))
    tell(gate, ask(gate, call(amount=5)), "pay")

    assert "would break" in refusal(gate.from_client(call(amount=5)))
    assert gate.from_client(call(2, amount=5, to="ann")).to_server


def test_what_the_client_lists_need_not_be_asked() -> None:
    """The gate reads along."""
    gate = StdioGate(Session())
    gate.from_client(line(id="l", method="tools/list"))
    listed = line(id="l", result={"tools": [{"name": "pay", "inputSchema": AMOUNT}]})

    assert gate.from_server(listed) == listed
    assert "a text" in refusal(gate.from_client(call(amount="5")))


def test_every_page_is_asked_for() -> None:
    """A tool on the second page is known when it is called."""
    gate = StdioGate(Session())
    tell(gate, ask(gate, call(amount="5")), "refund", nextCursor="p2")
    second = ask(gate, call(amount="5"))
    assert second["params"] == {"cursor": "p2"}
    tell(gate, second, "pay")

    assert "a text" in refusal(gate.from_client(call(amount="5")))


def test_the_question_speaks_the_clients_protocol() -> None:
    """The current revision has its version in each request; a progress token is the client's own."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}

    question = ask(StdioGate(Session()), call(meta=meta, amount=1))

    assert question["params"]["_meta"] == {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def test_tools_that_change_are_asked_for_again() -> None:
    """The server says so, and what was known is forgotten."""
    gate = StdioGate(Session())
    tell(gate, ask(gate, call(amount=1)), "pay")
    changed = line(method="notifications/tools/list_changed")

    assert gate.from_server(changed) == changed
    tell(gate, ask(gate, call(amount=1)), "pay")


def test_a_server_that_lists_nothing() -> None:
    """Where it knows no such request there is nothing to hold arguments to; contracts judge what was sent."""
    gate = StdioGate(Session(contracts=[at_most_total("pay", "amount", 5)]))
    question = ask(gate, call(amount="5"))

    gate.from_server(line(id=question["id"], error={"code": -32601, "message": "Method not found"}))

    assert "at_most_total" in refusal(gate.from_client(call(amount="5")))
    assert gate.from_client(call(2, amount=5)).to_server


@pytest.mark.parametrize("how", ["error", "silence", "gone"])
def test_a_server_that_does_not_say(how: str) -> None:
    """The call is refused, and the next one asks anew."""
    gate = StdioGate(Session())
    question = ask(gate, call(amount=1))
    if how == "error":
        gate.from_server(line(id=question["id"], error={"code": -32602, "message": "not initialized"}))
    elif how == "silence":
        gate.give_up_asking()
    else:
        gate.close()

    assert "did not say which arguments" in refusal(gate.from_client(call(amount=1)))
    if how == "silence":
        # Its late answer is no answer to the client, and better than none.
        tell(gate, question, "pay")
    else:
        tell(gate, ask(gate, call(2, amount=1)), "pay")
    assert gate.from_client(call(2, amount=1)).to_server


def test_shadow_mode_watches_only() -> None:
    """A call that does not fit passes, and is judged as it was sent."""
    session = Session(mode="shadow", contracts=[at_most_total("pay", "amount", 5)])
    gate = StdioGate(session)
    tell(gate, ask(gate, call(amount="5")), "pay")

    assert gate.from_client(call(amount="5")).to_server
    assert [one.kind for one in session.violations] == ["session", "temporal"]


def test_a_client_cannot_take_the_place_of_the_gate() -> None:
    """Its ids are its own, whatever they look like."""
    gate = StdioGate(Session())
    gate.from_client(line(id="openbox-agentrt/1", method="ping"))
    answer = line(id="openbox-agentrt/1", result={})

    assert gate.from_server(answer) == answer


ORDER = {"order": {"lines": [{"Price": 5}]}}


@pytest.mark.parametrize(
    ("contract", "arguments", "field"),
    [
        pytest.param(at_most_total("pay", "amount", 5), {"Amount": 9}, "amount", id="a capital"),
        pytest.param(at_most_total("pay", "kind", 5), {"\u212aind": 9}, "kind", id="the sign for kelvin"),
        pytest.param(at_most_total("pay", "amount", 5), {"amount ": 9}, "amount", id="a blank behind"),
        pytest.param(at_most_total("pay", "amount", 5), {"\tamount": 9}, "amount", id="a tab before"),
        pytest.param(at_most_total("pay", "amount", 5), {"amo unt": 9}, "amount", id="a blank inside"),
        pytest.param(at_most_total("pay", "amount", 5), {"amount\x00": 9}, "amount", id="a null byte"),
        pytest.param(at_most_total("pay", "amount", 5), {"am\u200bount": 9}, "amount", id="an unseen one"),
        pytest.param(at_most_total("pay", "amount", 5), {"\uff41mount": 9}, "amount", id="a wide letter"),
        pytest.param(at_most_total("pay", "profit", 5), {"pro\ufb01t": 9}, "profit", id="a ligature"),
        pytest.param(at_most_total("pay", "a.amount", 5), {"a": {"amount ": 9}}, "amount", id="inside"),
        pytest.param(at_most_total("pay", "order.lines.0.price", 5), ORDER, "price", id="at any depth"),
        pytest.param(at_most_n_times("pay", 1, key="customer"), {"Customer": 7}, "customer", id="a key"),
        pytest.param(at_most_n_times("pay", 1, key=["a", "b"]), {"B": 7}, "b", id="several"),
        pytest.param(at_most_n_times("pay", 1, key={"pay": "c"}), {"C": 7}, "c", id="by tool"),
        pytest.param(
            at_most_total("pay", "items.*.price", 5), {"items": [{"PRICE": 7}]}, "price", id="of all"
        ),
        pytest.param(
            at_most_n_times(matching("pay", "eve", field="to"), 0), {"x": {"To": "eve"}}, "to", id="a pattern"
        ),
        pytest.param(
            at_most_n_times(any_of("ship", matching("pay", "eve", field="to")), 0),
            {"TO": 1},
            "to",
            id="any of",
        ),
    ],
)
def test_a_key_in_another_spelling_is_refused(contract: Any, arguments: dict[str, Any], field: str) -> None:
    """A server that folds case would take it for the field that the contract names."""
    gate = StdioGate(Session(contracts=[contract]), schemas={})

    told = refusal(gate.from_client(call(**arguments)))

    assert f"another spelling of '{field}'" in told


@pytest.mark.parametrize(
    "arguments", [{"amount": 1}, {"amounts": 9, "amount": 1}, {"note": "Amount", "amount": 1}]
)
def test_other_keys_pass(arguments: dict[str, Any]) -> None:
    """Only the spelling of a named field is looked at."""
    gate = StdioGate(Session(contracts=[at_most_total("pay", "amount", 5)]), schemas={})

    assert gate.from_client(call(**arguments)).to_server


def test_contracts_that_come_later_name_fields_too() -> None:
    """A session may grow."""
    session = Session()
    gate = StdioGate(session, schemas={})
    assert gate.from_client(call(Amount=9)).to_server
    session.add_contract(at_most_total("pay", "amount", 5))

    assert not gate.from_client(call(2, Amount=9)).to_server
