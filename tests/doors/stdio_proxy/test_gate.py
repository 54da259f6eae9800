"""The gate of the proxy, line by line: what passes, what is answered at once, and what counts as done."""

import json
import threading
from collections.abc import Iterable
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openbox_agentrt.acel import Session, at_most_n_times, cannot_follow_without
from openbox_agentrt.doors.stdio_proxy.gate import Passage, StdioGate


def call(tool: str, request_id: Any = 1, **arguments: Any) -> bytes:
    body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call"}
    return line({**body, "params": {"name": tool, "arguments": arguments}})


def line(body: Any) -> bytes:
    return json.dumps(body).encode() + b"\n"


def done(request_id: Any = 1, **extra: Any) -> bytes:
    result = {"content": [{"type": "text", "text": "{}"}], **extra}
    return line({"jsonrpc": "2.0", "id": request_id, "result": result})


def failed(request_id: Any = 1) -> bytes:
    return done(request_id, isError=True)


def cancelled(request_id: Any = 1) -> bytes:
    return line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}})


Mode = Literal["enforce", "shadow"]


def gate(*contracts: Any, mode: Mode = "enforce", methods: Iterable[str] = ("tools/call",)) -> StdioGate:
    session = Session(mode=mode)
    session.add_contracts(contracts)
    return StdioGate(session, gate=methods, schemas={})


def passes(passage: Passage) -> bool:
    return bool(passage.to_server)


def backup_first(mode: Mode = "enforce") -> StdioGate:
    return gate(cannot_follow_without("delete", "backup"), mode=mode)


def test_an_allowed_call_passes_byte_for_byte() -> None:
    """What is let through is not rewritten, whatever its spacing and the spelling of its numbers."""
    raw = b'{ "id":1.0 ,"method":"tools\\/call","params":{"name":"pay","arguments":{"a":1.10e2}}, "x":[]}\r\n'

    assert gate().from_client(raw) == Passage(to_server=raw)


def test_a_refused_call_is_answered_and_does_not_pass() -> None:
    """The server never sees it, and the client gets the refusal under the request's id."""
    passage = backup_first().from_client(call("delete", "x-1"))

    assert passage.to_server == b""
    answer = json.loads(passage.to_client)
    assert passage.to_client.endswith(b"\n")
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == "x-1"
    assert answer["result"]["isError"] is True
    assert answer["result"]["content"][0]["text"].startswith("ACEL HALT: call to 'delete' refused")
    assert answer["result"]["structuredContent"]["violation"]["kind"] == "temporal"
    assert "resultType" not in answer["result"]


def test_a_refusal_in_the_current_protocol_says_its_type() -> None:
    """From 2026-07-28 on, a result names its type."""
    body = json.loads(call("delete"))
    body["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}

    answer = json.loads(backup_first().from_client(line(body)).to_client)

    assert answer["result"]["resultType"] == "complete"


def test_a_done_call_allows() -> None:
    """A prerequisite counts once the server has answered it."""
    subject = backup_first()

    assert passes(subject.from_client(call("backup", 1)))
    assert not passes(subject.from_client(call("delete", 2)))
    assert subject.from_server(done(1)) == done(1)
    assert passes(subject.from_client(call("delete", 3)))


@pytest.mark.parametrize(
    "answer",
    [
        failed(),
        line({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "unknown tool"}}),
        line({"jsonrpc": "2.0", "id": 1, "error": None}),
        line({"jsonrpc": "2.0", "id": 1, "result": {}}),
        line({"jsonrpc": "2.0", "id": 1, "result": "text"}),
        line({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "t"}}}),
        done(resultType="com.example/later"),
        done(isError="false"),
        line({"jsonrpc": "2.0", "id": "1", "result": {"content": []}}),
        line({"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "result": {"content": []}}),
        line({"jsonrpc": "2.0", "result": {"content": []}}),
        b"garbage\n",
        b"[]\n",
    ],
    ids=[
        "error result",
        "error",
        "null error",
        "no content",
        "not an object",
        "task",
        "extension",
        "error flag as text",
        "id as text",
        "request of the server",
        "no id",
        "garbage",
        "empty batch",
    ],
)
def test_anything_but_a_done_call_allows_nothing(answer: bytes) -> None:
    """A prerequisite that failed, goes on or was never answered does not count; every line passes on."""
    subject = backup_first()
    subject.from_client(call("backup", 1))

    assert subject.from_server(answer) == answer
    assert not passes(subject.from_client(call("delete", 2)))


@pytest.mark.parametrize(
    "answer",
    [
        line({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s"}}),
        line({"jsonrpc": "2.0", "id": 1, "error": {"code": -32042, "message": "open this URL"}}),
    ],
    ids=["input required", "URL elicitation required"],
)
def test_a_call_that_waits_for_input_has_not_happened(answer: bytes) -> None:
    """The client comes back with the same call, which is within the limit."""
    subject = gate(at_most_n_times("pay", 1))
    subject.from_client(call("pay", 1))
    subject.from_server(answer)

    assert passes(subject.from_client(call("pay", 2)))


def test_a_failed_call_stays_counted() -> None:
    """What a failed call did is unknown, so a limit counts it."""
    subject = gate(at_most_n_times("pay", 1))
    subject.from_client(call("pay", 1))
    subject.from_server(failed(1))

    assert not passes(subject.from_client(call("pay", 2)))


def test_an_answer_to_another_request_is_not_the_answer_to_a_call() -> None:
    """While a call is running, its id cannot be borrowed for a request that is sure to succeed."""
    subject = backup_first()
    subject.from_client(call("backup", 7))

    passage = subject.from_client(line({"jsonrpc": "2.0", "id": 7, "method": "ping"}))

    assert passage.to_server == b""
    assert json.loads(passage.to_client)["error"]["code"] == -32600


def test_a_call_cannot_borrow_the_id_of_another_request() -> None:
    """The other way round as well: a ping is running, and a call takes its id."""
    subject = backup_first()
    subject.from_client(line({"jsonrpc": "2.0", "id": 7, "method": "ping"}))

    assert not passes(subject.from_client(call("backup", 7.0)))


def test_two_calls_with_one_id() -> None:
    """The second is refused; the first is settled by its answer."""
    subject = backup_first()
    subject.from_client(call("backup", 7))

    assert not passes(subject.from_client(call("backup", 7)))
    subject.from_server(done(7))
    assert passes(subject.from_client(call("delete", 8)))


def test_an_id_may_be_used_again_once_it_was_answered() -> None:
    """Clients that number every request 1 work."""
    subject = backup_first()
    for _ in range(3):
        assert passes(subject.from_client(call("backup")))
        subject.from_server(done())

    assert passes(subject.from_client(call("delete")))


def test_requests_that_are_no_calls_may_share_an_id() -> None:
    """That is between the client and the server."""
    subject = gate()
    ping = line({"jsonrpc": "2.0", "id": 1, "method": "ping"})

    assert passes(subject.from_client(ping))
    assert passes(subject.from_client(ping))


def test_a_cancelled_call_is_settled() -> None:
    """It stays counted, allows nothing, and a late answer changes neither."""
    subject = gate(at_most_n_times("backup", 1), cannot_follow_without("delete", "backup"))
    subject.from_client(call("backup", 1))

    assert subject.from_client(cancelled(1)) == Passage(to_server=cancelled(1))
    assert subject.from_server(done(1)) == done(1)
    assert not passes(subject.from_client(call("delete", 2)))
    assert not passes(subject.from_client(call("backup", 3)))


def test_the_id_of_a_cancelled_call_is_spent() -> None:
    """Else its late answer would pass for the answer to the next call with that id."""
    subject = backup_first()
    subject.from_client(call("slow", 1))
    subject.from_client(cancelled(1))

    assert not passes(subject.from_client(call("backup", 1)))
    subject.from_server(done(1))
    assert passes(subject.from_client(call("backup", 1)))


@pytest.mark.parametrize(
    "body",
    [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": 1}}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
    ],
    ids=["unknown id", "odd id", "no id", "no params"],
)
def test_other_cancellations_pass(body: Any) -> None:
    """A cancellation of nothing is the server's business."""
    assert gate().from_client(line(body)) == Passage(to_server=line(body))


def test_a_call_without_an_id_is_judged() -> None:
    """A lenient server might run it, so it counts; nothing says what came of it, so it allows nothing."""
    subject = gate(at_most_n_times("backup", 1), cannot_follow_without("delete", "backup"))
    notification = line({"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "backup"}})

    assert passes(subject.from_client(notification))
    assert subject.from_client(notification) == Passage()
    assert not passes(subject.from_client(call("delete")))


def test_a_call_with_a_null_id_is_judged() -> None:
    """Null is an id to some readers and none to others; a refusal is answered to it."""
    subject = gate(at_most_n_times("pay", 0))

    passage = subject.from_client(call("pay", None))

    assert not passes(passage)
    assert json.loads(passage.to_client)["id"] is None


def test_a_batch_is_judged_call_by_call() -> None:
    """What is allowed goes on as a batch of its own; what is refused is answered as one."""
    subject = gate(at_most_n_times("pay", 1))
    messages = [call("pay", 1), line({"jsonrpc": "2.0", "id": 2, "method": "ping"}), call("pay", 3)]
    raw = b"[" + b",".join(message.strip() for message in messages) + b"]\n"

    passage = subject.from_client(raw)

    assert [message["id"] for message in json.loads(passage.to_server)] == [1, 2]
    assert [answer["id"] for answer in json.loads(passage.to_client)] == [3]


def test_a_batch_of_allowed_calls_passes_byte_for_byte() -> None:
    """Nothing is rewritten for nothing."""
    raw = b" [ " + call("pay", 1).strip() + b" ,\t" + call("pay", 2).strip() + b"]\n"

    assert gate().from_client(raw) == Passage(to_server=raw)


def test_calls_of_one_batch_do_not_allow_each_other() -> None:
    """They run at once, so the first has not happened when the second is judged."""
    raw = b"[" + call("backup", 1).strip() + b"," + call("delete", 2).strip() + b"]\n"

    assert [body["id"] for body in json.loads(backup_first().from_client(raw).to_server)] == [1]


def test_a_batch_of_answers_settles_its_calls() -> None:
    """A server may answer a batch with a batch."""
    subject = backup_first()
    subject.from_client(call("backup", 1))
    answers = b"[" + done(1).strip() + b"]\n"

    assert subject.from_server(answers) == answers
    assert passes(subject.from_client(call("delete", 2)))


def test_a_result_that_breaks_a_postcondition_is_withheld() -> None:
    """The call has run, and its result does not reach the client."""
    session = Session()
    session.register_tool("read", postcondition=lambda state, result: "secret" not in result["text"])
    subject = StdioGate(session, schemas={})
    subject.from_client(call("read", 5))
    leaking = line(
        {"jsonrpc": "2.0", "id": 5, "result": {"content": [{"type": "text", "text": "the secret"}]}}
    )

    passed = subject.from_server(leaking)

    assert b"secret" not in passed
    assert json.loads(passed)["id"] == 5
    assert json.loads(passed)["result"]["isError"] is True


def test_an_unclear_line_is_answered() -> None:
    """A line that could be another call does not pass, and the client is told."""
    passage = gate().from_client(b'{"id":3,"method":"tools/call","params":["pay"]}\n')

    assert passage.to_server == b""
    assert json.loads(passage.to_client)["id"] == 3
    assert json.loads(passage.to_client)["error"]["message"].startswith("ACEL HALT: message refused")


@pytest.mark.parametrize(
    "raw",
    [
        call("delete"),
        b'{"id":3,"method":"tools/call","method":"ping"}\n',
        b"tools/call\n",
        b"\xff\xfe call \\ \n",
        b"",
    ],
    ids=["refused", "unclear", "noise with a trace", "bytes", "nothing"],
)
def test_shadow_mode_passes_every_line(raw: bytes) -> None:
    """A session that only watches changes nothing on the way."""
    assert backup_first("shadow").from_client(raw) == Passage(to_server=raw)


def test_shadow_mode_counts() -> None:
    """What would have been refused is recorded, once for each call."""
    session = Session(mode="shadow")
    session.add_contract(at_most_n_times("pay", 1))
    subject = StdioGate(session, schemas={})
    for number in range(3):
        subject.from_client(call("pay", number))
        subject.from_server(done(number))

    assert len(session.violations) == 2


def test_shadow_mode_survives_ids_that_are_used_twice() -> None:
    """Both calls pass; which answer is whose is unknown, so the second allows nothing."""
    subject = backup_first("shadow")
    assert passes(subject.from_client(call("backup", 1)))
    assert passes(subject.from_client(call("backup", 1)))
    subject.from_server(done(1))
    subject.from_server(done(1))
    subject.close()


def test_closing_settles_what_is_owed() -> None:
    """When the server is gone, its calls stay counted and allow nothing."""
    session = Session()
    session.add_contracts([at_most_n_times("pay", 1), cannot_follow_without("delete", "pay")])
    subject = StdioGate(session, schemas={})
    subject.from_client(call("pay", 1))

    subject.close()
    subject.close()

    assert session.reserve("pay").allowed is False
    assert session.reserve("delete").allowed is False


def test_resources_can_be_gated() -> None:
    """Only a tool's result can say that it is an error; other refusals are errors of the protocol."""
    subject = gate(at_most_n_times("resources/read", 0), methods=("tools/call", "resources/read"))
    read = line(
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}
    )

    answer = json.loads(subject.from_client(read).to_client)

    assert answer["error"]["code"] == -32600
    assert answer["error"]["data"]["acel_halted"] is True


def test_a_judge_that_fails_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine fault refuses the call."""
    subject = gate()
    monkeypatch.setattr(Session, "reserve", lambda *args, **kwargs: 1 / 0)

    passage = subject.from_client(call("pay"))

    assert not passes(passage)
    assert json.loads(passage.to_client)["error"]["code"] == -32603


def test_the_limit_holds_from_both_directions_at_once() -> None:
    """One thread sends calls while the other answers them; no more pass than the contract allows."""
    subject = gate(at_most_n_times("pay", 50))
    passed: list[int] = []
    finished = threading.Event()

    def answer() -> None:
        while not finished.is_set() or passed:
            while passed:
                subject.from_server(done(passed.pop()))

    answering = threading.Thread(target=answer)
    answering.start()
    count = 0
    for number in range(200):
        if passes(subject.from_client(call("pay", number))):
            passed.append(number)
            count += 1
    finished.set()
    answering.join(10)

    assert count == 50


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["pay", "tools/call", "id", "\u2028", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "method", "Method", "params", "name", "arguments", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(JSON.map(lambda body: json.dumps(body, ensure_ascii=False).encode()) | st.binary(max_size=40))
)
def test_no_line_gets_a_forbidden_call_past(lines: list[bytes]) -> None:
    """Whatever a client writes, a reader of the lines that pass finds no call to a forbidden tool."""
    subject = gate(at_most_n_times("pay", 0))

    for raw in lines:
        try:
            seen = json.loads(subject.from_client(raw + b"\n").to_server)
        except ValueError:
            continue
        for message in seen if isinstance(seen, list) else [seen]:
            if isinstance(message, dict) and message.get("method") == "tools/call":
                assert message["params"]["name"] != "pay"
