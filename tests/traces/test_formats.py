"""Recordings of other programs, made by these programs' own libraries where they have one."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openbox_agentrt.acel import Session, at_most_n_times
from openbox_agentrt.acel.events import LIFECYCLE
from openbox_agentrt.evidence import EvidenceFile
from openbox_agentrt.traces import conversations, sorting
from openbox_agentrt.traces.events import NOT_RECORDED, Began, Ended, TraceEvent
from openbox_agentrt.traces.formats import Recordings
from openbox_agentrt.traces.source import TraceSourceError


def written(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values), encoding="utf-8")
    return path


def read(*paths: Path, **options: Any) -> tuple[list[TraceEvent], dict[str, int]]:
    recordings = Recordings(map(str, paths), **options)
    return list(recordings.events()), dict(recordings.unread)


def story(events: list[TraceEvent]) -> list[Any]:
    """What tools did, in short."""
    told: list[Any] = []
    for event in events:
        if isinstance(event, Ended) and event.call.tool in LIFECYCLE:
            continue
        if isinstance(event, Began) and event.tool in LIFECYCLE:
            continue
        if isinstance(event, Began):
            told.append((event.tool, event.args))
        elif isinstance(event, Ended):
            told.append((event.call.tool, event.outcome, event.result))
    return told


async def test_lines_of_a_real_mcp_server_and_client(tmp_path: Path) -> None:
    """What goes over the wire is logged as it is: calls, results, errors of tools and of the protocol."""
    import anyio
    from mcp.client.session import ClientSession
    from mcp.server.mcpserver import MCPServer
    from mcp.shared.memory import create_client_server_memory_streams

    server = MCPServer("shop")

    @server.tool()
    def pay(amount: int) -> str:
        if amount > 100:
            raise ValueError("too much")
        return f"paid {amount}"

    lines: list[str] = []
    async with create_client_server_memory_streams() as (client, shop):
        sent, to_server = anyio.create_memory_object_stream[Any](9)
        to_client, received = anyio.create_memory_object_stream[Any](9)

        async def log(source: Any, target: Any) -> None:
            async with source, target:
                async for message in source:
                    lines.append(message.message.model_dump_json(by_alias=True, exclude_none=True))
                    await target.send(message)

        low = server._lowlevel_server
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(log, to_server, client[1])
            tasks.start_soon(log, client[0], to_client)
            tasks.start_soon(low.run, shop[0], shop[1], low.create_initialization_options())
            async with ClientSession(received, sent) as session:
                await session.initialize()
                await session.call_tool("pay", {"amount": 5})
                await session.call_tool("pay", {"amount": 500})
            tasks.cancel_scope.cancel()

    path = tmp_path / "wire.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    events, unread = read(path)
    assert [told[:2] for told in story(events)] == [
        ("pay", {"amount": 5}),
        ("pay", "ok"),
        ("pay", {"amount": 500}),
        ("pay", "failed"),
    ]
    assert unread == {}


def spans(*calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Spans that the SDK of OpenTelemetry made, in the JSON of OTLP, a request for each."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import StatusCode

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    for call in calls:
        span = tracer.start_span("execute_tool", start_time=call["start"], attributes=call["attributes"])
        if call.get("failed"):
            span.set_status(StatusCode.ERROR)
        span.end(call["end"])
    provider.shutdown()
    lines = []
    for finished in exporter.get_finished_spans():
        line = MessageToDict(encode_spans([finished]))
        for found in line["resourceSpans"][0]["scopeSpans"][0]["spans"]:
            # The JSON of OTLP has ids in hexadecimal, unlike that of protobuf.
            for name in ("traceId", "spanId"):
                found[name] = base64.b64decode(found[name]).hex()
        lines.append(line)
    return lines


def gen_ai(tool: str, session: str = "s", **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": session,
        **more,
    }


def test_spans_of_three_conventions_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    """A call that overlaps another ends after it began, though its span was written first or last."""
    lines = spans(
        {
            "start": 3_000_000_000,
            "end": 4_000_000_000,
            "failed": True,
            "attributes": {
                "openinference.span.kind": "TOOL",
                "tool.name": "look",
                "input.value": '{"q": "x"}',
                "output.value": "nothing",
                "session.id": "s",
            },
        },
        {"start": 1_000_000_000, "end": 5_000_000_000, "attributes": gen_ai("slow")},
        {
            "start": 2_000_000_000,
            "end": 2_000_000_000,
            "attributes": {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "quick",
                "traceloop.entity.input": "{}",
            },
        },
        {"start": 1, "end": 2, "attributes": {"gen_ai.operation.name": "chat"}},
    )
    events, unread = read(written(tmp_path / "spans.jsonl", *lines))
    assert story(events) == [
        ("slow", None),
        ("quick", {}),
        ("quick", "ok", NOT_RECORDED),
        ("look", {"q": "x"}),
        ("look", "failed", "nothing"),
        ("slow", "ok", NOT_RECORDED),
    ]
    assert [event.at for event in events if isinstance(event, Began)] == [1.0, 2.0, 3.0]
    assert {event.session for event in events if isinstance(event, Began) and event.tool != "quick"} == {"s"}
    assert unread == {}


def test_a_span_that_names_no_conversation_is_of_the_one_of_its_trace(tmp_path: Path) -> None:
    """The span of the agent names it, and is written last, since it ends last. Two turns are two traces."""
    unnamed = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "chat-7"}
    made = [
        line
        for turn in (1, 2, 3)
        for line in spans(
            {"start": turn * 10 + 1, "end": turn * 10 + 2, "attributes": unnamed},
            {"start": turn * 10 + 1, "end": turn * 10 + 5, "attributes": agent if turn < 3 else {}},
        )
    ]
    for number, line in enumerate(made):
        line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = f"trace {number // 2}"
    events, unread = read(written(tmp_path / "spans.jsonl", *made))

    assert [event.session for event in events if isinstance(event, Began)] == ["chat-7", "chat-7", "trace 2"]
    assert unread == {}


def of_trace(*made: dict[str, Any]) -> list[dict[str, Any]]:
    """Spans of one trace, with their own ids and those of the spans that they began in."""
    lines = []
    for place, call in enumerate(made):
        told = (
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call["tool"]}
            if "tool" in call
            else {}
        )
        told |= {"gen_ai.conversation.id": call["names"]} if "names" in call else {}
        span = {
            "traceId": "t-1",
            "spanId": call["id"],
            "parentSpanId": call.get("in", ""),
            "startTimeUnixNano": str(call.get("start", place + 1)),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in told.items()],
        }
        lines.append({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    return lines


def conversations_of(path: Path, *lines: Any) -> tuple[dict[str, str], dict[str, int]]:
    events, unread = read(written(path, *lines))
    return {event.tool: event.session for event in events if isinstance(event, Began)}, unread


@pytest.mark.parametrize(("traces", "some"), [(10_000, 50_000), (1, 50_000), (10_000, 2)])
def test_a_span_is_of_the_conversation_of_the_nearest_span_that_it_began_in(
    traces: int, some: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One agent asks another in one trace: each call is of its own agent, whichever was named first."""
    monkeypatch.setattr(conversations, "MOST_TRACES", traces)
    monkeypatch.setattr(conversations, "MOST_SPANS", some)
    made = of_trace(
        {"id": "root"},
        {"id": "one", "in": "root", "names": "chat-1"},
        {"id": "step", "in": "one"},
        {"id": "pay", "in": "step", "tool": "pay"},
        {"id": "two", "in": "pay", "names": "chat-2"},
        {"id": "mail", "in": "two", "tool": "mail"},
        {"id": "note", "in": "one", "tool": "note"},
        {"id": "loose", "in": "root", "tool": "loose"},
    )
    other = json.loads(json.dumps(made[1]).replace("t-1", "t-2"))
    # A span is written when it has ended, so those of the agents come last.
    found, unread = conversations_of(tmp_path / "spans.jsonl", *reversed([*made, other]))

    assert found["mail"] == "chat-2"
    if some > 2:
        assert found == {"pay": "chat-1", "mail": "chat-2", "note": "chat-1", "loose": "t-1"}
        assert unread == {"conversations of calls whose traces have several": 1}
    else:
        # What is not known any more is said, and nothing is guessed.
        assert found["loose"] == "t-1"
        assert unread["conversations of calls whose traces have several"] >= 1


def test_spans_beside_each_other_are_of_the_only_conversation_of_their_trace(tmp_path: Path) -> None:
    """Those that began before it was named as well; what names itself in a circle is in no span."""
    made = of_trace(
        {"id": "early", "in": "root", "tool": "early"},
        {"id": "chat", "in": "root", "names": "chat-1"},
        {"id": "late", "in": "ghost", "tool": "late"},
        {"id": "a", "in": "b"},
        {"id": "b", "in": "a"},
        {"id": "round", "in": "a", "tool": "round"},
    )
    found, unread = conversations_of(tmp_path / "spans.jsonl", *made)
    assert found == dict.fromkeys(("early", "late", "round"), "chat-1")
    assert unread == {}


def test_a_span_that_was_sent_twice_is_one_call(tmp_path: Path) -> None:
    """An exporter that heard no answer sends it again, in a request of its own, maybe much later."""
    call = {"start": 1, "end": 2, "attributes": gen_ai("pay")}
    sent = spans(call, call)

    events, unread = read(written(tmp_path / "spans.jsonl", *sent, *sent))
    assert sum(isinstance(event, Began) for event in events) == 2
    assert unread == {"an id that stands twice": 2}


def test_more_spans_than_fit_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are sorted through files, and none is lost."""
    monkeypatch.setattr(sorting, "IN_MEMORY", 2_000)
    times = list(range(1, 60))
    random.Random(3).shuffle(times)
    calls = [{"start": t * 10, "end": t * 10 + 5, "attributes": gen_ai(f"t{t}")} for t in times]
    events, _ = read(written(tmp_path / "spans.jsonl", *spans(*calls)))
    assert [e.tool for e in events if isinstance(e, Began)] == [f"t{t}" for t in range(1, 60)]
    assert len(events) == 2 * 59


def test_messages_of_openai_in_both_shapes(tmp_path: Path) -> None:
    """As the library's own types write them."""
    from openai.types.chat import ChatCompletionMessage
    from openai.types.responses import ResponseFunctionToolCall

    asked = ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "pay", "arguments": '{"amount": 5}'}},
                {"id": "2", "type": "function", "function": {"name": "look", "arguments": "{broken"}},
            ],
        }
    )
    chat = [
        {"role": "user", "content": "hi"},
        asked.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": "2", "content": "seen"},
        {"role": "tool", "tool_call_id": "1", "content": "paid"},
    ]
    item = ResponseFunctionToolCall(arguments="{}", call_id="c", name="pay", type="function_call")
    responses = {
        "id": "r-1",
        "output": [item.model_dump(), {"type": "function_call_output", "call_id": "c", "output": "ok"}],
    }
    (tmp_path / "chat.json").write_text(json.dumps(chat, indent=1), encoding="utf-8")
    written(tmp_path / "many.jsonl", {"messages": chat}, responses)

    assert story(read(tmp_path / "chat.json")[0]) == [
        ("pay", {"amount": 5}),
        ("look", None),
        ("look", "ok", "seen"),
        ("pay", "ok", "paid"),
    ]
    events, _ = read(tmp_path / "many.jsonl")
    sessions = [e.session for e in events if isinstance(e, Began) and e.tool not in LIFECYCLE]
    assert sessions == [f"{tmp_path}/many.jsonl:1"] * 2 + ["r-1"]


def line(uuid: str, parent: str | None, kind: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s-1",
        "timestamp": "2026-11-30T10:00:00.000Z",
        "message": {"role": kind, "content": list(content)},
        **more,
    }


def test_a_transcript_of_claude_code(tmp_path: Path) -> None:
    """The branch that an edited prompt left behind is no history; a sub-agent's calls are."""
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    gone = {"type": "tool_use", "id": "t0", "name": "Bash", "input": {"command": "rm -rf /"}}
    side = {"type": "tool_use", "id": "t2", "name": "Read", "input": {"file_path": "a"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True}
    path = written(
        tmp_path / "s-1.jsonl",
        {"type": "summary", "summary": "x", "leafUuid": "e"},
        line("p", None, "user", {"type": "text", "text": "hello"}),
        line("b", "p", "assistant", gone),
        line("a", None, "user", {"type": "text", "text": "hi"}),
        line("c", "a", "assistant", {"type": "text", "text": "."}, use),
        line("x", None, "assistant", side, isSidechain=True),
        line("d", "c", "user", failed),
    )
    events, unread = read(path)
    assert story(events) == [
        ("Bash", {"command": "ls"}),
        ("Read", {"file_path": "a"}),
        ("Bash", "failed", "no"),
        ("Read", "unknown", NOT_RECORDED),
    ]
    assert {event.session for event in events if isinstance(event, Began)} == {"s-1"}
    assert isinstance(events[0], Began)
    assert (events[0].tool, events[0].args, events[0].at) == ("user_prompt", {"prompt": "hi"}, 1796032800.0)
    assert unread == {}


def test_steps_with_late_arguments_and_calls_that_overlap(tmp_path: Path) -> None:
    """As they were judged, in their order, those that were refused among them."""

    class Late(EvidenceFile):
        late_arguments = True

    path = tmp_path / "e.jsonl"
    with Late(path, record="steps") as evidence:
        session = Session(contracts=[at_most_n_times("pay", 2)], evidence=evidence, session_id="s")
        first = session.reserve("pay", {"amount": 1})
        second = session.reserve("pay", {"amount": 2})
        session.reserve("pay", {"amount": 3})
        second.commit("paid")
        first.abort(ran=True)
        session.reserve("look", {"at": 4})
        del session
    events, unread = read(path)
    assert story(events)[:6] == [
        ("pay", {"amount": 1}),
        ("pay", {"amount": 2}),
        ("pay", {"amount": 3}),
        ("pay", "unknown", NOT_RECORDED),
        ("pay", "ok", NOT_RECORDED),
        ("pay", "failed", NOT_RECORDED),
    ]
    assert [event.refused for event in events if isinstance(event, Began)] == [False, False, True, False]
    assert unread == {}


def test_evidence_without_steps_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path) as evidence:
        Session(contracts=[at_most_n_times("x", 0)], evidence=evidence).reserve("x")
    with pytest.raises(TraceSourceError, match="evidence without steps"):
        read(path)


DAMAGED = {
    "a last line that is cut": (b'{"role":"user"}\n{"role":"assistant","tool_c', {"the last line is cut": 1}),
    "a line that is none": (b'{"role":"user"}\nnone\n{"role":"user"}\n', {"no JSON: expecting value": 1}),
    "a name twice": (
        b'{"role":"user"}\n{"role":"user","role":"tool"}\n',
        {"no JSON: a name is there twice": 1},
    ),
    "a byte order mark": (b'\xef\xbb\xbf{"role":"user"}\n', {}),
    "a result before its call": (
        b'{"role":"tool","tool_call_id":"1","content":""}\n',
        {"a result without its call": 1},
    ),
    "an id twice": (
        b'{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"a"}},'
        b'{"id":"1","function":{"name":"b"}}]}\n',
        {"an id that stands twice": 1},
    ),
    "a call without a name": (
        b'{"role":"assistant","tool_calls":[{"id":"1","function":{}}]}\n',
        {"a call without a name": 1},
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_cannot_be_read_is_counted(case: str, tmp_path: Path) -> None:
    data, unread = DAMAGED[case]
    path = tmp_path / "damaged.jsonl"
    path.write_bytes(data)
    assert read(path)[1] == unread


@pytest.mark.parametrize("format", ["mcp", "otlp"])
def test_a_number_that_is_no_time_ends_nothing(format: str, tmp_path: Path) -> None:
    """Its call is read without a time, or counted where it needs one, and the one after it is read."""

    def line(at: int) -> dict[str, Any]:
        params = {"name": "pay", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": str(at), "method": "tools/call", "params": params}
        attributes = [{"key": name, "value": {"stringValue": value}} for name, value in gen_ai("pay").items()]
        span = {"startTimeUnixNano": str(at * 10**9), "attributes": attributes}
        spans = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
        return {"ts": at, "message": message} if format == "mcp" else spans

    events, unread = read(written(tmp_path / "t.jsonl", line(10**400), line(7)))
    begun = [event.at for event in events if isinstance(event, Began)]
    if format == "mcp":
        assert (begun, unread) == ([None, 7], {})
    else:
        assert (begun, unread) == ([7], {"a call without a time": 1})


@pytest.mark.parametrize("named", [("logs",), ("logs/e.jsonl",), ("logs/e.000001.jsonl", "logs/e.jsonl")])
def test_a_log_in_several_files_is_read_once(
    named: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder, too, where each of its files is found by itself. A call is said to be where it stands."""
    monkeypatch.chdir(tmp_path)
    with EvidenceFile("logs/e.jsonl", record="steps", max_bytes=4_000) as evidence:
        session = Session(contracts=[at_most_n_times("x", 99)], evidence=evidence)
        for number in range(20):
            session.reserve("x", {"mark": f"call {number}"}).commit()
    assert len(list(Path("logs").glob("e.0*.jsonl"))) > 2
    events, unread = read(*map(Path, named))

    begun = [event for event in events if isinstance(event, Began)]
    assert [(event.args or {})["mark"] for event in begun] == [f"call {number}" for number in range(20)]
    for event in begun:
        name, _, line = event.where.rpartition(":")
        assert (event.args or {})["mark"] in Path(name).read_text(encoding="utf-8").splitlines()[
            int(line) - 1
        ]
    assert unread.keys() <= {"files with another ending"}


def test_a_log_that_is_cut_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    with EvidenceFile(path, record="steps") as evidence:
        Session(contracts=[at_most_n_times("x", 1)], evidence=evidence).reserve("x").commit()
    with path.open("ab") as file:
        file.write(b'{"body": {"e": "res')
    events, unread = read(path)
    assert story(events) == [("x", {}), ("x", "ok", NOT_RECORDED)]
    assert unread == {"the last line is cut": 1}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"event": "begun"}, "'event' must be began or ended"),
        ({"refused": "no"}, "'refused' must be true or"),
    ],
)
def test_a_row_that_says_what_nobody_understands_is_an_error(
    more: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceSourceError, match=f"row 1: {problem}"):
        read(written(tmp_path / "t.jsonl", {"tool": "pay", **more}))


def test_a_number_that_is_none_is_judged_and_not_a_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"tool": "pay", "args": {"amount": NaN}}\n', encoding="utf-8")
    (told, _) = story(read(path)[0])
    assert repr(told) == "('pay', {'amount': nan})"


def test_the_right_format_is_suggested(tmp_path: Path) -> None:
    path = written(tmp_path / "m.jsonl", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    with pytest.raises(TraceSourceError, match="is no otlp; say --format mcp"):
        read(path, format="otlp")
    with pytest.raises(TraceSourceError, match="is no recording that is known; --format takes"):
        read(written(tmp_path / "x.jsonl", {"a": 1}))
    (tmp_path / "packed.jsonl.gz").write_bytes(b"\x1f\x8b\x08")
    with pytest.raises(TraceSourceError, match="holds no JSON that can be read: it is empty, packed, cut"):
        read(tmp_path / "packed.jsonl.gz")
    with pytest.raises(TraceSourceError, match="could not be read"):
        read(tmp_path / "missing.jsonl")


def test_a_folder_counts_what_it_does_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    written(tmp_path / "a" / "t.jsonl", {"tool": "x"})
    written(tmp_path / "other.json", {"a": 1})
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    events, unread = read(tmp_path)
    assert story(events) == [("x", {}), ("x", "ok", NOT_RECORDED)]
    assert unread == {"files with another ending": 1, "files that are no recording": 1}


def test_a_file_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    """By its name and with its folder, or through a link: its calls happened once."""
    path = written(tmp_path / "a.jsonl", {"tool": "pay"})
    (tmp_path / "link.jsonl").symlink_to(path)

    events, unread = read(path, tmp_path)

    assert story(events) == [("pay", {}), ("pay", "ok", NOT_RECORDED)]
    assert unread == {"files that were given twice": 2}


def test_what_is_left_out_of_a_folder_is_counted(tmp_path: Path) -> None:
    """Links that lead in a circle or to nothing, and YAML that holds no trace."""
    written(tmp_path / "a.jsonl", {"tool": "pay"})
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nothing")
    (tmp_path / "rules.yaml").write_text("contracts: []")
    (tmp_path / "bad.yaml").write_text("a: [b")
    (tmp_path / "trace.yaml").write_text("- tool: look")

    events, unread = read(tmp_path)

    assert [call.tool for call in events if isinstance(call, Began)] == ["pay", "look"]
    assert unread == {
        "links to folders, which are not followed": 1,
        "links to nothing, and what is no file": 1,
        "files that are no recording": 2,
    }


def test_files_of_a_folder_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    for name in ("log-10.jsonl", "log-9.jsonl", "log.jsonl", "7.jsonl"):
        written(tmp_path / name, {"tool": name})

    events, _ = read(tmp_path)

    found = [call.tool for call in events if isinstance(call, Began)]
    assert found == ["7.jsonl", "log-9.jsonl", "log-10.jsonl", "log.jsonl"]


def test_a_pipe_is_answered_at_once(tmp_path: Path) -> None:
    """It cannot be read twice, and to wait for somebody who writes would be for ever."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(TraceSourceError, match="is no file: write what comes out of a pipe to one"):
        read(tmp_path / "pipe")


def test_the_session_may_be_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "t.jsonl", {"tool": "x", "session_id": "a"}, {"tool": "x", "session_id": "b"})
    events, _ = read(path, by_file=True)
    assert {event.session for event in events if isinstance(event, Began)} == {str(path)}


def test_calls_side_by_side_in_a_transcript_are_all_there(tmp_path: Path) -> None:
    """Each has a line of its own, and results, notes and errors of the network hang at any of them."""
    read_it, write_it, look = (
        {"type": "tool_use", "id": f"t{n}", "name": name, "input": {}}
        for n, name in enumerate(("Read", "Write", "Look"))
    )
    done = [{"type": "tool_result", "tool_use_id": f"t{n}", "content": str(n)} for n in range(3)]
    path = written(
        tmp_path / "s-1.jsonl",
        line("a", None, "user", {"type": "text", "text": "hi"}),
        line("b", "a", "assistant", read_it),
        line("c", "b", "assistant", write_it),
        line("d", "c", "user", done[1]),
        line("e", "b", "user", done[0]),  # the next line hangs here, and c is above none that goes on
        line("f", "e", "assistant", look),
        {"type": "system", "subtype": "api_error", "uuid": "g", "parentUuid": "e", "sessionId": "s-1"},
        line("h", "f", "user", done[2]),
        line("c", "b", "assistant", write_it),
        line("i", "g", "user", {"type": "text", "text": "go on"}),
    )
    events, unread = read(path)
    assert story(events) == [
        ("Read", {}),
        ("Write", {}),
        ("Write", "ok", "1"),
        ("Read", "ok", "0"),
        ("Look", {}),
        ("Look", "ok", "2"),
    ]
    assert unread == {"a line that stands twice": 1}


def mcp_call(id: object, tool: str, **args: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": args}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def mcp_answer(id: object, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}}


def sessions_of(events: list[TraceEvent]) -> list[str]:
    return [event.session for event in events if isinstance(event, Began)]


def test_ids_begin_anew_with_each_mcp_connection(tmp_path: Path) -> None:
    """An initialize begins one; calls that had no answer by then have none."""
    initialize = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    path = written(
        tmp_path / "wire.jsonl",
        initialize,
        mcp_call(1, "pay", to="a"),
        mcp_answer(1, "paid"),
        mcp_call(2, "look"),
        initialize,
        mcp_call(1, "pay", to="b"),
        mcp_answer(1, "paid"),
        mcp_call(1, "pay", to="c"),
    )
    events, unread = read(path)
    assert [told[:2] for told in story(events)] == [
        ("pay", {"to": "a"}),
        ("pay", "ok"),
        ("look", {}),
        ("pay", {"to": "b"}),
        ("pay", "ok"),
        ("pay", {"to": "c"}),
        ("look", "unknown"),
        ("pay", "unknown"),
    ]
    assert sessions_of(events) == [str(path)] * 2 + [f"{path}:5"] * 2
    assert unread == {}


def test_a_line_says_of_which_mcp_connection_it_is(tmp_path: Path) -> None:
    """As loggers write it: beside the message or around it, in headers, with a time."""
    around = {"timestamp": "2026-11-30T10:00:00Z", "direction": "in", "session": "s-1"}
    headers = {"time": 1_796_032_800_500, "headers": {"Mcp-Session-Id": "s-2"}}
    path = written(
        tmp_path / "wire.jsonl",
        {**around, "message": mcp_call(1, "pay", to="a")},
        {**headers, "raw": json.dumps(mcp_call(1, "pay", to="b"))},
        {**headers, "raw": json.dumps(mcp_answer(1, "second"))},
        {**around, "message": mcp_answer(1, "first")},
        {**mcp_call(1, "pay", to="c"), "sessionId": "s-3"},
    )
    events, unread = read(path)
    assert sessions_of(events) == ["s-1", "s-2", "s-3"]
    assert [event.at for event in events if isinstance(event, Began)] == [1796032800.0, 1796032800.5, None]
    ended = {event.call.session: event.outcome for event in events if isinstance(event, Ended)}
    assert ended == {"s-1": "ok", "s-2": "ok", "s-3": "unknown"}
    assert unread == {}


def test_calls_of_mcp_connections_that_nothing_tells_apart_are_all_judged(tmp_path: Path) -> None:
    """Which of two an answer is to nobody can say, so neither has one."""
    path = written(
        tmp_path / "wire.jsonl",
        mcp_call(1, "pay", to="a"),
        mcp_call(1, "pay", to="b"),
        mcp_answer(1, "paid"),
        mcp_answer(1, "paid"),
    )
    events, unread = read(path)
    assert [told[1] for told in story(events)] == [{"to": "a"}, "unknown", {"to": "b"}, "unknown"]
    assert unread == {"an id that stands twice": 1}


def test_what_a_client_answers_its_mcp_server_is_no_result(tmp_path: Path) -> None:
    """A server that asks the user counts its own ids."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {}}
    path = written(
        tmp_path / "wire.jsonl",
        mcp_call(1, "pay"),
        asked,
        {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}},
        mcp_answer(1, "paid"),
    )
    assert story(read(path)[0])[1] == ("pay", "ok", {"content": [{"type": "text", "text": "paid"}]})


ODD: list[Any] = [None, 1e400, [], {}, "\ud800", "9" * 5000]


def odd_ones(value: Any) -> Iterator[Any]:
    """Give a value with something else in each place of it, one after the other."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in parts:
        for odd in odd_ones(part):
            changed = value.copy()
            changed[place] = odd
            yield changed


TAKEN: dict[str, list[Any]] = {
    "rows": [{"event": "began", "call": "1", "tool": "pay", "args": {"n": 1}, "ts": 1.0, "session_id": "s"}],
    "mcp": [
        {"time": 1, "headers": {"Mcp-Session-Id": "s"}, "message": mcp_call(1, "pay")},
        mcp_answer(1, ""),
    ],
    "openai": [
        {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "pay", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "paid"},
    ],
    "claude-code": [
        line("a", None, "user", {"type": "text", "text": "hi"}),
        line("b", "a", "assistant", {"type": "tool_use", "id": "t", "name": "pay", "input": {}}),
        line("c", "b", "user", {"type": "tool_result", "tool_use_id": "t", "content": "paid"}),
    ],
    "otlp": spans({"start": 1, "end": 2, "attributes": gen_ai("pay", more=1)}),
}


@pytest.mark.parametrize("format", TAKEN)
def test_whatever_stands_anywhere_is_read_or_counted(format: str, tmp_path: Path) -> None:
    """A log holds what others wrote: nothing in it is an error of ours, and each call has one end."""
    for number, one in enumerate(TAKEN[format]):
        for odd in odd_ones(one):
            lines = [*TAKEN[format][:number], odd, *TAKEN[format][number + 1 :]]
            path = written(tmp_path / "odd.jsonl", *lines)
            try:
                events, _ = read(path, format=format)
            except TraceSourceError:
                continue
            begun = [event for event in events if isinstance(event, Began)]
            assert {id(e.call) for e in events if isinstance(e, Ended)} == set(map(id, begun))
            assert len(events) == 2 * len(begun)
