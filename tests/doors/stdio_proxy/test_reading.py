"""What a line from the client is, and which lines two readers would read differently."""

import json

import pytest

from openbox_agentrt.doors.stdio_proxy.reading import Message, Noise, Unclear, id_key, read_client_line

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"amount":1}}}'


def only(line: bytes | str) -> Message:
    found = read_client_line(line if isinstance(line, bytes) else line.encode())
    assert isinstance(found, list), found
    [message] = found
    return message


@pytest.mark.parametrize(
    "end", ["", "\n", "\r\n"], ids=["end of file", "newline", "carriage return, newline"]
)
def test_a_call_is_a_message(end: str) -> None:
    """A tool call is read whatever ends its line, the end of the stream included."""
    message = only(CALL + end)

    assert message.method == "tools/call"
    assert message.expects_answer
    assert message.raw == CALL.encode()


@pytest.mark.parametrize(
    "line",
    [
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}',
        '{"jsonrpc":"2.0","id":"a","method":"tools/list"}',
        '{"jsonrpc":"2.0","id":3,"result":{"content":{"type":"text","text":"call me \\" tools/call"}}}',
        '{"jsonrpc":"2.0","id":3,"error":{"code":-1,"message":"no"}}',
        '{"jsonrpc":"2.0","id":4,"method":"x/custom","params":{"method":"tools/call","name":"pay"}}',
        '{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"a","arguments":{"k":1,"k":2}}}',
    ],
    ids=["notification", "request", "answer", "error", "nested method", "nested duplicate key"],
)
def test_everything_else_is_a_message_too(line: str) -> None:
    """A well-formed message that is no call is read as what it is."""
    assert only(line).method != "tools/call"


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"hello\n",
        b"{broken\n",
        b"\xff\xfe\x00\x01\n",
        b"12\n",
        b'"text"\n',
        b"[]\n",
        b"Content-Length: 3\r\n",
    ],
    ids=["empty", "blank", "words", "broken", "bytes", "number", "text", "empty batch", "header"],
)
def test_a_line_that_nobody_could_take_for_a_call_is_noise(line: bytes) -> None:
    """What is not a message and holds no trace of a call is none of the proxy's business."""
    assert isinstance(read_client_line(line), Noise)


CALLED = '"method":"tools/call","params":{"name":'

ATTACKS = {
    "method twice, last wins": '{"id":1,"method":"tools/call","method":"ping","params":{"name":"pay"}}',
    "method twice, first wins": '{"id":1,"method":"ping","method":"tools/call","params":{"name":"pay"}}',
    "method in another case": '{"id":1,"Method":"tools/call","params":{"name":"pay"}}',
    "method beside itself in another case": '{"id":1,"method":"ping","Method":"tools/call"}',
    "params with a long s": '{"id":1,' + CALLED + '"ok"},"param\u017f":{"name":"pay"}}',
    "call in another case": '{"id":1,"method":"Tools/Call","params":{"name":"pay"}}',
    "call with a space": '{"id":1,"method":"tools/call ","params":{"name":"pay"}}',
    "method in a list": '{"id":1,"method":["tools/call"],"params":{"name":"pay"}}',
    "id twice": '{"id":1,"id":2,"method":"ping"}',
    "name twice": '{"id":1,"method":"tools/call","params":{"name":"ok","name":"pay"}}',
    "name in another case": '{"id":1,"method":"tools/call","params":{"name":"ok","Name":"pay"}}',
    "arguments in another case": '{"id":1,' + CALLED + '"pay","Arguments":{"amount":9}}}',
    "amount twice": '{"id":1,' + CALLED + '"pay","arguments":{"amount":1,"amount":9}}}',
    "amount in two cases": '{"id":1,' + CALLED + '"pay","arguments":{"amount":1,"Amount":9}}}',
    "amount with a blank": '{"id":1,' + CALLED + '"pay","arguments":{"amount":1,"amount ":9}}}',
    "amount with an unseen one": '{"id":1,' + CALLED + '"pay","arguments":{"amount":1,"amount\u200b":9}}}',
    "name with a blank": '{"id":1,"method":"tools/call","params":{"name":"ok","name ":"pay"}}',
    "method with a blank": '{"id":1,"method":"ping","method ":"tools/call","params":{"name":"pay"}}',
    "amount twice, deep": '{"id":1,' + CALLED + '"pay","arguments":{"a":[{"b":1,"b":9}]}}}',
    "params in a list": '{"id":1,"method":"tools/call","params":["pay",{}]}',
    "no params": '{"id":1,"method":"tools/call"}',
    "no name": '{"id":1,"method":"tools/call","params":{}}',
    "name is a number": '{"id":1,"method":"tools/call","params":{"name":1}}',
    "arguments in a list": '{"id":1,"method":"tools/call","params":{"name":"pay","arguments":[1]}}',
    "half a character": CALL.replace('"amount":1', '"to":"ann\\ud800"'),
    "half a character in a name": CALL.replace('"amount"', '"am\\uDFFFount"'),
    "not a number": CALL.replace('"amount":1', '"amount":NaN'),
    "trailing comma": CALL[:-1] + ",}",
    "single quotes": CALL.replace('"', "'"),
    "comment": "/**/" + CALL,
    "byte order mark": "\ufeff" + CALL,
    "two in a line": CALL + CALL,
    "hidden by escapes": CALL.replace("tools/call", "\\u0074ools\\/c\\u0061ll")[:-1],
    "batch in a batch": f"[[{CALL}]]",
    "not an object in a batch": f"[1,{CALL}]",
    "unclear in a batch": '[{"id":1,"method":"ping"},{"id":2,"Method":"tools/call","params":{"name":"pay"}}]',
    "carriage returns around a call": '{"method":"notifications/x","params":\r' + CALL + "\r}",
}


@pytest.mark.parametrize("line", ATTACKS.values(), ids=ATTACKS.keys())
def test_a_line_that_could_be_another_call_is_unclear(line: str) -> None:
    """A line in which some reader would find a call that was not judged is never let through."""
    assert isinstance(read_client_line(line.encode()), Unclear)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1, 1.0, True), (1, "1", False), (1, True, False), ("a", "a", True), (None, 0, False), ([1], [1], True)],
)
def test_ids_compare_as_json_does(one: object, other: object, same: bool) -> None:
    """Numbers are equal by value; text is never a number."""
    assert (id_key(one) == id_key(other)) is same


def test_an_unclear_call_names_its_request() -> None:
    """A refusal can be answered to the request that was refused."""
    found = read_client_line(json.dumps({"id": 7, "method": "tools/call", "params": {"name": 1}}).encode())

    assert isinstance(found, Unclear)
    assert found.id == 7
